"""What is forgotten, and when."""

from datetime import timedelta

import pytest

from dlqadmin.clock import db_now
from dlqadmin.messages import retention
from dlqadmin.messages.idempotency import enter_ids, raise_versions
from dlqadmin.messages.models import Discard, KeyVersion, ProcessedId
from dlqadmin.queues.models import SourceQueue


def remember(queue: SourceQueue, days: float, number: int = 1) -> None:
    """So many ids and versions that were processed so many days ago."""
    moment = db_now() - timedelta(days=days)
    names = [f"{days}/{n}" for n in range(number)]
    ProcessedId.objects.bulk_create(
        ProcessedId(queue=queue, message_id=name, processed_at=moment) for name in names
    )
    KeyVersion.objects.bulk_create(
        KeyVersion(queue=queue, key=name.encode(), version=1, processed_at=moment) for name in names
    )


def left(queue: SourceQueue) -> tuple[set[str], set[str]]:
    ids = ProcessedId.objects.filter(queue=queue).values_list("message_id", flat=True)
    keys = KeyVersion.objects.filter(queue=queue).values_list("key", flat=True)
    return set(ids), {bytes(key).decode() for key in keys}


def test_ids_and_versions_are_kept_as_long_as_letters_and_no_longer(make_queue) -> None:
    queue = make_queue(retention_days=30)
    for days in (0, 29.9, 30.1, 400):
        remember(queue, days)
    retention.prune()
    assert left(queue) == ({"0/0", "29.9/0"}, {"0/0", "29.9/0"})


def test_each_queue_has_its_own_retention(make_queue) -> None:
    short, long = make_queue("short", retention_days=1), make_queue("long", retention_days=365)
    for queue in (short, long):
        for days in (2, 366):
            remember(queue, days)
    retention.prune()
    assert left(short) == (set(), set())
    assert left(long) == ({"2/0"}, {"2/0"})


def test_a_version_that_was_raised_again_is_young_again(make_queue) -> None:
    queue = make_queue(retention_days=30)
    remember(queue, 40)
    raise_versions(queue.pk, {b"40/0": 2})
    enter_ids(queue.pk, ["40/0"])  # known: no younger for that
    retention.prune()
    assert left(queue) == (set(), {"40/0"})


def test_more_than_one_transaction_takes_is_forgotten_too(make_queue, monkeypatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)
    queue = make_queue(retention_days=1)
    remember(queue, 2, number=10)
    retention.prune()
    assert left(queue) == (set(), set())


@pytest.mark.parametrize("number", [2, 3, 5, 12])
def test_of_the_discards_the_last_ones_of_each_queue_are_kept(make_queue, monkeypatch, number) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    monkeypatch.setattr(retention, "SAMPLE_OF_QUEUE", 3)
    queues = [make_queue(name) for name in ("one", "other")]
    for n in range(number):
        for queue in queues:
            Discard.objects.create(
                queue=queue, kind="stale", message_id=str(n), lineage="00000000-0000-0000-0000-000000000000"
            )
    retention.prune()
    for queue in queues:
        kept = Discard.objects.filter(queue=queue).order_by("id").values_list("message_id", flat=True)
        assert list(kept) == [str(n) for n in range(number)][-3:]


def test_without_queues_there_is_nothing_to_forget(db) -> None:
    retention.prune()
