"""The books of a queue."""

from dlqadmin.queues import books
from dlqadmin.queues.models import AccountDelta, AccountKind
from dlqadmin.redrive.ledger import Ledger, read_ledger


def test_a_reader_sees_entries_before_and_after_they_are_folded(queue) -> None:
    books.post(queue.pk, AccountKind.RECEIVED, 5)
    books.post(queue.pk, AccountKind.PROCESSED)
    before = read_ledger(queue.pk)
    assert books.fold() == 2
    books.post(queue.pk, AccountKind.RECEIVED)
    after = read_ledger(queue.pk)
    assert (before.received, before.processed) == (5, 1)
    assert (after.received, after.processed) == (6, 1)
    assert AccountDelta.objects.count() == 1


def test_folding_takes_a_limited_number_and_loses_none(queue) -> None:
    for _ in range(7):
        books.post(queue.pk, AccountKind.RECEIVED)
    assert [books.fold(most=3) for _ in range(4)] == [3, 3, 1, 0]
    assert read_ledger(queue.pk).received == 7


def test_an_undo_is_a_counter_entry(queue) -> None:
    books.post(queue.pk, AccountKind.DISCARDED, 4)
    books.post(queue.pk, AccountKind.DISCARDED, -4)
    assert read_ledger(queue.pk).discarded == 0


def test_entries_of_a_queue_that_is_gone_are_dropped(queue) -> None:
    books.post(queue.pk + 1000, AccountKind.RECEIVED)
    books.post(queue.pk, AccountKind.RECEIVED)
    assert books.fold() == 2
    assert read_ledger(queue.pk).received == 1


def test_a_queue_without_entries_reads_as_zero(queue) -> None:
    assert read_ledger(queue.pk) == Ledger()
