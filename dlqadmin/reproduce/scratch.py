"""A queue of its own for a reproduction, gone afterwards."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from dlqadmin.clock import ClockTimestamp, db_now
from dlqadmin.consumers.consume import Round, consume_once
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.models import Attempt, Claim, Message
from dlqadmin.people.models import AuditEntry
from dlqadmin.queues.models import AccountDelta, SourceQueue
from dlqadmin.redrive.models import Diagnosis, Redrive, RedriveItem


@contextmanager
def scratch_queue(max_attempts: int, **policy: Any) -> Iterator[SourceQueue]:
    """A native queue with this threshold, other fields as given, and no wait between attempts.

    It is archived from the start, so the workers, alerts and pages of a running dlqadmin leave it alone.
    """
    queue = SourceQueue.objects.create(
        name=f"reproduce-{secrets.token_hex(6)}",
        max_attempts=max_attempts,
        backoff_base=0.0,
        backoff_jitter=False,
        archived_at=ClockTimestamp(),
        **policy,
    )
    try:
        yield queue
    finally:
        _remove(queue)


def rounds(queue: SourceQueue, number: int) -> Round:
    """Deliver every waiting message once, `number` times over; what was delivered in all."""
    total = Round()
    for _ in range(number):
        for outcome, count in consume_once(queue, db_now()).outcomes.items():
            total.outcomes[outcome] += count
    return total


@transaction.atomic
def _remove(queue: SourceQueue) -> None:
    redrives = Redrive.objects.filter(queue=queue)
    AuditEntry.objects.filter(
        object_type="redrive", object_id__in=[str(pk) for pk in redrives.values_list("pk", flat=True)]
    ).delete()
    clusters = [str(pk) for pk in queue.clusters.values_list("pk", flat=True)]
    AuditEntry.objects.filter(object_type="errorcluster", object_id__in=clusters).delete()
    RedriveItem.objects.filter(redrive__queue=queue).delete()
    redrives.delete()
    Diagnosis.objects.filter(cluster__queue=queue).delete()
    Message.objects.filter(queue=queue).delete()
    Claim.objects.filter(queue=queue).delete()
    DeadLetter.objects.filter(queue=queue).delete()
    Attempt.objects.filter(queue=queue).delete()
    AccountDelta.objects.filter(queue_id=queue.pk).delete()
    queue.delete()
