"""Bad input ends as a dead letter with its reason; nothing is lost and nobody else is disturbed."""

import os
import sys
import time

import pytest
from django.db import connection

from dlqadmin.consumers.consume import consume_once
from dlqadmin.consumers.settle import Outcome
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.publish import publish
from dlqadmin.redrive.ledger import read_ledger

Reason = DeadLetter.Reason


def die(queue) -> DeadLetter:
    """Run rounds until the queue is empty; its one letter."""
    for _ in range(queue.max_attempts):
        consume_once(queue)
    return DeadLetter.objects.get(queue=queue)


def raising(error: BaseException):
    def handler(message) -> None:
        raise error

    return handler


def test_an_unknown_type_dies_at_once_without_an_attempt(queue) -> None:
    publish(queue, type="<b>what</b>", body=b"{}")
    assert consume_once(queue).outcomes[Outcome.DEAD] == 1
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.attempts) == (Reason.UNKNOWN_TYPE, 0)
    assert "no handler for type '<b>what</b>'" in letter.error_text


@pytest.mark.parametrize(
    "body",
    [
        b'{"loanId": 42',
        b"hello",
        b"",
        None,
        b"\xff\xfe",
        b'{"a": NaN}',
        b"[" * 100_000,
        b"\x00",
        b'{"a": "\x00"}',
    ],
    ids=["cut off", "text", "empty", "no body", "not UTF-8", "NaN", "too deep", "NUL", "raw NUL in a string"],
)
def test_a_body_that_is_not_what_its_handler_declared_dies_at_once(queue, handle, body) -> None:
    handle(queue, lambda message: None)
    publish(queue, type="note", body=body)
    consume_once(queue)
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.attempts) == (Reason.UNDECODABLE, 0)
    assert (letter.body if letter.body is None else bytes(letter.body)) == body
    assert letter.body_size == len(body or b"")


def test_a_body_with_nul_and_non_utf8_bytes_is_kept_to_the_byte(queue, handle) -> None:
    body = b"\x08\x96\x01\xff\xfe\x00\xc3\x28\x00"
    handle(queue, raising(ValueError("no")), body="bytes")
    publish(queue, type="note", body=body)
    letter = die(queue)
    assert (bytes(letter.body or b""), letter.reason, letter.attempts) == (body, Reason.THRESHOLD, 3)


def test_an_error_text_of_200_kb_is_kept_raw_and_shown_cut(queue, handle) -> None:
    text = os.urandom(100_000).hex()
    handle(queue, raising(ValueError(text)))
    publish(queue, type="note", body={})
    letter = die(queue)
    assert bytes(letter.error_raw) == text.encode()
    assert len(letter.error_text) < 17_000
    assert "more characters" in letter.error_text


@pytest.mark.parametrize(
    "text",
    ["a\0b", "\x1b[31mred\x1b[0m", "\ud800 alone", "\u202egnp", "", "\\u0000", "<script>alert(1)</script>"],
)
def test_any_error_text_can_be_kept(queue, handle, text) -> None:
    handle(queue, raising(ValueError(text)))
    publish(queue, type="note", body={})
    letter = die(queue)
    assert bytes(letter.error_raw) == text.encode("utf-8", "backslashreplace")
    assert "\0" not in letter.error_text


class Unprintable(Exception):
    """An error that fails when it is asked for its text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Alien(BaseException):
    """Not an Exception, as some libraries raise."""


@pytest.mark.parametrize(
    ("error", "reason", "says"),
    [
        (SystemExit(3), Reason.EXITED, "sys.exit(3)"),
        (SystemExit(), Reason.EXITED, "sys.exit()"),
        (SystemExit("bye"), Reason.EXITED, "sys.exit('bye')"),
        (Alien("far out"), Reason.INTERRUPTED, "far out"),
        (GeneratorExit("odd"), Reason.INTERRUPTED, "odd"),
        (Unprintable(), Reason.THRESHOLD, "text could not be made"),
        (MemoryError("2 GB"), Reason.THRESHOLD, "2 GB"),
        (RecursionError("deep"), Reason.THRESHOLD, "deep"),
    ],
)
@pytest.mark.parametrize("atomic", [True, False])
def test_whatever_a_handler_raises_is_a_counted_attempt_with_its_own_reason(
    queue, handle, error, reason, says, atomic
) -> None:
    handle(queue, raising(error), atomic=atomic)
    publish(queue, type="note", body={})
    letter = die(queue)
    assert (letter.reason, letter.attempts) == (reason, 3)
    assert says in letter.error_text


def test_a_handler_that_calls_sys_exit_does_not_end_the_consumer(queue, handle) -> None:
    handle(queue, lambda message: sys.exit(1), type="leaver")
    handle(queue, lambda message: None)
    publish(queue, type="leaver", body={})
    publish(queue, type="note", body={})
    done = consume_once(queue)
    assert (done.outcomes[Outcome.RETRY], done.outcomes[Outcome.PROCESSED]) == (1, 1)


def in_a_sleep(message) -> None:
    time.sleep(60)


def in_a_query(message) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(60)")


def in_a_loop(message) -> None:
    while True:
        pass


@pytest.mark.parametrize("stuck", [in_a_sleep, in_a_query, in_a_loop])
@pytest.mark.django_db(transaction=True)
def test_a_handler_that_does_not_end_is_ended_and_the_next_message_runs(make_queue, handle, stuck) -> None:
    queue = make_queue(max_attempts=1)
    handle(queue, stuck, type="stuck", timeout=0.2)
    handle(queue, lambda message: None)
    publish(queue, type="stuck", body={})
    publish(queue, type="note", body={})
    done = consume_once(queue)
    assert (done.outcomes[Outcome.DEAD], done.outcomes[Outcome.PROCESSED]) == (1, 1)
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.error_text) == (Reason.TIMEOUT, "still running after 0.2 s")


def test_the_books_balance_over_all_of_this(queue, handle) -> None:
    handle(queue, raising(ValueError("no")))
    for type, body in [("note", {}), ("unknown", {}), ("note", b"\xff")]:
        publish(queue, type=type, body=body)
    for _ in range(3):
        consume_once(queue)
    accounts = read_ledger(queue.pk)
    assert accounts.received == accounts.processed + DeadLetter.objects.open().count() == 3
