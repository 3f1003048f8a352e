"""The Celery task and the singleton jobs of the consumers."""

from celery import shared_task

from dlqadmin.consumers.consume import take_turn
from dlqadmin.consumers.pool import refuse_other_pools
from dlqadmin.consumers.sweep import HAS_WORK, expire_claims, wake_queues_with_work
from dlqadmin.consumers.timeout import require_main_thread
from dlqadmin.deadletters.holding import STILL_PARKED, release_parked
from dlqadmin.leases.jobs import job
from dlqadmin.messages.retention import prune
from dlqadmin.messages.wakeups import CONSUME_TASK, wake_now, wakeup_arrived
from dlqadmin.queues.models import SourceQueue

__all__ = ["consume", "refuse_other_pools"]  # a worker that loads its tasks also judges its pool


@shared_task(name=CONSUME_TASK)
def consume(queue_id: int) -> None:
    """Consume a queue for a turn; ask for another turn if work is left."""
    require_main_thread()
    wakeup_arrived(queue_id)
    queue = SourceQueue.objects.filter(
        pk=queue_id, kind=SourceQueue.Kind.NATIVE, paused=False, archived_at=None
    ).first()
    if queue and take_turn(queue):
        wake_now(queue_id)


@job("consumers.sweep", every=2, limit=15, when=f"{HAS_WORK} OR {STILL_PARKED}")
def sweep() -> None:
    """Free what lost workers held, and wake consumers for what is due."""
    expire_claims()
    release_parked()
    wake_queues_with_work()


job("messages.prune", every=600, limit=300)(prune)
