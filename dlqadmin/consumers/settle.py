"""Settling a claimed message: one small function for each outcome, all inside the caller's transaction.

Each first locks the claim, so a worker that was paused past its claim settles nothing (ClaimLost).
"""

from enum import StrEnum
from typing import Any

from django.db import connection

from dlqadmin.consumers.claim import ClaimedMessage, hold
from dlqadmin.consumers.decide import Die, RetryPolicy, decide
from dlqadmin.consumers.errors import ClaimLost
from dlqadmin.consumers.run import Failure
from dlqadmin.deadletters.capture import dead_letter
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.outcomes import mark_succeeded
from dlqadmin.leases.node import node_name
from dlqadmin.messages.failure import ErrorRecord
from dlqadmin.messages.models import Attempt
from dlqadmin.queues import books
from dlqadmin.queues.models import AccountKind, SourceQueue


class Outcome(StrEnum):
    """How a delivery ended."""

    PROCESSED = "processed"
    RETRY = "retry"
    DEAD = "dead"
    GIVEN_BACK = "given back"
    FENCED = "fenced"


def settle(message: ClaimedMessage, queue: SourceQueue, failure: Failure | None) -> Outcome:
    """Write down how the delivery ended."""
    hold(message.token)
    outcome = _processed(message, queue) if failure is None else _failed(message, queue, failure)
    _drop_claim(message.token)
    return outcome


def give_back(message: ClaimedMessage) -> Outcome:
    """Return the message to its queue as if it had not been claimed: the start is not an attempt."""
    hold(message.token)
    _release(message, "attempts = attempts - 1")
    _drop_claim(message.token)
    return Outcome.GIVEN_BACK


def policy_of(queue: SourceQueue) -> RetryPolicy:
    """The queue's retry policy."""
    return RetryPolicy(
        max_attempts=queue.max_attempts,
        base=queue.backoff_base,
        factor=queue.backoff_factor,
        cap=queue.backoff_cap,
        jitter=queue.backoff_jitter,
    )


def _processed(message: ClaimedMessage, queue: SourceQueue) -> Outcome:
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM dlqadmin_message WHERE id = %s AND claim_id = %s", [message.id, message.token]
        )
        if cursor.rowcount != 1:
            raise ClaimLost
    books.post(queue.pk, AccountKind.PROCESSED)
    if message.letter_id is not None:
        mark_succeeded(message.letter_id)
    return Outcome.PROCESSED


def _failed(message: ClaimedMessage, queue: SourceQueue, failure: Failure) -> Outcome:
    """Retry or die; a failed start leaves its error, one that never began leaves only the letter's reason."""
    decision = decide(failure, message.attempts, policy_of(queue))
    if isinstance(decision, Die):
        if failure.started:
            record_attempt(message, queue.pk, Attempt.Outcome.FAILED, message.attempts, failure.error)
        _die(message, queue, decision.reason, failure)
        return Outcome.DEAD
    _release(message, "available_at = clock_timestamp() + make_interval(secs => %s)", decision.seconds)
    record_attempt(
        message, queue.pk, Attempt.Outcome.FAILED, message.attempts, failure.error, decision.seconds
    )
    return Outcome.RETRY


def _die(message: ClaimedMessage, queue: SourceQueue, reason: DeadLetter.Reason, failure: Failure) -> None:
    dead_letter(
        message=message.id,
        claim=message.token,
        queue=queue.pk,
        reason=reason,
        error=failure.error,
        attempts=message.attempts if failure.started else message.attempts - 1,
        lost=message.lost,
        worker=node_name(),
    )


_ATTEMPT = """
INSERT INTO dlqadmin_attempt (queue_id, lineage, generation, number, outcome, type, started_at, ended_at, retry_at,
    worker, error_class, error_text, error_raw, traceback)
VALUES (%s, %s, %s, %s, %s, %s, %s, clock_timestamp(),
    clock_timestamp() + make_interval(secs => %s), %s, %s, %s, %s, %s)
"""


def record_attempt(
    message: ClaimedMessage,
    queue_id: int,
    outcome: Attempt.Outcome,
    number: int,
    error: ErrorRecord,
    retry_in: float | None = None,
    worker: str = "",
) -> None:
    """Keep the error of a start that failed or was lost, with when the next one is due (in seconds from now)."""
    values: list[Any] = [
        queue_id,
        message.lineage,
        message.generation,
        number,
        outcome.value,
        message.type,
        message.last_attempt_at,
        retry_in,
        worker or node_name(),
        error.error_class,
        error.text,
        error.raw,
        error.traceback,
    ]
    with connection.cursor() as cursor:
        cursor.execute(_ATTEMPT, values)


def _release(message: ClaimedMessage, change: str, *values: float) -> None:
    """Let go of the message, with a further change to its row."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE dlqadmin_message SET claim_id = NULL, {change} WHERE id = %s AND claim_id = %s",  # noqa: S608
            [*values, message.id, message.token],
        )
        if cursor.rowcount != 1:
            raise ClaimLost


def _drop_claim(token: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM dlqadmin_claim WHERE token = %s", [token])
