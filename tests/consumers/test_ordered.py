"""Order: the messages of one key run one after the other, as they were published, whatever happens to one of them."""

import os
import random
import time
import traceback
from collections import defaultdict
from itertools import permutations
from typing import Any

import pytest
from django.db import connection, transaction

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.consumers.claim import claim_batch
from dlqadmin.consumers.consume import consume_batch, consume_once, take_turn
from dlqadmin.consumers.settle import Outcome, give_back
from dlqadmin.consumers.sweep import expire_claims
from dlqadmin.deadletters.holding import letters_settled
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.messages.models import Attempt, Claim, KeyArrival, Message, QueueKey
from dlqadmin.messages.ordering import blocked_keys, file_arrivals
from dlqadmin.messages.publish import publish
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.ledger import read_ledger
from dlqadmin.redrive.run import send_pending
from dlqadmin.redrive.start import NO_CANARY, start_redrive
from tests.consumers.work import (
    LONG,
    Session,
    drain,
    effects,
    expire_now,
    leave_effect,
    publish_keyed,
    publish_notes,
    wait_until_blocked,
)

REAL = pytest.mark.django_db(transaction=True)
ALL_KEYS = [("a", 0), ("b", 0), ("a", 1), ("c", 0), ("a", 2), ("b", 1), ("c", 1), ("a", 3), ("b", 2)]


class Journal:
    """A handler that notes what ran, and fails for those in `bad`."""

    def __init__(self) -> None:
        self.bad: set[tuple[str, int]] = set()
        self.done: list[tuple[str, int]] = []

    def __call__(self, message) -> None:
        one = ((message.key or b"").decode(), message.data["n"])
        if one in self.bad:
            raise ValueError("bad")
        self.done.append(one)

    def of(self, key: str) -> list[int]:
        """The numbers of this key that ran."""
        return [n for name, n in self.done if name == key]


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def ordered(make_queue, handle, journal):
    """Make an ordered queue whose messages are handled by the journal."""

    def make(**policy) -> SourceQueue:
        queue = make_queue("orders", ordered=True, **policy)
        handle(queue, journal)
        return queue

    return make


# --- Order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_each_key_is_delivered_in_publish_order_over_all_batches(ordered, journal, size) -> None:
    queue = ordered()
    publish_keyed(queue, *ALL_KEYS)
    assert drain(queue, size) == {Outcome.PROCESSED: 9}
    assert {key: journal.of(key) for key in "abc"} == {"a": [0, 1, 2, 3], "b": [0, 1, 2], "c": [0, 1]}
    assert not QueueKey.objects.exists()
    assert not KeyArrival.objects.exists()


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("atomic", [True, False])
def test_each_key_is_delivered_in_publish_order_with_failures_too(make_queue, handle, size, atomic) -> None:
    queue = make_queue(ordered=True, max_attempts=0)
    dice, done = random.Random(size), []

    def handler(message) -> None:
        if dice.random() < 0.4:
            raise ValueError("bad luck")
        done.append((message.key, message.data["n"]))

    handle(queue, handler, atomic=atomic)
    publish_keyed(queue, *ALL_KEYS)
    drain(queue, size)
    assert sorted(done) == sorted((key.encode(), n) for key, n in ALL_KEYS)
    assert all(
        [n for k, n in done if k == key] == list(range(number)) for key, number in [(b"a", 4), (b"b", 3)]
    )


def test_a_failure_ends_its_keys_part_of_the_batch_and_the_rest_of_it_is_not_charged(
    ordered, journal
) -> None:
    queue = ordered(backoff_base=LONG)
    journal.bad = {("a", 1)}
    publish_keyed(queue, *ALL_KEYS)
    outcomes = consume_batch(queue)
    assert outcomes == {Outcome.PROCESSED: 6, Outcome.RETRY: 1, Outcome.GIVEN_BACK: 2}
    assert journal.of("a") == [0]
    rows: Any = Message.objects.order_by("position").values_list("attempts", "suspect", "claim")
    assert list(rows) == [(1, False, None), (0, False, None), (0, False, None)]
    assert +consume_batch(queue) == {}


def test_what_waits_behind_a_failed_message_runs_once_that_one_has_run(ordered, journal) -> None:
    queue = ordered()
    journal.bad = {("a", 0)}
    publish_keyed(queue, ("a", 0), ("a", 1), ("b", 0))
    consume_batch(queue)
    assert journal.done == [("b", 0)]
    journal.bad.clear()
    drain(queue)
    assert journal.of("a") == [0, 1]


def test_a_delayed_head_holds_its_key_back_and_no_other(ordered, journal) -> None:
    queue = ordered()
    publish_keyed(queue, ("a", 0), delay=LONG)
    publish_keyed(queue, ("a", 1), ("b", 0))
    drain(queue)
    assert journal.done == [("b", 0)]
    Message.objects.filter(available_at__gt=Message.objects.last().published_at).update(
        available_at=Message.objects.last().published_at
    )
    publish_keyed(queue, ("a", 2))  # whoever files it looks at the head again
    drain(queue)
    assert journal.of("a") == [0, 1, 2]


def test_a_delayed_message_in_the_middle_ends_its_keys_part_of_the_batch(ordered, journal) -> None:
    queue = ordered()
    publish_keyed(queue, ("a", 0))
    publish_keyed(queue, ("a", 1), delay=LONG)
    publish_keyed(queue, ("a", 2))
    drain(queue)
    assert journal.done == [("a", 0)]


def test_messages_without_a_key_run_in_an_ordered_queue_as_in_any_other(ordered, journal) -> None:
    queue = ordered(backoff_base=LONG)
    journal.bad = {("", 1), ("a", 0)}
    publish_notes(queue, range(4))
    publish_keyed(queue, ("a", 0), ("a", 1))
    drain(queue)
    assert journal.done == [("", 0), ("", 2), ("", 3)]
    assert read_ledger(queue.pk).waiting == 3


def test_a_turn_consumes_keys_and_what_has_none(ordered, journal) -> None:
    queue = ordered()
    publish_notes(queue, range(4))
    publish_keyed(queue, *ALL_KEYS)
    assert take_turn(queue, seconds=30) is False
    assert len(journal.done) == 4 + len(ALL_KEYS)


def test_any_bytes_are_a_key(ordered, journal) -> None:
    queue = ordered()
    for key in (b"\x00", b"", b"\xff\xfe", b"k" * 1024):
        publish(queue, type="unknown", body=None, key=key)
    assert drain(queue) == {Outcome.DEAD: 4}


def test_messages_that_were_published_before_a_queue_was_ordered_still_run(make_queue, handle) -> None:
    queue = make_queue()
    done = []
    handle(queue, lambda message: done.append(message.data["n"]))
    publish_keyed(queue, ("a", 0))
    SourceQueue.objects.update(ordered=True)
    publish_keyed(queue, ("a", 1))
    SourceQueue.objects.update(ordered=False)
    publish_keyed(queue, ("a", 2))
    drain(queue)
    assert sorted(done) == [0, 1, 2]


def test_a_suspect_in_the_middle_of_a_key_is_claimed_singly_when_its_turn_comes(ordered, journal) -> None:
    queue = ordered()
    ids = publish_keyed(queue, ("a", 0), ("a", 1), ("a", 2))
    Message.objects.filter(pk=ids[1]).update(suspect=True)
    consume_batch(queue)
    assert journal.of("a") == [0]
    assert consume_batch(queue) == {}
    assert QueueKey.objects.get().suspect
    consume_once(queue)
    drain(queue)
    assert journal.of("a") == [0, 1, 2]


def test_keys_whose_worker_was_lost_go_on_singly_and_in_order(ordered, journal) -> None:
    queue = ordered()
    publish_keyed(queue, ("a", 0), ("a", 1), ("b", 0))
    assert claim_batch(queue, 100, by_key=True)
    expire_now()
    expire_claims()
    assert [(key.claim, key.suspect) for key in QueueKey.objects.all()] == [(None, True)] * 2
    assert consume_batch(queue) == {}
    consume_once(queue)
    consume_once(queue)
    assert journal.of("a") == [0, 1]
    assert not QueueKey.objects.exists()


# --- Death ------------------------------------------------------------------------------------------------------------


def test_a_queue_that_releases_goes_on_with_the_next_message_of_the_key(ordered, journal) -> None:
    queue = ordered(on_death="release")
    journal.bad = {("a", 1)}
    publish_keyed(queue, *ALL_KEYS)
    drain(queue)
    assert journal.of("a") == [0, 2, 3]
    assert DeadLetter.objects.get().attempts == 3
    assert not QueueKey.objects.exists()


@pytest.fixture
def parked(ordered, journal) -> SourceQueue:
    """The second message of key `a` is dead and holds its key."""
    queue = ordered(on_death="hold")
    journal.bad = {("a", 1)}
    publish_keyed(queue, *ALL_KEYS)
    drain(queue)
    return queue


def redrive() -> None:
    cluster = ErrorCluster.objects.get()
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="c", fix="f")
    assert send_pending(start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)) == 1


def test_a_queue_that_holds_lets_nothing_behind_a_letter_run_and_all_other_keys(parked, journal) -> None:
    assert journal.of("a") == [0]
    assert (journal.of("b"), journal.of("c")) == ([0, 1, 2], [0, 1])
    publish_keyed(parked, ("a", 4), ("d", 0))
    drain(parked)
    assert journal.of("a") == [0]
    assert journal.of("d") == [0]
    assert read_ledger(parked.pk).waiting == 3


def test_a_redriven_letter_runs_first_and_then_its_key_goes_on(parked, journal) -> None:
    journal.bad.clear()
    redrive()
    publish_keyed(parked, ("a", 4))
    drain(parked)
    assert journal.of("a") == [0, 1, 2, 3, 4]
    assert DeadLetter.objects.get().resolution == "succeeded"
    assert not QueueKey.objects.exists()


def test_a_redriven_letter_that_dies_again_holds_its_key_again(parked, journal) -> None:
    redrive()
    drain(parked)
    assert journal.of("a") == [0]
    assert set(DeadLetter.objects.values_list("generation", "state")) == {(1, "returned"), (2, "open")}
    assert blocked_keys(parked.pk)[0].parked
    assert drain(parked) == {}


def settle_by_hand(queue: SourceQueue, state: str = "discarded") -> None:
    letters = DeadLetter.objects.filter(queue=queue, state="open")
    keys = [bytes(key) for key in letters.values_list("key", flat=True)]
    letters.update(state=state)
    letters_settled(queue.pk, keys)


@pytest.mark.parametrize("state", ["discarded", "resolved"])
def test_a_letter_that_a_person_settles_lets_its_key_go_on(parked, journal, state) -> None:
    settle_by_hand(parked, state)
    drain(parked)
    assert journal.of("a") == [0, 2, 3]
    assert not QueueKey.objects.exists()


def publish_late(queue: SourceQueue, key: str, n: int, before: DeadLetter) -> None:
    """A message of a publisher whose transaction took long: its position is older than that of a letter."""
    (pk,) = publish_keyed(queue, (key, n))
    Message.objects.filter(pk=pk).update(position=before.position - 1)


def test_older_messages_run_while_their_key_waits_for_a_letter(parked, journal) -> None:
    publish_late(parked, "a", 10, before=DeadLetter.objects.get())
    assert drain(parked) == {Outcome.PROCESSED: 1}
    assert journal.of("a") == [0, 10]
    assert blocked_keys(parked.pk)[0].waiting == 2


def test_a_lost_worker_that_was_one_too_many_parks_the_key_too(ordered, journal) -> None:
    queue = ordered(on_death="hold", max_lost=1)
    publish_keyed(queue, ("a", 0), ("a", 1))
    assert claim_batch(queue, 1, by_key=True)
    expire_now()
    expire_claims()
    assert DeadLetter.objects.get().reason == "worker lost"
    assert drain(queue) == {}
    settle_by_hand(queue)
    drain(queue)
    assert journal.of("a") == [1]


# --- What is blocked --------------------------------------------------------------------------------------------------


def test_a_key_whose_head_keeps_failing_is_listed_since_its_first_failure(ordered, journal) -> None:
    queue = ordered()
    journal.bad = {("a", 1)}
    publish_keyed(queue, *ALL_KEYS)
    consume_batch(queue)
    first: Any = blocked_keys(queue.pk)
    consume_batch(queue)
    second: Any = blocked_keys(queue.pk)
    assert [(one.key, one.parked, one.waiting) for one in first] == [(b"a", False, 3)]
    assert first[0].since == second[0].since
    started = Attempt.objects.order_by("id").values_list("started_at", flat=True)
    assert abs((first[0].since - started[0]).total_seconds()) < 0.001
    assert second[0].due_at >= first[0].due_at
    assert first[0].head == Message.objects.earliest("position").position
    journal.bad.clear()
    drain(queue)
    assert blocked_keys(queue.pk) == []


def test_a_parked_key_is_listed_with_what_waits_behind_its_letter(parked) -> None:
    key: Any = blocked_keys(parked.pk)[0]
    assert (key.key, key.parked, key.waiting, key.due_at) == (b"a", True, 2, None)
    assert key.since >= DeadLetter.objects.get().last_attempt_at
    assert blocked_keys(parked.pk, bound=1)[0].waiting == 1


def test_the_key_that_was_blocked_first_is_listed_first(ordered, journal) -> None:
    queue = ordered(backoff_base=LONG)
    for n, key in enumerate("cab"):
        journal.bad.add((key, n))
        publish_keyed(queue, (key, n))
        consume_batch(queue)
    assert [one.key for one in blocked_keys(queue.pk)] == [b"c", b"a", b"b"]
    assert [one.key for one in blocked_keys(queue.pk, most=2)] == [b"c", b"a"]


# --- Arrivals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", list(permutations(["publish", "file", "settle"])), ids=" ".join)
@pytest.mark.parametrize("ends", ["settled", "given back", "expired"])
def test_what_arrives_while_its_key_is_claimed_is_not_lost(ordered, journal, steps, ends) -> None:
    queue = ordered()
    publish_keyed(queue, ("a", 0))
    claim = claim_batch(queue, 100, by_key=True)
    assert claim

    def settle() -> None:
        if ends == "expired":
            expire_now()
            expire_claims()
        else:
            give_back(claim)
        if ends == "settled":
            consume_once(queue)

    do = {
        "publish": lambda: publish_keyed(queue, ("a", 1)),
        "file": lambda: file_arrivals(queue.pk),
        "settle": settle,
    }
    for step in steps:
        do[step]()
    for _ in range(3):
        consume_once(queue)
    assert journal.of("a") == [0, 1]
    assert not QueueKey.objects.exists()


@pytest.fixture
def session():
    session = Session()
    yield session
    session.close()


@REAL
@pytest.mark.parametrize("settled_first", [True, False])
def test_filing_and_letting_go_at_the_same_time_lose_nothing(
    ordered, journal, session, settled_first
) -> None:
    """Two transactions want the same key: the second waits, and sees what the first has left."""
    queue = ordered()
    publish_keyed(queue, ("a", 0))
    claim = claim_batch(queue, 100, by_key=True)
    assert claim
    publish_keyed(queue, ("a", 1))
    here: Any = (give_back, claim)
    there: Any = (file_arrivals, queue.pk)
    if not settled_first:
        here, there = there, here
    with transaction.atomic():
        here[0](here[1])
        late = session.start(there[0], there[1])
        assert wait_until_blocked(late)
    late.result(timeout=20)
    key = QueueKey.objects.get()
    assert key.head == Message.objects.earliest("position").position
    assert key.claim is None
    drain(queue)
    assert journal.of("a") == [0, 1]


@REAL
@pytest.mark.parametrize("settled_first", [True, False])
def test_a_letter_that_is_settled_while_its_key_is_let_go_does_not_stay_in_its_way(
    ordered, journal, session, settled_first
) -> None:
    queue = ordered(on_death="hold")
    journal.bad = {("a", 1)}
    publish_keyed(queue, ("a", 1), ("a", 2))
    while consume_batch(queue)[Outcome.DEAD] == 0:
        pass
    journal.bad.clear()
    # An older message of the key, which may run: its consumer lets go of the key at the same time.
    publish_late(queue, "a", 0, before=DeadLetter.objects.get())
    claim = claim_batch(queue, 100, by_key=True)
    assert claim

    def by_hand() -> None:
        with transaction.atomic():
            settle_by_hand(queue)

    here: Any = lambda: give_back(claim)  # noqa: E731
    there: Any = by_hand
    if not settled_first:
        here, there = there, here
    with transaction.atomic():
        here()
        late = session.start(there)
        assert wait_until_blocked(late)
    late.result(timeout=20)
    assert QueueKey.objects.get().parked_position is None
    drain(queue)
    assert journal.of("a") == [0, 2]


@REAL
def test_a_publisher_with_an_open_transaction_stops_no_publisher_and_no_consumer_of_its_key(
    ordered, journal, session
) -> None:
    queue = ordered()
    publish_keyed(queue, ("a", 0))
    drain(queue)
    session.begin()
    session.do(publish_keyed, queue, ("a", 1))
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '500ms'")
        publish_keyed(queue, ("a", 2))
        assert drain(queue) == {Outcome.PROCESSED: 1}
        publish_keyed(queue, ("a", 3))
        assert claim_batch(queue, 100, by_key=True)
        publish_keyed(queue, ("a", 4))
        session.commit()
        expire_now()
        expire_claims()
        for _ in range(5):
            consume_once(queue)
    finally:
        connection.close()
    assert journal.of("a") == [0, 2, 1, 3, 4]


# --- Many consumers ---------------------------------------------------------------------------------------------------


WORKERS, KEYS, EACH = 8, 10, 8


def fork_worker(queue: SourceQueue, seed: int) -> int:
    """A consumer in a process of its own, as in production: it works until nothing is left. Its process id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        random.seed(seed)
        end = time.monotonic() + 60
        while Message.objects.exists() and time.monotonic() < end:
            consume_batch(queue, random.choice([1, 2, 5, 100]))
        connection.close()
        code = 0
    except BaseException:  # noqa: BLE001 - it must not go on as a second test run
        traceback.print_exc()
    finally:
        os._exit(code)


def deadlocks() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return cursor.fetchone()[0]


@REAL
def test_many_consumers_that_fail_at_random_keep_the_order_of_every_key_and_never_deadlock(
    make_queue, handle
) -> None:
    queue = make_queue(ordered=True, max_attempts=0, concurrency=WORKERS)

    def handler(message) -> None:
        leave_effect(f"{(message.key or b'').decode()}-{message.data['n']}")
        if random.random() < 0.2:
            raise ValueError("bad luck")

    handle(queue, handler)
    notes = [(str(key), n) for n in range(EACH) for key in range(KEYS)]
    publish_keyed(queue, *notes)
    before = deadlocks()
    connection.close()  # a child must not speak on our connection
    workers = [fork_worker(queue, seed) for seed in range(WORKERS)]
    codes = [os.waitpid(worker, 0)[1] for worker in workers]
    assert codes == [0] * WORKERS
    assert not Message.objects.exists()
    assert not Claim.objects.exists()
    assert not QueueKey.objects.exists()
    done: dict[str, list[int]] = defaultdict(list)
    for what in effects():
        key, n = what.split("-")
        done[key].append(int(n))
    assert done == {str(key): list(range(EACH)) for key in range(KEYS)}
    assert deadlocks() == before
    assert read_ledger(queue.pk).difference == 0
