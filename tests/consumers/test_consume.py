"""The way of a message through a consumer."""

import pytest
from django.db import connection, transaction

from dlqadmin.consumers import Permanent, RetryAfter
from dlqadmin.consumers.consume import consume_once, consume_one, take_turn
from dlqadmin.consumers.settle import Outcome
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.models import Attempt, Claim, Message
from dlqadmin.messages.publish import Outgoing, publish, publish_many
from dlqadmin.people.models import Owner
from dlqadmin.redrive.ledger import read_ledger

Reason = DeadLetter.Reason


def ok(message) -> None:
    """Succeeds."""


def boom(message) -> None:
    raise ValueError(f"boom {message.data['n']}")


def test_a_message_whose_handler_returns_is_processed_and_gone(queue, handle) -> None:
    handle(queue, ok)
    publish(queue, type="note", body={"n": 1})
    assert consume_one(queue) is Outcome.PROCESSED
    assert not Message.objects.exists()
    assert not Claim.objects.exists()
    assert not Attempt.objects.exists()
    assert read_ledger(queue.pk).processed == 1


def test_a_handler_sees_the_message_as_it_was_published(queue, handle) -> None:
    seen = []
    handle(queue, seen.append)
    headers = (("trace", "text", "YQ=="),)
    publish(queue, type="note", body={"n": 1}, key="k", version=3, message_id="m-1", headers=headers)
    consume_one(queue)
    message = seen[0]
    assert (message.id, message.key, message.version, message.data) == ("m-1", b"k", 3, {"n": 1})
    assert (message.attempt, message.generation, message.headers) == (1, 0, [("trace", "text", "YQ==")])


def test_messages_are_delivered_in_publish_order(queue, handle) -> None:
    seen = []
    handle(queue, lambda message: seen.append(message.data["n"]))
    publish_many(queue, [Outgoing(type="note", body={"n": n}) for n in range(20)])
    consume_once(queue)
    assert seen == list(range(20))


def test_a_round_delivers_each_waiting_message_once(queue, handle) -> None:
    handle(queue, boom)
    publish_many(queue, [Outgoing(type="note", body={"n": n}) for n in range(5)])
    assert [consume_once(queue).deliveries for _ in range(4)] == [5, 5, 5, 0]


def test_the_attempt_is_committed_before_the_handler_starts(queue, handle) -> None:
    counts = []
    handle(queue, lambda message: counts.append(Message.objects.get().attempts), atomic=False)
    publish(queue, type="note", body={})
    consume_one(queue)
    assert counts == [1]


def test_a_failed_message_waits_and_keeps_its_error(make_queue, handle) -> None:
    queue = make_queue(max_attempts=3, backoff_base=60.0)
    handle(queue, boom)
    publish(queue, type="note", body={"n": 1})
    assert consume_one(queue) is Outcome.RETRY
    assert consume_one(queue) is None
    message, attempt = Message.objects.get(), Attempt.objects.get()
    assert (message.attempts, message.claim) == (1, None)
    assert (message.available_at - attempt.started_at).total_seconds() > 50
    assert (attempt.number, attempt.outcome, attempt.error_class) == (1, "failed", "ValueError")
    assert attempt.error_text == "boom 1"
    assert attempt.retry_at
    assert "test_consume.py" in attempt.traceback


def test_a_message_that_keeps_failing_becomes_a_dead_letter_kept_whole(queue, handle) -> None:
    handle(queue, boom)
    publish(
        queue,
        type="note",
        body=b'{"n":  1}',
        key=b"k",
        version=4,
        message_id="m-1",
        content_type="application/json",
    )
    message = Message.objects.get()
    for _ in range(3):
        consume_once(queue)
    letter = DeadLetter.objects.get()
    assert bytes(letter.body or b"") == b'{"n":  1}'
    assert (letter.message_id, letter.type, letter.version, letter.content_type) == (
        "m-1",
        "note",
        4,
        "application/json",
    )
    assert (letter.attempts, letter.attempts_counter, letter.lost) == (3, "dlqadmin", 0)
    assert (letter.error_class, letter.error_text, bytes(letter.error_raw)) == (
        "ValueError",
        "boom 1",
        b"boom 1",
    )
    assert (letter.queue, letter.reason, letter.state) == (queue, Reason.THRESHOLD, "open")
    assert (letter.lineage, letter.position, letter.generation) == (message.lineage, message.position, 1)
    assert letter.cluster
    assert letter.cluster.template == "ValueError: boom <int>"
    assert letter.sent_at == message.published_at
    assert letter.last_attempt_at
    assert letter.last_attempt_at < letter.died_at
    assert [(a.number, a.error_text) for a in letter.attempt_rows()] == [(n, "boom 1") for n in (1, 2, 3)]
    assert not Message.objects.exists()


def test_two_letters_of_one_cause_share_a_cluster(queue, handle) -> None:
    handle(queue, boom)
    publish_many(queue, [Outgoing(type="note", body={"n": n}) for n in (7, 13)])
    for _ in range(3):
        consume_once(queue)
    assert DeadLetter.objects.count() == 2
    assert DeadLetter.objects.values("cluster").distinct().count() == 1


def test_a_permanent_error_dies_at_its_first_attempt(queue, handle) -> None:
    def refuse(message) -> None:
        raise Permanent("no such account")

    handle(queue, refuse)
    publish(queue, type="note", body={})
    assert consume_one(queue) is Outcome.DEAD
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.attempts, letter.error_text) == (Reason.PERMANENT, 1, "no such account")


def test_a_handler_may_say_when_to_try_again(queue, handle) -> None:
    def later(message) -> None:
        raise RetryAfter(3600)

    handle(queue, later)
    publish(queue, type="note", body={})
    assert consume_one(queue) is Outcome.RETRY
    message = Message.objects.get()
    assert (message.available_at - message.published_at).total_seconds() > 3590


def test_a_delayed_message_is_not_due_yet(queue, handle) -> None:
    handle(queue, ok)
    publish(queue, type="note", body={}, delay=60)
    assert consume_one(queue) is None


def test_the_effects_of_a_failed_atomic_handler_are_undone(queue, handle) -> None:
    def half(message) -> None:
        Owner.objects.create(name="half", slug="half")
        raise ValueError("in the middle")

    handle(queue, half)
    publish(queue, type="note", body={})
    assert consume_one(queue) is Outcome.RETRY
    assert not Owner.objects.filter(name="half").exists()


def test_an_error_in_the_handlers_own_sql_is_an_ordinary_failure(queue, handle) -> None:
    def wrong(message) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    handle(queue, wrong)
    publish(queue, type="note", body={})
    assert consume_one(queue) is Outcome.RETRY
    assert "division by zero" in Attempt.objects.get().error_text


@pytest.mark.django_db(transaction=True)
def test_what_the_database_refuses_at_commit_is_the_messages_failure(queue, handle) -> None:
    """A deferred constraint speaks only at the commit, after handler and settlement."""

    def orphan(message) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO dlqadmin_consumerslot (queue_id, number, holder, token) VALUES (2147483000, 1, '', 0)"
            )

    handle(queue, orphan)
    publish(queue, type="note", body={})
    assert consume_one(queue) is Outcome.RETRY
    assert Attempt.objects.get().error_class == "IntegrityError"


@pytest.mark.django_db(transaction=True)
def test_a_handler_that_breaks_its_connection_is_charged_and_the_next_message_runs(queue, handle) -> None:
    def suicide(message) -> None:
        if message.data["n"] == 1:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    handle(queue, suicide)
    publish_many(queue, [Outgoing(type="note", body={"n": n}) for n in (1, 2)])
    assert consume_one(queue) is Outcome.RETRY
    assert consume_one(queue) is Outcome.PROCESSED
    assert Message.objects.get().attempts == 1


@pytest.mark.django_db(transaction=True)
def test_an_atomic_handlers_effects_and_the_settlement_are_one_transaction(queue, handle) -> None:
    """Someone else takes the claim away while the handler runs: neither its effects nor a settlement remain."""

    def paused(message) -> None:
        Owner.objects.create(name="effect", slug="effect")
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("UPDATE dlqadmin_claim SET until = clock_timestamp() - interval '1 second'")

    handle(queue, paused)
    publish(queue, type="note", body={})
    assert consume_one(queue) is Outcome.FENCED
    assert not Owner.objects.filter(name="effect").exists()
    assert Message.objects.get().attempts == 1
    assert read_ledger(queue.pk).processed == 0


def test_a_claimed_message_is_not_claimed_twice(queue, handle) -> None:
    def nested(message) -> None:
        assert consume_one(queue) is None

    handle(queue, nested, atomic=False)
    publish(queue, type="note", body={})
    assert consume_one(queue) is Outcome.PROCESSED


def test_a_process_that_is_told_to_end_gives_its_message_back_uncharged(queue, handle) -> None:
    def interrupted(message) -> None:
        raise KeyboardInterrupt

    handle(queue, interrupted)
    publish(queue, type="note", body={})
    with pytest.raises(KeyboardInterrupt):
        consume_one(queue)
    message = Message.objects.get()
    assert (message.attempts, message.claim) == (0, None)
    assert not Claim.objects.exists()


def test_a_turn_ends_when_nothing_is_due(queue, handle) -> None:
    handle(queue, ok)
    publish_many(queue, [Outgoing(type="note", body={}) for _ in range(3)])
    assert take_turn(queue, seconds=30) is False
    assert not Message.objects.exists()


def test_a_turn_ends_with_its_time_and_says_that_work_is_left(queue, handle) -> None:
    handle(queue, ok)
    publish(queue, type="note", body={})
    assert take_turn(queue, seconds=0) is True
