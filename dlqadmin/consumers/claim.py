"""Claiming a message: the right to run and settle it until a moment, charged before the start.

1. The oldest due message that nobody holds is locked, passing over those that others are claiming right now.
2. A claim is written for it, and the attempt is counted.
3. Both commit before the handler starts: whatever happens to this worker, the attempt is known.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from dlqadmin.consumers.errors import ClaimLost
from dlqadmin.leases.node import node_name
from dlqadmin.queues.models import SourceQueue

# Seconds that a claim outlives the time-out of its handler: room to settle.
GRACE = 10.0

_CLAIM = """
WITH due AS (
    SELECT id FROM dlqadmin_message
    WHERE queue_id = %(queue)s AND claim_id IS NULL AND available_at <= coalesce(%(due_before)s, clock_timestamp())
    ORDER BY available_at, position LIMIT 1 FOR UPDATE SKIP LOCKED
), claim AS (
    INSERT INTO dlqadmin_claim (queue_id, worker, single, until)
    SELECT %(queue)s, %(worker)s, true, clock_timestamp() + make_interval(secs => %(lease)s) FROM due
    RETURNING token
)
UPDATE dlqadmin_message AS message
SET claim_id = claim.token, attempts = message.attempts + 1, last_attempt_at = clock_timestamp()
FROM due, claim WHERE message.id = due.id
RETURNING message.id, claim.token, message_id, key, version, type, body, content_type, content_encoding,
    headers::text, lineage, generation, position, attempts, lost, published_at, last_attempt_at, letter_id
"""

_HOLD = "SELECT true FROM dlqadmin_claim WHERE token = %s AND until > clock_timestamp() FOR UPDATE"


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """A message as it was claimed: its row's values, and the token of the claim. `attempts` includes this one."""

    id: int
    token: int
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
    last_attempt_at: datetime
    letter_id: int | None


def claim_one(
    queue: SourceQueue, *, due_before: datetime | None = None, timeout: float
) -> ClaimedMessage | None:
    """Claim the oldest message of `queue` that is due (at `due_before`, default now), or None. Commits by itself.

    The claim lasts `timeout` (seconds, the longest that any handler of the queue may run) plus GRACE.
    """
    values: dict[str, Any] = {
        "queue": queue.pk,
        "due_before": due_before,
        "worker": node_name(),
        "lease": timeout + GRACE,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, values)
        row = cursor.fetchone()
    return ClaimedMessage(*row) if row else None


def hold(token: int) -> None:
    """Lock the claim for the rest of the transaction; ClaimLost if it expired or is gone. Settlements lock it last."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLD, [token])
        if cursor.fetchone() is None:
            raise ClaimLost
