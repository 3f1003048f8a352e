"""Keys that wait for a letter."""

import pytest

from dlqadmin.consumers.claim import claim_batch, claim_single
from dlqadmin.consumers.consume import consume_batch
from dlqadmin.consumers.settle import give_back
from dlqadmin.deadletters.capture import Death, dead_letters
from dlqadmin.deadletters.holding import letters_settled, park_at_letters, release_parked
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.failure import ErrorRecord
from dlqadmin.messages.models import Message, QueueKey
from dlqadmin.messages.ordering import let_go
from dlqadmin.queues.models import SourceQueue
from tests.consumers.work import publish_keyed


@pytest.fixture
def queue(make_queue) -> SourceQueue:
    """An ordered queue that holds its keys."""
    return make_queue("orders", ordered=True, on_death="hold")


def kill_head(queue: SourceQueue, number: int = 1) -> list[DeadLetter]:
    """The first messages of a key die, although its queue may hold it."""
    letters = []
    for _ in range(number):
        QueueKey.objects.update(parked_position=None)
        let_go(QueueKey.objects.values_list("pk", flat=True))
        claim = claim_single(queue, by_key=True)
        assert claim
        death = Death(claim.messages[0].id, DeadLetter.Reason.THRESHOLD, ErrorRecord.of_text("boom"), 1, 0)
        pks = dead_letters(queue=queue.pk, claim=claim.token, worker="w", deaths=[death])
        give_back(claim)
        letters.append(DeadLetter.objects.get(pk=pks[0]))
    return letters


def parked() -> int | None:
    return QueueKey.objects.get(key=b"a").parked_position


def settle(queue: SourceQueue, letter: DeadLetter, state: str = "discarded") -> None:
    DeadLetter.objects.filter(pk=letter.pk).update(state=state)
    letters_settled(queue.pk, [b"a"])


def test_a_key_is_parked_at_its_letter_and_the_row_stays_even_without_messages(queue) -> None:
    publish_keyed(queue, ("a", 0))
    (letter,) = kill_head(queue)
    assert parked() == letter.position
    assert QueueKey.objects.get().parked_at


def test_a_key_with_more_letters_is_parked_at_the_first_that_is_not_settled(queue) -> None:
    publish_keyed(queue, *[("a", n) for n in range(5)])
    first, second, third = kill_head(queue, 3)
    assert parked() == first.position
    settle(queue, second)
    assert parked() == first.position
    settle(queue, first)
    assert parked() == third.position
    settle(queue, third)
    assert parked() is None


@pytest.mark.parametrize(
    ("state", "holds"),
    [("open", True), ("redriving", True), ("resolved", False), ("returned", False), ("discarded", False)],
)
def test_a_letter_holds_its_key_as_long_as_it_is_open_or_being_redriven(queue, state, holds) -> None:
    publish_keyed(queue, ("a", 0), ("a", 1))
    (letter,) = kill_head(queue)
    settle(queue, letter, state)
    assert (parked() is not None) is holds


def test_since_when_a_key_is_parked_does_not_change_while_it_is(queue) -> None:
    publish_keyed(queue, *[("a", n) for n in range(3)])
    kill_head(queue)
    since = QueueKey.objects.get().parked_at
    park_at_letters([QueueKey.objects.get().pk])
    assert QueueKey.objects.get().parked_at == since


def test_a_letter_of_another_queue_or_key_holds_nothing(queue, make_queue) -> None:
    other = make_queue("other", ordered=True, on_death="hold")
    publish_keyed(other, ("a", 0))
    kill_head(other)
    publish_keyed(queue, ("b", 0))
    kill_head(queue)
    publish_keyed(queue, ("a", 0))
    assert claim_batch(queue, 10, by_key=True)
    assert QueueKey.objects.get(queue=queue, key=b"a").parked_position is None


def test_settling_letters_of_keys_that_are_not_known_does_nothing(queue) -> None:
    letters_settled(queue.pk, [b"nobody", b""])
    letters_settled(queue.pk, [])
    assert not QueueKey.objects.exists()


def test_a_key_without_messages_is_forgotten_with_its_last_letter(queue) -> None:
    publish_keyed(queue, ("a", 0))
    (letter,) = kill_head(queue)
    settle(queue, letter)
    assert not QueueKey.objects.exists()


def test_who_has_claimed_a_key_sees_that_its_letter_was_settled_meanwhile(queue) -> None:
    publish_keyed(queue, ("a", 0), ("a", 1))
    (letter,) = kill_head(queue)
    (late,) = publish_keyed(queue, ("a", 2))
    Message.objects.filter(pk=late).update(position=letter.position - 1)
    claim = claim_batch(queue, 10, by_key=True)
    assert [one.id for one in claim.messages] == [late]
    settle(queue, letter)
    assert parked() == letter.position
    give_back(claim)
    assert parked() is None


def test_keys_of_a_queue_that_does_not_hold_them_any_more_are_released_by_the_sweep(queue, handle) -> None:
    handle(queue, lambda message: None)
    publish_keyed(queue, ("a", 0), ("a", 1))
    kill_head(queue)
    assert release_parked() == 0
    SourceQueue.objects.update(on_death="release")
    assert release_parked() == 1
    assert release_parked() == 0
    queue.refresh_from_db()
    assert consume_batch(queue).total() == 1
    assert not QueueKey.objects.exists()


def test_the_sweep_releases_a_limited_number_and_leaves_claimed_keys_alone(queue) -> None:
    publish_keyed(queue, *[(key, 0) for key in "abc"])
    for _ in "abc":
        claim = claim_single(queue, by_key=True)
        assert claim
        death = Death(claim.messages[0].id, DeadLetter.Reason.THRESHOLD, ErrorRecord.of_text("boom"), 1, 0)
        dead_letters(queue=queue.pk, claim=claim.token, worker="w", deaths=[death])
        give_back(claim)
    assert QueueKey.objects.exclude(parked_position=None).count() == 3
    SourceQueue.objects.update(on_death="release")
    (late,) = publish_keyed(queue, ("b", 1))
    Message.objects.filter(pk=late).update(position=1)
    assert claim_batch(queue, 10, by_key=True)
    assert [release_parked(most=1), release_parked(most=1), release_parked(most=1)] == [1, 1, 0]
