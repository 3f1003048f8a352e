"""The Celery task and the singleton job of the consumers."""

from celery import shared_task

from dlqadmin.consumers.consume import consume_for
from dlqadmin.consumers.sweep import expire_claims, wake_queues_with_work
from dlqadmin.leases.jobs import job
from dlqadmin.messages.wakeups import CONSUME_TASK, send_wakeup
from dlqadmin.queues.models import SourceQueue

# Short, so that a warm shutdown is quick, a change of the queue's settings is noticed, and queues take turns.
TURN_SECONDS = 1.0


@shared_task(name=CONSUME_TASK)
def consume(queue_id: int) -> None:
    """Consume a queue for a turn; ask for another turn if work is left."""
    # The wake-up has arrived: from now on the sweep may send another.
    SourceQueue.objects.filter(pk=queue_id).exclude(wake_pending_until=None).update(wake_pending_until=None)
    queue = SourceQueue.objects.filter(
        pk=queue_id, kind=SourceQueue.Kind.NATIVE, paused=False, archived_at=None
    ).first()
    if queue and not consume_for(queue, TURN_SECONDS):
        send_wakeup(queue_id, queue.celery_queue)


@job("consumers.sweep", every=2, limit=15)
def sweep() -> None:
    """Free what lost workers held, and wake consumers for what is due."""
    expire_claims()
    wake_queues_with_work()
