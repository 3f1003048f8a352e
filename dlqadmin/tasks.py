"""Index of all Celery tasks, so that a worker finds them in their packages."""

from dlqadmin.alerts.tasks import sweep as sweep_alerts
from dlqadmin.consumers.tasks import consume, sweep
from dlqadmin.demo.tasks import trickle
from dlqadmin.queues.tasks import fold_books
from dlqadmin.redrive.tasks import sweep as sweep_redrives

__all__ = ["consume", "fold_books", "sweep", "sweep_alerts", "sweep_redrives", "trickle"]
