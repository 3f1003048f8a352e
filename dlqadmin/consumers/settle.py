"""Settling what a worker has run: one small function for each outcome, each for any number of messages at once.

All of it belongs to the caller's transaction. The claim is looked at last: a worker that was paused past its claim gets
ClaimLost, and nothing of its transaction remains.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import connection, transaction

from dlqadmin.consumers.claim import Claim, ClaimedMessage
from dlqadmin.consumers.decide import Die, Retry, RetryPolicy, decide
from dlqadmin.consumers.errors import ClaimLost
from dlqadmin.consumers.run import Failure
from dlqadmin.consumers.session import limit_transaction
from dlqadmin.deadletters.capture import Death, dead_letters
from dlqadmin.deadletters.holding import park_at_letters
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.outcomes import mark_resolved
from dlqadmin.leases.node import node_name
from dlqadmin.messages import ordering
from dlqadmin.messages.attempts import StartRecord, record_starts
from dlqadmin.messages.discards import sample_discards
from dlqadmin.messages.models import Attempt, Discard
from dlqadmin.prepared import prepared_cursor
from dlqadmin.queues import books
from dlqadmin.queues.models import AccountKind, SourceQueue

# What a settlement in a transaction of its own may take.
SETTLE_SECONDS = 10.0


class Outcome(StrEnum):
    """How a delivery ended."""

    PROCESSED = "processed"
    DUPLICATE = "duplicate"
    STALE = "stale"
    RETRY = "retry"
    DEAD = "dead"
    GIVEN_BACK = "given back"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class Delivery:
    """What came of one message: `failure`, `discard`, or neither when it was processed. `clock`: the monotonic moment
    at which its handler started."""

    message: ClaimedMessage
    clock: float
    failure: Failure | None = None
    discard: Discard.Kind | None = None

    @property
    def processed(self) -> bool:
        """Whether its handler has done the work."""
        return self.failure is None and self.discard is None

    @property
    def plainly_processed(self) -> bool:
        """Whether it was, and no letter waits to hear of it."""
        return self.processed and self.message.letter_id is None


# What a message that ends well, or is dropped, is in the books and to the letter that it was redriven from.
_ENDS = {
    None: (Outcome.PROCESSED, AccountKind.PROCESSED, DeadLetter.Resolution.SUCCEEDED),
    Discard.Kind.DUPLICATE: (Outcome.DUPLICATE, AccountKind.DUPLICATE, DeadLetter.Resolution.DUPLICATE),
    Discard.Kind.STALE: (Outcome.STALE, AccountKind.STALE, DeadLetter.Resolution.STALE),
}

_DELETE = (
    "DELETE FROM dlqadmin_message WHERE id = ANY(%s::bigint[]) AND claim_id IS NOT DISTINCT FROM %s::bigint"
)

_RETRY = """
UPDATE dlqadmin_message AS message SET claim_id = NULL, attempts = failed.attempts, last_attempt_at = failed.started,
    available_at = clock_timestamp() + make_interval(secs => failed.wait)
FROM unnest(%s::bigint[], %s::int[], %s::timestamptz[], %s::float8[]) AS failed (id, attempts, started, wait)
WHERE message.id = failed.id AND message.claim_id IS NOT DISTINCT FROM %s::bigint AND message.id = ANY(%s::bigint[])
"""

# All of a batch in which every message was processed, in one round trip.
_END_ALL = f"""
WITH gone AS (
    DELETE FROM dlqadmin_message WHERE claim_id = %(claim)s RETURNING queue_id
), posted AS (
    {books.POST} SELECT queue_id, '{AccountKind.PROCESSED.value}', count(*) FROM gone GROUP BY queue_id
), ended AS (
    DELETE FROM dlqadmin_claim WHERE token = %(claim)s AND until > clock_timestamp() RETURNING token
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM ended)
"""  # noqa: S608 - made of constants

# All of a success in one round trip, in a transaction of its own that nobody waits for.
_END_NOW = f"""
WITH gone AS (
    DELETE FROM dlqadmin_message WHERE id = %(message)s AND claim_id IS NOT DISTINCT FROM %(mark)s::bigint AND EXISTS (
        SELECT FROM dlqadmin_claim WHERE token = %(claim)s AND until > clock_timestamp()
    ) RETURNING queue_id
), posted AS (
    {books.POST} SELECT queue_id, '{AccountKind.PROCESSED.value}', 1 FROM gone
)
SELECT set_config('synchronous_commit', 'off', true) FROM gone
"""  # noqa: S608 - made of constants

_RELEASE = "UPDATE dlqadmin_message SET claim_id = NULL, attempts = attempts - %s WHERE claim_id = %s"
_HOLD = "SELECT FROM dlqadmin_claim WHERE token = %s AND until > clock_timestamp() FOR UPDATE"
_HOLD_HASTILY = """
SELECT set_config('synchronous_commit', 'off', true) FROM dlqadmin_claim
WHERE token = %s AND until > clock_timestamp() FOR UPDATE
"""
_DROP = "DELETE FROM dlqadmin_claim WHERE token = %s AND until > clock_timestamp()"


def settle(
    claim: Claim, deliveries: Sequence[Delivery], *, last: bool = True, durable: bool = True
) -> Counter[Outcome]:
    """Write down how these deliveries of a claim ended; how many had each outcome.

    `last`: the claim ends with them, and what else it holds goes back to the queue uncharged. `durable`: the commit
    waits for the disk (a last one always does).
    """
    if last and _is_plain_success(claim, deliveries):
        return _end_all(claim)
    outcomes: Counter[Outcome] = Counter()
    for discard, (outcome, account, resolution) in _ENDS.items():
        ended = [one.message for one in deliveries if one.failure is None and one.discard is discard]
        if ended:
            _end(claim, ended, account, resolution)
            outcomes[outcome] = len(ended)
    sample_discards(
        claim.queue.pk, [(one.discard, one.message) for one in deliveries if one.discard is not None]
    )
    outcomes += _failed(claim, [(one, one.failure) for one in deliveries if one.failure is not None])
    if last:
        outcomes[Outcome.GIVEN_BACK] = _finish(claim, rest=len(claim.messages) - len(deliveries))
    else:
        _must_be_one(_HOLD if durable else _HOLD_HASTILY, claim.token)
    return outcomes


def end_now(claim: Claim, message: ClaimedMessage) -> Counter[Outcome]:
    """`settle` for one message that was processed, is not the last, and came from no letter; commits by itself."""
    with prepared_cursor() as cursor:
        cursor.execute(_END_NOW, {"message": message.id, "mark": claim.mark, "claim": claim.token})
        if cursor.rowcount != 1:
            raise ClaimLost
    return Counter({Outcome.PROCESSED: 1})


def hold(claim: Claim) -> None:
    """ClaimLost if the claim is not this worker's any more; else it is locked for the rest of the transaction."""
    _must_be_one(_HOLD, claim.token)


@transaction.atomic
def give_back(claim: Claim, settled: int = 0) -> int:
    """Return what the claim still holds as if it had not been claimed: a start of it is not an attempt; how many.

    `settled`: messages of the claim that have been settled already.
    """
    limit_transaction(SETTLE_SECONDS)
    return _finish(claim, rest=len(claim.messages) - settled)


def policy_of(queue: SourceQueue, type: str) -> RetryPolicy:
    """The retry policy for messages of this type."""
    own = queue.retry_overrides.get(type, {})
    return RetryPolicy(
        max_attempts=own.get("max_attempts", queue.max_attempts),
        base=own.get("backoff_base", queue.backoff_base),
        factor=own.get("backoff_factor", queue.backoff_factor),
        cap=own.get("backoff_cap", queue.backoff_cap),
        jitter=own.get("backoff_jitter", queue.backoff_jitter),
        permanent=own.get("permanent_errors", queue.permanent_errors),
        transient=own.get("transient_errors", queue.transient_errors),
    )


def _is_plain_success(claim: Claim, deliveries: Sequence[Delivery]) -> bool:
    """Whether everything that was claimed was processed, and neither keys nor letters wait for it."""
    everything = len(deliveries) == len(claim.messages)
    return everything and not claim.by_key and all(one.plainly_processed for one in deliveries)


def _end_all(claim: Claim) -> Counter[Outcome]:
    number = len(claim.messages)
    with prepared_cursor() as cursor:
        cursor.execute(_END_ALL, {"claim": claim.token})
        if cursor.fetchone() != (number, 1):
            raise ClaimLost
    return Counter({Outcome.PROCESSED: number})


def _array(messages: Sequence[ClaimedMessage]) -> str:
    """Their ids as PostgreSQL writes an array: psycopg takes 3 µs for each."""
    return "{" + ",".join([str(message.id) for message in messages]) + "}"


def _end(
    claim: Claim, messages: list[ClaimedMessage], account: AccountKind, resolution: DeadLetter.Resolution
) -> None:
    """They leave the queue: the row goes, the account grows, the letter that one came from is settled."""
    _change(_DELETE, [_array(messages), claim.mark], len(messages))
    books.post(claim.queue.pk, account, len(messages))
    if letters := [message.letter_id for message in messages if message.letter_id is not None]:
        mark_resolved(letters, resolution)


def _failed(claim: Claim, failed: list[tuple[Delivery, Failure]]) -> Counter[Outcome]:
    """Each waits for another attempt, or dies; a failed start leaves its error."""
    if not failed:
        return Counter()
    decided = [
        (one, failure, decide(failure, one.message.attempts, policy_of(claim.queue, one.message.type)))
        for one, failure in failed
    ]
    _record(claim, decided)
    dying = [(one, failure, end.reason) for one, failure, end in decided if isinstance(end, Die)]
    waiting = [(one, end.seconds) for one, _, end in decided if isinstance(end, Retry)]
    if waiting:
        _wait(claim, waiting)
    if dying:
        _die(claim, dying)
    return Counter({Outcome.RETRY: len(waiting), Outcome.DEAD: len(dying)})


def _record(claim: Claim, decided: list[tuple[Delivery, Failure, Die | Retry]]) -> None:
    record_starts(
        claim.queue.pk,
        [
            StartRecord.of(
                one.message,
                Attempt.Outcome.FAILED,
                failure.error,
                number=one.message.attempts,
                started_at=claim.moment(one.clock),
                worker=node_name(),
                retry_in=end.seconds if isinstance(end, Retry) else None,
            )
            for one, failure, end in decided
            if failure.started
        ],
    )


def _wait(claim: Claim, waiting: list[tuple[Delivery, float]]) -> None:
    values = [
        [one.message.id for one, _ in waiting],
        [one.message.attempts for one, _ in waiting],
        [claim.moment(one.clock) for one, _ in waiting],
        [seconds for _, seconds in waiting],
        claim.mark,
        [one.message.id for one, _ in waiting],
    ]
    _change(_RETRY, values, len(waiting))


def _die(claim: Claim, dying: list[tuple[Delivery, Failure, DeadLetter.Reason]]) -> None:
    """A start that never began, for want of a handler or a readable body, was not an attempt."""
    deaths = [
        Death(
            message=one.message.id,
            reason=reason,
            error=failure.error,
            attempts=one.message.attempts - (not failure.started),
            lost=one.message.lost,
            started=claim.moment(one.clock) if failure.started else None,
        )
        for one, failure, reason in dying
    ]
    dead_letters(queue=claim.queue.pk, claim=claim.mark, worker=node_name(), deaths=deaths)


def _finish(claim: Claim, *, rest: int) -> int:
    """End the claim: the `rest` of its messages, and its keys, are free; how many messages went back."""
    if rest and claim.mark is not None:
        with connection.cursor() as cursor:
            cursor.execute(_RELEASE, [int(claim.single), claim.token])
    if claim.by_key:
        free_keys(claim.token, claim.queue.on_death)
    _must_be_one(_DROP, claim.token)
    return rest


def free_keys(token: int, on_death: str) -> None:
    """Free the keys of a claim whose messages are settled; those with a letter are parked if the queue holds keys."""
    keys = ordering.hold_keys(token)
    if on_death == SourceQueue.OnDeath.HOLD:
        park_at_letters(keys)
    ordering.let_go(keys)


def _must_be_one(statement: str, token: int) -> None:
    _change(statement, [token], 1)


def _change(statement: str, values: list[Any], expected: int) -> None:
    """Execute a statement that must touch exactly so many rows; ClaimLost if the worker does not hold them any more."""
    with prepared_cursor() as cursor:
        cursor.execute(statement, values)
        if cursor.rowcount != expected:
            raise ClaimLost
