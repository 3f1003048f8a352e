"""Celery task of the redrives."""

from celery import shared_task

from dlqadmin.redrive.run import advance_redrives
from dlqadmin.redrive.start import SWEEP_TASK


@shared_task(name=SWEEP_TASK)
def sweep() -> None:
    """Take every running redrive as far as it goes now."""
    advance_redrives()
