"""Celery tasks of the queues."""

from celery import shared_task

from dlqadmin.queues import books


@shared_task(name="dlqadmin.queues.fold_books")
def fold_books() -> None:
    """Fold the entries of the books into their totals."""
    books.fold()
