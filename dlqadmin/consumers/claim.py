"""Claiming messages: the right to run and settle them until a moment, which is put off while their worker lives.

A batch is claimed without a charge: its settlement counts the attempts, so a worker that is lost with it charges
nobody. A message that is claimed singly is charged before it starts: whatever happens to its worker is then
known to be its own doing. Both commit before a handler starts.

Messages are claimed by themselves, the oldest first, or, in an ordered queue, through their keys: a key is claimed as a
whole, and what is taken of it stands at its head.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from dlqadmin.leases.node import node_name
from dlqadmin.messages import ordering
from dlqadmin.prepared import prepared_cursor
from dlqadmin.queues.models import SourceQueue

# Seconds that a claim holds without being renewed, and after which it is renewed.
LEASE = 15.0
RENEW_EVERY = 5.0

# Before anything was published.
EVER = datetime.min.replace(tzinfo=UTC)

_MESSAGE = """
message.id, message_id, message.key, version, type, body, content_type, content_encoding, headers::text, lineage,
generation, position, attempts + %(uncharged)s, lost, published_at, letter_id, by_key, available_at
"""

# The claim of a batch may be lost in a crash of the database, which frees its messages at once: it charges nobody, and
# what its worker settles afterwards must still find the rows under this token. So nobody waits for the disk.
_NEW_CLAIM = """
INSERT INTO dlqadmin_claim (queue_id, worker, single, until, claimed_at)
SELECT %(queue)s, %(worker)s, %(single)s, now + make_interval(secs => %(lease)s), now
FROM (SELECT clock_timestamp() AS now) AS clock WHERE EXISTS (SELECT FROM due)
RETURNING token, claimed_at, set_config('synchronous_commit', {durable}, true)
"""

# The moment is a subquery, so that it is asked once and bounds the scan of the index: what is not due yet is not read.
# What is due is joined as an array: of a join the planner may think that it is cheaper to read the whole table.
# `since` leaves out what lies before: there, the index is full of entries of messages that are gone, which each scan
# would walk over again as long as some long transaction keeps them from being removed.
_LOOSE = f"""
WITH due AS (
    SELECT id FROM dlqadmin_message
    WHERE queue_id = %(queue)s AND claim_id IS NULL AND NOT by_key AND suspect = {{suspect}}
        AND available_at <= (SELECT coalesce(%(due_before)s::timestamptz, clock_timestamp()))
        AND available_at >= %(since)s::timestamptz
    ORDER BY available_at, position LIMIT {{size}} FOR UPDATE SKIP LOCKED
), claim AS ({_NEW_CLAIM})
UPDATE dlqadmin_message AS message SET claim_id = claim.token, attempts = attempts + %(charge)s,
    last_attempt_at = CASE WHEN %(single)s THEN claimed_at ELSE last_attempt_at END
FROM claim WHERE message.id = ANY(ARRAY(SELECT id FROM due))
RETURNING claim.token, claim.claimed_at, {_MESSAGE}
"""  # noqa: S608 - made of constants

_KEYS = f"""
WITH due AS (
    SELECT id FROM dlqadmin_queuekey
    WHERE queue_id = %(queue)s AND claim_id IS NULL AND suspect = {{suspect}}
        AND due_at <= (SELECT coalesce(%(due_before)s::timestamptz, clock_timestamp()))
        AND due_at >= %(since)s::timestamptz
    ORDER BY due_at LIMIT {{size}} FOR UPDATE SKIP LOCKED
), claim AS ({_NEW_CLAIM})
UPDATE dlqadmin_queuekey AS known SET claim_id = claim.token FROM claim
WHERE known.id = ANY(ARRAY(SELECT id FROM due))
RETURNING claim.token, claim.claimed_at, known.due_at
"""  # noqa: S608 - made of constants

# A later statement than the claim of the keys, so that it sees what their last holder has settled. Of each key the
# first messages, up to one that may not run yet or that has to run singly.
_HEADS = """
WITH heads AS (
    SELECT first.*, bool_and(runs) OVER (PARTITION BY known.id ORDER BY first.position) AS ready
    FROM dlqadmin_queuekey AS known CROSS JOIN LATERAL (
        SELECT waiting.*, (suspect = {suspect}
            AND available_at <= coalesce(%(due_before)s::timestamptz, clock_timestamp())) AS runs
        FROM dlqadmin_message AS waiting
        WHERE waiting.queue_id = known.queue_id AND waiting.key = known.key AND by_key
            AND (known.parked_position IS NULL OR position <= known.parked_position)
        ORDER BY position LIMIT {each}
    ) AS first WHERE known.claim_id = %(token)s
)
"""

# Who holds the key holds its messages, so their rows stay as they are: the claim knows which of them it has taken.
# (Marking the heads of 100 keys touches 100 pages of the table and 100 of its index.)
_TAKE_HEADS = f"""{_HEADS}, noted AS (
    UPDATE dlqadmin_claim SET message_ids = ARRAY(SELECT id FROM heads WHERE ready) WHERE token = %(token)s
)
SELECT {_MESSAGE} FROM heads AS message WHERE ready
"""  # noqa: S608 - made of constants

_TAKE_HEAD = f"""{_HEADS}
UPDATE dlqadmin_message AS message SET claim_id = %(token)s, attempts = attempts + %(charge)s,
    last_attempt_at = %(claimed_at)s
WHERE message.id = ANY(ARRAY(SELECT id FROM heads WHERE ready))
RETURNING {_MESSAGE}
"""  # noqa: S608 - made of constants


class ClaimedMessage(NamedTuple):
    """A message as it was claimed. `attempts` includes the one that this claim is for, stored already or not."""

    id: int
    message_id: str
    key: bytes | None
    version: int | None
    type: str
    body: bytes | None
    content_type: str
    content_encoding: str
    headers: str
    lineage: UUID
    generation: int
    position: int
    attempts: int
    lost: int
    published_at: datetime
    letter_id: int | None
    by_key: bool
    available_at: datetime


@dataclass(frozen=True, slots=True)
class Claim:
    """What this worker may run and settle. `single`: one message, charged; `claimed_at`: by the database's clock,
    which was so at `clock` of this process's monotonic one; `since`: when the first of it became due."""

    queue: SourceQueue
    token: int
    single: bool
    messages: Sequence[ClaimedMessage]
    claimed_at: datetime
    clock: float
    since: datetime

    @property
    def by_key(self) -> bool:
        """Whether keys were claimed."""
        return self.messages[0].by_key

    @property
    def mark(self) -> int | None:
        """What `claim_id` of its messages is: those of claimed keys stay unmarked, but for a single one."""
        return None if self.by_key and not self.single else self.token

    def moment(self, clock: float) -> datetime:
        """The database's time when this process's monotonic clock was `clock`."""
        return self.claimed_at + timedelta(seconds=clock - self.clock)


def claim_batch(
    queue: SourceQueue, size: int, *, by_key: bool = False, since: datetime = EVER
) -> Claim | None:
    """Claim at most `size` messages that are due and no suspects, or None. Nothing is charged. Commits by itself.

    `by_key`: the heads of keys, else what has no key. `since`: only what became due at this moment or later. A batch of
    one is claimed singly, so that it is charged.
    """
    single = size == 1
    return _claim(queue, by_key, single=single, size=size, suspect=False, due_before=None, since=since)


def claim_single(
    queue: SourceQueue, *, by_key: bool = False, suspect: bool = False, due_before: datetime | None = None
) -> Claim | None:
    """Claim the oldest message that is due (at `due_before`, default now) and charge it, or None. Commits by itself.

    `suspect`: ask for suspects only, else for others only.
    """
    return _claim(queue, by_key, single=True, size=1, suspect=suspect, due_before=due_before, since=EVER)


def _claim(queue: SourceQueue, by_key: bool, **asked: Any) -> Claim | None:
    charge = int(asked["single"])
    values = asked | {"queue": queue.pk, "worker": node_name(), "lease": LEASE, "charge": charge}
    values["uncharged"] = 1 - charge
    if by_key:
        return _claim_keys(queue, values)
    with prepared_cursor() as cursor:
        cursor.execute(_statement(_LOOSE, values), values)
        rows = cursor.fetchall()
    if not rows:
        return None
    messages = _in_order([row[2:] for row in rows])
    return Claim(
        queue,
        rows[0][0],
        values["single"],
        messages,
        claimed_at=rows[0][1],
        clock=time.monotonic(),
        since=messages[0].available_at,
    )


def _claim_keys(queue: SourceQueue, values: dict[str, Any]) -> Claim | None:
    with transaction.atomic(), prepared_cursor() as cursor:
        if values["since"] == EVER:  # a turn's first look
            ordering.file_arrivals(queue.pk)
        cursor.execute(_statement(_KEYS, values), values)
        keys = cursor.fetchall()
        if not keys:
            return None
        token, claimed_at, _ = keys[0]
        each = max(1, values["size"] // len(keys))
        values |= {"token": token, "claimed_at": claimed_at, "each": each}
        cursor.execute(_statement(_TAKE_HEAD if values["single"] else _TAKE_HEADS, values), values)
        messages = _in_order(cursor.fetchall())
        if not messages:  # what the rows of the keys say is out of date: write down what is true
            ordering.let_go(ordering.hold_keys(token))
            cursor.execute("DELETE FROM dlqadmin_claim WHERE token = %s", [token])
            return None
    since = min(due_at for *_, due_at in keys)
    return Claim(queue, token, values["single"], messages, claimed_at, time.monotonic(), since)


def _statement(template: str, values: dict[str, Any]) -> str:
    """With the values that decide its plan in its text; they are numbers of ours, truth values and constants."""
    durable = "current_setting('synchronous_commit')" if values["single"] else "'off'"
    return template.format(
        size=values["size"], each=values.get("each", 0), suspect=values["suspect"], durable=durable
    )


def _in_order(rows: list[Any]) -> list[ClaimedMessage]:
    """By keys in publish order; others in the order in which they became due."""
    messages = [ClaimedMessage._make(row) for row in rows]
    return sorted(messages, key=lambda one: (not one.by_key and one.available_at, one.position))
