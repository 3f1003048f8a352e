"""Waking consumers. A wake-up is only a hint: the rows are the truth, and a sweep finds what a lost hint left."""

import logging

from celery import current_app
from django.db import transaction

logger = logging.getLogger(__name__)

CONSUME_TASK = "dlqadmin.consumers.consume"


def wake(queue_id: int, celery_queue: str) -> None:
    """Tell a consumer, when the caller's transaction commits, that `queue_id` has work."""
    transaction.on_commit(lambda: send_wakeup(queue_id, celery_queue), robust=True)


def send_wakeup(queue_id: int, celery_queue: str) -> None:
    """Send the hint now. A broker that is away is logged, never raised: no message depends on it."""
    try:
        current_app.send_task(CONSUME_TASK, args=[queue_id], queue=celery_queue, retry=False)
    except Exception:
        logger.warning(
            "The broker did not take a wake-up for queue %s; the sweep will.", queue_id, exc_info=True
        )
