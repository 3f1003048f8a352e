"""Batches: one bad message never harms its neighbours, whatever it does."""

import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction
from psycopg.errors import DeadlockDetected

from dlqadmin.consumers import Permanent
from dlqadmin.consumers.claim import claim_batch, claim_single
from dlqadmin.consumers.consume import consume_batch, consume_one, take_turn
from dlqadmin.consumers.pace import pace_of
from dlqadmin.consumers.settle import Outcome
from dlqadmin.consumers.sweep import expire_claims
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.leases.models import FencedWrite
from dlqadmin.messages.models import Attempt, Claim, Message
from dlqadmin.messages.publish import publish
from dlqadmin.people.models import Owner
from dlqadmin.redrive.ledger import read_ledger
from tests.consumers.work import (
    LONG,
    Session,
    drain,
    effect_counts,
    expire_now,
    leave_effect,
    publish_notes,
)

Reason = DeadLetter.Reason
HOW = pytest.mark.parametrize("repeatable", [False, True], ids=["with savepoints", "repeatable"])
REAL = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def clock(monkeypatch) -> SimpleNamespace:
    """The time of a batch stands still unless a handler moves it on: this machine may be slow."""
    still = SimpleNamespace(now=time.monotonic())
    still.monotonic = lambda: still.now
    monkeypatch.setattr("dlqadmin.consumers.batch.time", still)
    return still


@pytest.fixture
def patient(make_queue):
    """A queue whose failed messages are not due again within the test."""
    return make_queue("patient", backoff_base=LONG)


def rows(*fields: str) -> set[tuple[Any, ...]]:
    """What the messages have in these fields."""
    return set(Message.objects.values_list(*fields))


def once(*numbers: int) -> dict[int, int]:
    return dict.fromkeys(numbers, 1)


# --- Failures ---------------------------------------------------------------------------------------------------------


def fail(message) -> None:
    leave_effect(message.data["n"])
    raise ValueError("bad")


def sleep(message) -> None:
    leave_effect(message.data["n"])
    time.sleep(60)


def query(message) -> None:
    leave_effect(message.data["n"])
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(60)")


def loop(message) -> None:
    leave_effect(message.data["n"])
    while True:
        pass


def leave_in_the_middle(message) -> None:
    leave_effect(message.data["n"])
    raise SystemExit(1)


def break_a_constraint(message) -> None:
    leave_effect(message.data["n"])
    Owner.objects.create(name="effect", slug="members")


@HOW
@pytest.mark.parametrize(
    ("bad", "error", "number"),
    [
        (fail, "ValueError", 100),
        (sleep, "HandlerTimeout", 40),
        (query, "HandlerTimeout", 40),
        (loop, "HandlerTimeout", 40),
        (leave_in_the_middle, "SystemExit", 40),
        (break_a_constraint, "IntegrityError", 40),
    ],
)
def test_of_many_messages_one_fails_and_only_that_one_is_charged(
    patient, owner, handle, repeatable, bad, error, number
) -> None:
    handle(patient, lambda message: leave_effect(message.data["n"]), repeatable=repeatable)
    handle(patient, bad, type="bad", timeout=0.2, repeatable=repeatable)
    publish_notes(patient, range(37))
    publish_notes(patient, [37], type="bad")
    publish_notes(patient, range(38, number))
    assert drain(patient) == {Outcome.PROCESSED: number - 1, Outcome.RETRY: 1}
    assert effect_counts() == once(*range(37), *range(38, number))
    assert Message.objects.get().attempts == 1
    assert Attempt.objects.get().error_class == error
    assert not Claim.objects.exists()


def test_a_repeatable_batch_in_which_one_fails_is_run_again_and_its_effects_happen_once(
    patient, handle
) -> None:
    calls = []

    def handler(message) -> None:
        calls.append(message.data["n"])
        leave_effect(message.data["n"])
        if message.data["n"] == 5:
            raise ValueError("bad")

    handle(patient, handler, repeatable=True)
    publish_notes(patient, range(10))
    assert consume_batch(patient) == {Outcome.PROCESSED: 9, Outcome.RETRY: 1, Outcome.GIVEN_BACK: 0}
    assert calls == [*range(6), *range(10)]
    assert effect_counts() == once(*range(5), *range(6, 10))


def test_a_handler_that_is_not_repeatable_is_called_once_although_a_neighbour_fails(
    patient, owner, handle
) -> None:
    """Also when the neighbour failed in the ORM, which marks the whole transaction for a rollback."""
    calls = []

    def handler(message) -> None:
        calls.append(message.data["n"])
        if message.data["n"] == 2:
            Owner.objects.create(name="again", slug=owner.slug)
        if message.data["n"] == 4:
            raise ValueError("bad")

    handle(patient, handler)
    publish_notes(patient, range(6))
    consume_batch(patient)
    assert calls == list(range(6))
    assert set(Attempt.objects.values_list("error_class", flat=True)) == {"IntegrityError", "ValueError"}


def with_sql(owner) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


def with_the_orm(owner) -> None:
    Owner.objects.create(name="again", slug=owner.slug)


def with_the_orm_in_bulk(owner) -> None:
    Owner.objects.bulk_create([Owner(name="again", slug=owner.slug)])


@HOW
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (with_sql, "current transaction is aborted"),
        (with_the_orm, "duplicate key"),
        (with_the_orm_in_bulk, "current transaction is aborted"),
    ],
)
def test_a_handler_that_goes_on_after_an_error_of_the_database_fails_and_harms_only_itself(
    patient, owner, handle, repeatable, wrong, says
) -> None:
    def handler(message) -> None:
        leave_effect(message.data["n"])
        if message.data["n"] == 1:
            with suppress(DatabaseError):
                wrong(owner)

    handle(patient, handler, repeatable=repeatable)
    publish_notes(patient, range(4))
    assert drain(patient) == {Outcome.PROCESSED: 3, Outcome.RETRY: 1}
    assert effect_counts() == once(0, 2, 3)
    assert says in Attempt.objects.get().error_text


@HOW
def test_a_failure_is_not_explained_by_an_older_error_of_a_neighbour(
    patient, owner, handle, repeatable
) -> None:
    def handler(message) -> None:
        with suppress(IntegrityError), transaction.atomic():
            Owner.objects.create(name="again", slug=owner.slug)
        if message.data["n"] == 1:
            with suppress(DatabaseError):
                with_sql(owner)

    handle(patient, handler, repeatable=repeatable)
    publish_notes(patient, range(3))
    drain(patient)
    assert "current transaction is aborted" in Attempt.objects.get().error_text


@HOW
def test_a_handler_may_have_its_own_effects_rolled_back_and_succeed(patient, handle, repeatable) -> None:
    def handler(message) -> None:
        leave_effect(message.data["n"])
        transaction.set_rollback(message.data["n"] == 1)

    handle(patient, handler, repeatable=repeatable)
    publish_notes(patient, range(3))
    assert drain(patient) == {Outcome.PROCESSED: 3}
    assert effect_counts() == once(0, 2)


@HOW
@REAL
def test_what_a_failed_message_wanted_done_after_the_commit_is_not_done(patient, handle, repeatable) -> None:
    done = []

    def handler(message) -> None:
        transaction.on_commit(lambda: done.append(message.data["n"]))
        if message.data["n"] == 1:
            raise ValueError("bad")

    handle(patient, handler, repeatable=repeatable)
    publish_notes(patient, range(3))
    consume_batch(patient)
    assert done == [0, 2]


@pytest.mark.parametrize("error", [ValueError("no"), OperationalError("no")])
@REAL
def test_a_failure_after_the_commit_keeps_nobody_elses_from_being_done(queue, handle, error, caplog) -> None:
    done = []

    def handler(message) -> None:
        def afterwards() -> None:
            if message.data["n"] == 1:
                raise error
            done.append(message.data["n"])

        transaction.on_commit(afterwards)

    handle(queue, handler)
    publish_notes(queue, range(3))
    assert drain(queue) == {Outcome.PROCESSED: 3}
    assert done == [0, 2]
    assert "afterwards" in caplog.text
    assert not FencedWrite.objects.exists()


ORPHAN = "INSERT INTO dlqadmin_consumerslot (queue_id, number, holder, token) VALUES (2147483000, %s, '', 0)"


def leave_orphan(message) -> None:
    """A deferred constraint speaks only at the commit."""
    leave_effect(message.data["n"])
    if message.data["n"] == 3:
        with connection.cursor() as cursor:
            cursor.execute(ORPHAN, [message.data["n"]])


@HOW
@REAL
def test_what_the_database_refuses_at_the_commit_of_a_batch_is_laid_at_its_one_cause(
    patient, handle, repeatable
) -> None:
    handle(patient, leave_orphan, repeatable=repeatable)
    publish_notes(patient, range(8))
    assert drain(patient) == {Outcome.PROCESSED: 7, Outcome.RETRY: 1}
    assert effect_counts() == once(0, 1, 2, 4, 5, 6, 7)
    assert Attempt.objects.get().error_class == "IntegrityError"
    assert Message.objects.get().attempts == 1


@REAL
def test_a_handlers_permanent_errors_include_what_the_commit_raises(patient, handle) -> None:
    handle(patient, leave_orphan, permanent=(IntegrityError,))
    publish_notes(patient, [3])
    assert consume_one(patient) is Outcome.DEAD
    assert DeadLetter.objects.get().reason == Reason.PERMANENT


class Deadlock:
    """A handler of which message 3 is a deadlock's victim, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, message) -> None:
        leave_effect(message.data["n"])
        if message.data["n"] == 3 and self.times:
            self.times -= 1
            raise OperationalError("deadlock detected") from DeadlockDetected("deadlock detected")


@HOW
@pytest.mark.parametrize("times", [1, 2])
def test_a_deadlock_charges_nobody(patient, handle, repeatable, times) -> None:
    handle(patient, Deadlock(times), repeatable=repeatable)
    publish_notes(patient, range(6))
    assert drain(patient) == {Outcome.PROCESSED: 6}
    assert effect_counts() == once(*range(6))
    assert not Attempt.objects.exists()


def test_a_message_that_is_a_victim_every_time_is_charged_in_the_end_and_alone(patient, handle) -> None:
    handle(patient, Deadlock(times=1000))
    publish_notes(patient, range(6))
    assert drain(patient) == {Outcome.PROCESSED: 5, Outcome.RETRY: 1}
    assert (Message.objects.get().attempts, Attempt.objects.count()) == (1, 1)


@REAL
def test_a_message_that_breaks_the_connection_harms_only_itself(patient, handle) -> None:
    def handler(message) -> None:
        leave_effect(message.data["n"])
        if message.data["n"] == 2:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    handle(patient, handler)
    publish_notes(patient, range(5))
    assert drain(patient) == {Outcome.PROCESSED: 4, Outcome.RETRY: 1}
    assert effect_counts() == once(0, 1, 3, 4)


def test_messages_of_every_sort_in_one_batch_end_each_in_its_own_way(patient, handle) -> None:
    handle(patient, lambda message: leave_effect(message.data["n"]))
    handle(patient, lambda message: leave_effect(message.data["n"]), type="loose", atomic=False)
    for n in range(3):
        publish_notes(patient, [10 * n])
        publish_notes(patient, [10 * n + 1], type="loose")
        publish(patient, type="unheard of", body={})
        publish(patient, type="note", body=b"\xff")
    assert drain(patient) == {Outcome.PROCESSED: 6, Outcome.DEAD: 6}
    assert effect_counts() == once(0, 1, 10, 11, 20, 21)
    reasons = sorted(DeadLetter.objects.values_list("reason", "attempts"))
    assert reasons == [(Reason.UNDECODABLE, 0)] * 3 + [(Reason.UNKNOWN_TYPE, 0)] * 3
    assert read_ledger(patient.pk).difference == 0


def test_a_batch_dies_as_one_by_one_would(make_queue, handle) -> None:
    queue = make_queue(max_attempts=2)

    def handler(message) -> None:
        if message.data["n"] == 0:
            raise Permanent("never")
        raise ValueError("bad")

    handle(queue, handler)
    publish_notes(queue, range(3))
    drain(queue)
    letters = DeadLetter.objects.order_by("position").values_list("reason", "attempts")
    assert list(letters) == [(Reason.PERMANENT, 1), (Reason.THRESHOLD, 2), (Reason.THRESHOLD, 2)]
    assert Attempt.objects.count() == 5


# --- Claims -----------------------------------------------------------------------------------------------------------


def take_away() -> None:
    """Another session lets the time of all claims run out."""
    session = Session()
    session.do(expire_now)
    session.close()


@HOW
@REAL
def test_of_a_batch_whose_claim_was_taken_away_nothing_remains(patient, handle, repeatable) -> None:
    def handler(message) -> None:
        leave_effect(message.data["n"])
        if message.data["n"] == 3:
            take_away()

    handle(patient, handler, repeatable=repeatable)
    publish_notes(patient, range(6))
    assert consume_batch(patient) == {Outcome.FENCED: 6}
    assert not effect_counts()
    assert rows("attempts", "claim") == {(0, Claim.objects.get().pk)}
    assert FencedWrite.objects.get().what == "consumer of patient"
    assert read_ledger(patient.pk).processed == 0


@REAL
def test_of_a_batch_of_other_handlers_what_was_settled_in_time_remains_and_nothing_else(
    patient, handle
) -> None:
    def handler(message) -> None:
        leave_effect(message.data["n"])
        if message.data["n"] == 3:
            take_away()

    handle(patient, handler, atomic=False)
    publish_notes(patient, range(6))
    assert consume_batch(patient)[Outcome.FENCED]
    assert Message.objects.count() == 3
    assert read_ledger(patient.pk).processed == 3
    assert FencedWrite.objects.count() == 1
    assert expire_claims() == 1
    assert rows("attempts", "suspect") == {(0, True)}


def test_the_end_of_a_batchs_claim_charges_nobody_and_makes_suspects_which_run_singly(queue, handle) -> None:
    publish_notes(queue, range(5))
    assert claim_batch(queue, 10)
    expire_now()
    assert expire_claims() == 1
    assert rows("attempts", "lost", "suspect", "claim") == {(0, 0, True, None)}
    assert not Attempt.objects.exists()
    assert claim_batch(queue, 10) is None
    assert claim_single(queue) is None
    held = []
    handle(queue, lambda message: held.append((Claim.objects.get().single, Message.objects.count())))
    assert take_turn(queue, seconds=30) is False
    assert held == [(True, n) for n in (5, 4, 3, 2, 1)]


def test_a_suspect_that_takes_its_worker_along_has_lost_a_start_and_no_attempt(queue) -> None:
    publish_notes(queue, range(3))
    claim_batch(queue, 10)
    expire_now()
    expire_claims()
    claim = claim_single(queue, suspect=True)
    assert claim
    expire_now()
    expire_claims()
    lines = Message.objects.order_by("position").values_list("attempts", "lost", "suspect")
    assert list(lines) == [(0, 1, True), (0, 0, True), (0, 0, True)]
    assert Attempt.objects.get().outcome == "lost"


@pytest.mark.parametrize("ordered", [False, True])
def test_a_batch_that_expires_twice_is_freed_once(make_queue, ordered) -> None:
    queue = make_queue(ordered=ordered)
    publish_notes(queue, range(3), key="k")
    claim_batch(queue, 10, by_key=ordered)
    expire_now()
    assert [expire_claims(), expire_claims()] == [1, 0]


@pytest.mark.parametrize(
    ("options", "done"),
    [({}, 0), ({"repeatable": True}, 0), ({"atomic": False}, 3)],
    ids=["with savepoints", "repeatable", "not atomic"],
)
def test_a_process_that_is_told_to_end_in_a_batch_gives_everything_back_uncharged(
    patient, handle, options, done
) -> None:
    def handler(message) -> None:
        leave_effect(message.data["n"])
        if message.data["n"] == 3:
            raise KeyboardInterrupt

    handle(patient, handler, **options)
    publish_notes(patient, range(6))
    with pytest.raises(KeyboardInterrupt):
        consume_batch(patient)
    assert rows("attempts", "suspect", "claim") == {(0, False, None)}
    assert Message.objects.count() == 6 - done
    assert not Claim.objects.exists()
    assert not Attempt.objects.exists()


@REAL
def test_a_process_that_is_told_to_end_ends_although_its_claim_was_taken_away(patient, handle) -> None:
    def handler(message) -> None:
        take_away()
        raise KeyboardInterrupt

    handle(patient, handler)
    publish_notes(patient, range(2))
    with pytest.raises(KeyboardInterrupt):
        consume_batch(patient)
    assert expire_claims() == 1


@pytest.mark.parametrize(
    "policy", [{"max_attempts": 1}, {"retry_overrides": {"other": {"max_attempts": 1}}}], ids=str
)
def test_where_one_attempt_is_all_there_is_every_message_is_claimed_singly(
    make_queue, handle, policy
) -> None:
    queue = make_queue(**policy)
    held = []
    handle(queue, lambda message: held.append((Claim.objects.get().single, message.attempt)))
    publish_notes(queue, range(3))
    pace_of(queue.pk).size = 100
    take_turn(queue, seconds=30)
    assert held == [(True, 1)] * 3


def test_elsewhere_a_turn_claims_as_many_as_its_pace_says(queue, handle) -> None:
    held = []
    handle(queue, lambda message: held.append(Claim.objects.get().single))
    publish_notes(queue, range(5))
    pace_of(queue.pk).size = 100
    take_turn(queue, seconds=30)
    assert held == [False] * 5


# --- Time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"repeatable": True}, {"atomic": False}], ids=["with savepoints", "repeatable", "loose"]
)
def test_what_was_not_started_within_the_time_of_a_batch_goes_back_uncharged(
    queue, handle, clock, options
) -> None:
    def handler(message) -> None:
        clock.now += 0.06

    handle(queue, handler, **options)
    publish_notes(queue, range(10))
    assert consume_batch(queue) == {Outcome.PROCESSED: 2, Outcome.GIVEN_BACK: 8}
    assert rows("attempts", "suspect", "claim") == {(0, False, None)}
    assert not Claim.objects.exists()


def test_the_first_message_of_a_batch_always_runs(queue, handle, clock) -> None:
    def handler(message) -> None:
        clock.now += 5

    handle(queue, handler)
    publish_notes(queue, range(3))
    assert [consume_batch(queue)[Outcome.PROCESSED] for _ in range(4)] == [1, 1, 1, 0]


def test_one_by_one_the_rest_goes_back_after_a_second(patient, handle, clock) -> None:
    def handler(message) -> None:
        clock.now += 0.3
        Deadlock(times=1)(message)

    handle(patient, handler, repeatable=True)
    publish_notes(patient, range(3, 13))
    outcomes = consume_batch(patient)
    assert (outcomes[Outcome.PROCESSED], outcomes[Outcome.RETRY], outcomes[Outcome.GIVEN_BACK]) == (2, 1, 7)
