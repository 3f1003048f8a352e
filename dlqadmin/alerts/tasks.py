"""Celery task of the alerts."""

from celery import shared_task

from dlqadmin.alerts.evaluate import evaluate
from dlqadmin.alerts.notify import deliver_due


@shared_task(name="dlqadmin.alerts.sweep")
def sweep() -> None:
    """Evaluate the rules, then send what is due."""
    evaluate()
    deliver_due()
