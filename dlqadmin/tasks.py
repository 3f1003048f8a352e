"""Index of all Celery tasks and singleton jobs, so that a worker and beat find them in their packages."""

from dlqadmin.alerts import tasks as alerts
from dlqadmin.clusters import tasks as clusters
from dlqadmin.consumers import tasks as consumers
from dlqadmin.deadletters import tasks as deadletters
from dlqadmin.demo import tasks as demo
from dlqadmin.leases import tasks as leases
from dlqadmin.queues import tasks as queues
from dlqadmin.redrive import tasks as redrive

__all__ = ["alerts", "clusters", "consumers", "deadletters", "demo", "leases", "queues", "redrive"]
