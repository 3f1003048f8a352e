"""How many consumers of a queue run at once."""

from contextlib import ExitStack

import pytest
from django.db import connection

from dlqadmin.clock import ClockTimestamp
from dlqadmin.consumers.consume import take_turn
from dlqadmin.consumers.slots import slot_of
from dlqadmin.messages.models import Message
from dlqadmin.queues.models import ConsumerSlot, SourceQueue
from tests.consumers.work import Session, publish_notes


def hold(stack: ExitStack, queue: SourceQueue, times: int = 1) -> list[bool]:
    """Take so many slots; whether each was free."""
    return [stack.enter_context(slot_of(queue)) is not None for _ in range(times)]


@pytest.mark.parametrize("concurrency", [1, 2, 3, 8])
def test_as_many_consumers_as_its_concurrency_says_get_a_slot_and_no_more(make_queue, concurrency) -> None:
    queue = make_queue(concurrency=concurrency)
    with ExitStack() as stack:
        assert hold(stack, queue, concurrency + 2) == [True] * concurrency + [False] * 2


def test_a_slot_that_is_given_back_is_free_at_once(make_queue) -> None:
    queue = make_queue(concurrency=1)
    for _ in range(3):
        with slot_of(queue) as slot:
            assert slot
        assert ConsumerSlot.objects.get().holder == ""


def test_a_slot_is_given_back_when_the_turn_fails(make_queue) -> None:
    queue = make_queue(concurrency=1)
    with pytest.raises(ZeroDivisionError), slot_of(queue):
        raise ZeroDivisionError
    with slot_of(queue) as slot:
        assert slot


def test_the_slot_of_a_lost_consumer_is_taken_again_and_its_late_return_takes_it_from_nobody(
    make_queue,
) -> None:
    queue = make_queue(concurrency=1)
    with slot_of(queue) as lost:
        ConsumerSlot.objects.update(until=ClockTimestamp())
        heir = slot_of(queue)
        taken = heir.__enter__()
        assert taken
        assert lost
        assert (taken[0], taken[1]) == (lost[0], lost[1] + 1)
    with slot_of(queue) as third:
        assert third is None
    heir.__exit__(None, None, None)
    with slot_of(queue) as third:
        assert third


def test_a_lowered_concurrency_is_respected_and_a_raised_one_makes_slots(make_queue) -> None:
    queue = make_queue(concurrency=3)
    with ExitStack() as stack:
        assert hold(stack, queue, 3) == [True] * 3
        queue.concurrency = 2
        assert hold(stack, queue) == [False]
        queue.concurrency = 4
        assert hold(stack, queue, 2) == [True, False]
    queue.concurrency = 2
    with ExitStack() as stack:
        assert hold(stack, queue, 3) == [True, True, False]


def test_queues_do_not_share_slots(make_queue) -> None:
    one, other = make_queue("one", concurrency=1), make_queue("other", concurrency=1)
    with ExitStack() as stack:
        assert [*hold(stack, one, 2), *hold(stack, other, 2)] == [True, False, True, False]


def test_a_turn_without_a_slot_consumes_nothing_and_asks_for_no_other_turn(make_queue, handle) -> None:
    queue = make_queue(concurrency=1)
    handle(queue, lambda message: None)
    publish_notes(queue, range(3))
    with slot_of(queue):
        assert take_turn(queue) is False
    assert Message.objects.count() == 3
    take_turn(queue, seconds=30)
    assert not Message.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_slot_that_another_consumer_is_just_taking_is_passed_over(make_queue) -> None:
    queue = make_queue(concurrency=2)
    with ExitStack() as stack:
        hold(stack, queue, 2)
    session = Session()
    session.begin()
    session.do(lambda: ConsumerSlot.objects.select_for_update().get(number=1))
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '2s'")
        with slot_of(queue) as slot:
            assert slot
            assert slot[0] == ConsumerSlot.objects.get(number=2).pk
    finally:
        session.close()
        connection.close()
