"""Celery task of the demo."""

from celery import shared_task

from dlqadmin.demo import library


@shared_task(name="dlqadmin.demo.trickle")
def trickle() -> None:
    """Publish a few new messages, so that pages move."""
    library.trickle()
