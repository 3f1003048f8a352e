"""The rows of keys: what they say of the first message of each, and who may write them."""

import pytest
from django.db import connection, transaction

from dlqadmin.consumers.claim import claim_batch
from dlqadmin.messages.models import Claim, KeyArrival, Message, QueueKey
from dlqadmin.messages.ordering import (
    blocked_keys,
    file_arrivals,
    hold_free_keys,
    hold_keys,
    let_go,
)
from dlqadmin.messages.publish import publish
from dlqadmin.redrive.ledger import read_ledger
from tests.consumers.work import Session, publish_keyed, publish_notes, wait_until_blocked

REAL = pytest.mark.django_db(transaction=True)


@pytest.fixture
def queue(make_queue):
    """An ordered queue."""
    return make_queue("orders", ordered=True)


@pytest.fixture
def session():
    session = Session()
    yield session
    session.close()


def row(key: bytes = b"a") -> QueueKey:
    return QueueKey.objects.get(key=key)


def test_a_message_of_a_key_announces_itself_and_one_without_does_not(queue) -> None:
    publish_keyed(queue, ("a", 0), ("b", 0), ("a", 1))
    publish_notes(queue, range(3))
    assert sorted(bytes(one.key) for one in KeyArrival.objects.all()) == [b"a", b"b"]
    assert not QueueKey.objects.exists()


def test_in_other_queues_a_key_is_a_field_like_any_other(make_queue) -> None:
    queue = make_queue()
    publish_keyed(queue, ("a", 0))
    assert not KeyArrival.objects.exists()
    assert not Message.objects.get().by_key


def test_filing_makes_the_rows_of_keys_with_their_first_message(queue) -> None:
    ids = publish_keyed(queue, ("a", 0), ("b", 0), ("a", 1))
    assert file_arrivals(queue.pk) == 2
    assert (row(b"a").head, row(b"b").head) == (ids[0], ids[1])
    assert row(b"a").due_at == Message.objects.get(pk=ids[0]).available_at
    assert not KeyArrival.objects.exists()
    assert file_arrivals(queue.pk) == 0


def test_filing_takes_a_limited_number_and_only_this_queues(queue, make_queue) -> None:
    other = make_queue("other", ordered=True)
    publish_keyed(other, ("z", 0))
    for n in range(5):
        publish_keyed(queue, (f"k{n}", n))
    assert [file_arrivals(queue.pk, most=2) for _ in range(4)] == [2, 2, 1, 0]
    assert KeyArrival.objects.get().queue_id == other.pk


def test_filing_again_changes_nothing_but_the_head_if_an_older_message_came(queue) -> None:
    ids = publish_keyed(queue, ("a", 0))
    file_arrivals(queue.pk)
    before = row()
    publish_keyed(queue, ("a", 1))
    file_arrivals(queue.pk)
    assert (row().pk, row().head, row().due_at) == (before.pk, ids[0], before.due_at)
    late = publish_keyed(queue, ("a", 2))
    Message.objects.filter(pk__in=late).update(position=ids[0] - 1)
    file_arrivals(queue.pk)
    assert row().head == ids[0] - 1


def test_filing_leaves_a_claimed_key_to_who_has_it(queue) -> None:
    publish_keyed(queue, ("a", 0))
    claim = claim_batch(queue, 10, by_key=True)
    publish_keyed(queue, ("a", 1))
    assert file_arrivals(queue.pk) == 1
    assert row().claim_id == claim.token


def test_letting_go_writes_the_new_head_and_removes_the_row_of_a_key_without_messages(queue) -> None:
    ids = publish_keyed(queue, ("a", 0), ("a", 1), ("b", 0))
    claim = claim_batch(queue, 10, by_key=True)
    Message.objects.filter(pk__in=[ids[0], ids[2]]).delete()
    let_go(hold_keys(claim.token))
    assert (row(b"a").head, row(b"a").claim) == (ids[1], None)
    assert not QueueKey.objects.filter(key=b"b").exists()


def test_a_parked_key_keeps_its_row_without_messages_and_is_not_due(queue) -> None:
    ids = publish_keyed(queue, ("a", 0), ("a", 1))
    file_arrivals(queue.pk)
    QueueKey.objects.update(parked_position=ids[0], parked_at=row().due_at)
    Message.objects.filter(pk=ids[0]).delete()
    let_go([row().pk])
    assert (row().head, row().due_at, row().blocked_at) == (ids[1], None, row().parked_at)
    Message.objects.all().delete()
    let_go([row().pk])
    assert (row().head, row().due_at) == (None, None)


def test_a_message_up_to_where_the_key_is_parked_is_due_and_does_not_block(queue) -> None:
    ids = publish_keyed(queue, ("a", 0), ("a", 1))
    file_arrivals(queue.pk)
    QueueKey.objects.update(parked_position=ids[0], parked_at=row().due_at)
    let_go([row().pk])
    assert row().due_at == Message.objects.get(pk=ids[0]).available_at
    assert row().blocked_at is None
    assert blocked_keys(queue.pk) == []


def test_keys_that_somebody_has_claimed_are_locked_but_not_given(queue) -> None:
    publish_keyed(queue, ("a", 0))
    assert claim_batch(queue, 10, by_key=True)
    publish_keyed(queue, ("b", 0))
    file_arrivals(queue.pk)
    assert hold_free_keys(queue.pk, [b"a", b"b", b"none"]) == [row(b"b").pk]


def test_a_row_that_says_a_key_is_due_although_it_is_not_is_put_right_by_the_claim(queue) -> None:
    publish_keyed(queue, ("a", 0))
    file_arrivals(queue.pk)
    Message.objects.all().delete()
    assert claim_batch(queue, 10, by_key=True) is None
    assert not QueueKey.objects.exists()


def test_a_batch_shares_its_size_among_the_keys_it_found(queue) -> None:
    publish_keyed(queue, *[(key, n) for n in range(10) for key in "ab"])
    claim = claim_batch(queue, 8, by_key=True)
    assert [(bytes(one.key), one.position) for one in claim.messages] == [
        (bytes(one.key), one.position) for one in Message.objects.order_by("position")[:8]
    ]
    assert set(Claim.objects.get().message_ids) == {one.id for one in claim.messages}
    assert read_ledger(queue.pk).running == 8


@REAL
def test_two_consumers_that_file_the_same_arrivals_share_them(queue, session) -> None:
    publish_keyed(queue, ("a", 0), ("b", 0))
    session.begin()
    assert session.do(file_arrivals, queue.pk, 1) == 1
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '2s'")
    try:
        assert file_arrivals(queue.pk) == 1
    finally:
        session.commit()
        connection.close()
    assert QueueKey.objects.exclude(head=None).count() == 2


@REAL
def test_a_key_whose_row_is_being_removed_is_made_again_by_who_files_it(queue, session) -> None:
    publish_keyed(queue, ("a", 0))
    claim = claim_batch(queue, 10, by_key=True)
    with transaction.atomic():
        Message.objects.all().delete()
        let_go(hold_keys(claim.token))
        session.do(publish, queue, type="note", body={"n": 1}, key="a")
        filing = session.start(file_arrivals, queue.pk)
        assert wait_until_blocked(filing)
    assert filing.result(timeout=20) == 1
    assert row().head == Message.objects.get().position


@REAL
def test_a_publisher_waits_for_nobody_who_has_the_row_of_its_key(queue, session) -> None:
    publish_keyed(queue, ("a", 0))
    file_arrivals(queue.pk)
    session.begin()
    session.do(lambda: list(QueueKey.objects.select_for_update()))
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '500ms'")
        assert publish_keyed(queue, ("a", 1))
    finally:
        session.commit()
        connection.close()
