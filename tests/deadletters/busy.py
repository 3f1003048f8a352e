"""`python -m tests.deadletters.busy SEED DEEDS`: do so much of all that touches the books, beside others."""

import random
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import cycle
from typing import Any
from unittest.mock import patch

import django

django.setup()

from celery import Celery  # noqa: E402 - models need the line above
from django.db import connection, transaction  # noqa: E402

from dlqadmin.clock import ClockTimestamp  # noqa: E402
from dlqadmin.clusters import counts  # noqa: E402
from dlqadmin.clusters.models import ErrorCluster  # noqa: E402
from dlqadmin.consumers import Permanent  # noqa: E402
from dlqadmin.consumers.claim import claim_batch  # noqa: E402
from dlqadmin.consumers.consume import consume_batch, consume_one, take_turn  # noqa: E402
from dlqadmin.consumers.registry import declared  # noqa: E402
from dlqadmin.consumers.sweep import expire_claims  # noqa: E402
from dlqadmin.deadletters.holding import letters_settled  # noqa: E402
from dlqadmin.deadletters.models import DeadLetter  # noqa: E402
from dlqadmin.deadletters.sets import of_cluster  # noqa: E402
from dlqadmin.messages.models import Claim  # noqa: E402
from dlqadmin.messages.publish import Outgoing, publish_many  # noqa: E402
from dlqadmin.queues import books  # noqa: E402
from dlqadmin.queues.models import AccountKind, SourceQueue  # noqa: E402
from dlqadmin.redrive.diagnose import sign_diagnosis  # noqa: E402
from dlqadmin.redrive.run import advance_redrives  # noqa: E402
from dlqadmin.redrive.start import NO_CANARY, GateClosed, NothingToRedrive, start_redrive  # noqa: E402

# Name -> policy, and how the handlers of the queue are declared.
QUEUES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "repeatable": ({"max_attempts": 2}, {"repeatable": True}),
    "each": ({"idempotency": "ledger"}, {"atomic": False}),
    "ledger": ({"idempotency": "ledger"}, {}),
    "ordered": ({"ordered": True, "idempotency": "latest"}, {}),
    "holding": ({"ordered": True, "on_death": "hold"}, {"atomic": False}),
}


def handle(message) -> None:
    """Fails now and then, for good or not."""
    luck = random.random()
    if luck < 0.03:
        raise Permanent("never")
    if luck < 0.15:
        raise ValueError("not this time")


def publish(queue: SourceQueue) -> None:
    """From Python and from SQL; some of it twice, some of it out of order."""
    numbers = [random.randrange(500) for _ in range(random.randrange(1, 40))]
    numbers += sorted(numbers, reverse=True)[:3]
    publish_many(
        queue,
        [
            Outgoing(
                type="note", body={}, message_id=str(n), key=random.choice([f"k{n % 3}", None]), version=n
            )
            for n in numbers
        ],
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT dlqadmin_publish(%s, 'note', '{}', key => 'k1')", [queue.name])


def take_short_turn(queue: SourceQueue) -> None:
    """As a worker does."""
    take_turn(queue, 0.05)


def lose_a_worker(queue: SourceQueue) -> None:
    """A claim runs out in the hands of its worker."""
    claim = claim_batch(queue, random.randrange(1, 6), by_key=queue.ordered)
    if claim:
        Claim.objects.filter(pk=claim.token).update(until=ClockTimestamp())


def redrive(queue: SourceQueue) -> None:
    """Diagnose what died, and send it back."""
    for cluster in ErrorCluster.objects.filter(queue=queue):
        sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="bad luck", fix="better luck")
        with suppress(GateClosed, NothingToRedrive):
            start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
    advance_redrives()


# What a person makes of letters, in turn: state, resolution, account.
BY_HAND = cycle([("discarded", "", AccountKind.DISCARDED), ("resolved", "by hand", AccountKind.RESOLVED)])


@transaction.atomic
def settle_by_hand(queue: SourceQueue) -> None:
    """A person discards or resolves a letter, of whatever queue."""
    letter = DeadLetter.objects.open().select_for_update(skip_locked=True).first()
    if letter:
        state, resolution, account = next(BY_HAND)
        DeadLetter.objects.filter(pk=letter.pk).update(state=state, resolution=resolution)
        books.post(letter.queue_id, account)
        counts.post(letter.cluster_id, opened=-1)
        letters_settled(letter.queue_id, [] if letter.key is None else [bytes(letter.key)])


def main(seed: int, number: int) -> None:
    """All of it, in a random order."""
    random.seed(seed)
    queues = list(SourceQueue.objects.filter(name__in=QUEUES))
    deeds: list[Callable[[SourceQueue], object]] = [
        *[publish] * 4,
        *[consume_batch] * 3,
        *[consume_one] * 2,
        *[take_short_turn] * 2,
        *[settle_by_hand] * 2,
        lose_a_worker,
        lambda queue: expire_claims(),
        lambda queue: books.fold(50),
        lambda queue: counts.fold(50),
        redrive,
    ]
    with ExitStack() as stack:
        stack.enter_context(patch.object(Celery, "send_task"))
        for name, (_, options) in QUEUES.items():
            stack.enter_context(declared(name, type="note", function=handle, **options))
        for _ in range(number):
            random.choice(deeds)(random.choice(queues))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
