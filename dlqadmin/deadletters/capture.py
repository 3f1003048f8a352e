"""Where a message becomes a dead letter: the one place that inserts one from a native queue.

1. Its error is assigned to a cluster.
2. Its row leaves `message` and enters `deadletter` in one statement, body and headers untouched by Python; the
   cluster's counts go with it.
3. If it was redriven before, the letter that it came from is marked as returned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from dlqadmin.clusters import counts
from dlqadmin.clusters.assign import Told, assign_all
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.outcomes import mark_returned
from dlqadmin.messages.failure import ErrorRecord

_MOVE = f"""
WITH death AS (
    SELECT * FROM unnest(%(message)s::bigint[], %(cluster)s::bigint[], %(reason)s::text[], %(attempts)s::int[],
        %(lost)s::int[], %(error_class)s::text[], %(error_text)s::text[], %(error_raw)s::bytea[],
        %(traceback)s::text[], %(started)s::timestamptz[])
        AS death (message, cluster, reason, attempts, lost, error_class, error_text, error_raw, traceback, started)
), gone AS (
    DELETE FROM dlqadmin_message AS message USING death
    WHERE message.id = death.message AND message.id = ANY(%(message)s)
        AND message.claim_id IS NOT DISTINCT FROM %(claim)s
    RETURNING message.*, death.cluster, death.reason, death.attempts AS counted, death.lost AS losses,
        death.error_class, death.error_text, death.error_raw, death.traceback, death.started
), letters AS (
INSERT INTO dlqadmin_deadletter (message_id, key, version, type, body, content_type, content_encoding, headers,
    lineage, generation, position, queue_id, cluster_id, state, resolution, reason, attempts, attempts_counter, lost,
    error_class, error_text, error_raw, traceback, worker, body_size, sent_at, last_attempt_at, previous_id)
SELECT message_id, key, version, type, body, content_type, content_encoding, headers, lineage,
    generation + 1, position, queue_id, cluster, 'open', '', reason, counted, 'dlqadmin', losses,
    error_class, error_text, error_raw, traceback, %(worker)s, coalesce(octet_length(body), 0),
    published_at, coalesce(started, last_attempt_at), letter_id
FROM gone ORDER BY position RETURNING id, previous_id, cluster_id
), counted AS (
    {counts.POST} SELECT cluster_id, count(*), count(*) FROM letters GROUP BY cluster_id
), announced AS (
    INSERT INTO dlqadmin_letterarrival (letter_id) SELECT id FROM letters
)
SELECT id, previous_id FROM letters ORDER BY id
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True)
class Death:
    """A message that is to become a dead letter. `message`: the id of its row; `attempts`: starts whose outcome
    counted; `lost`: starts whose worker was lost; `started`: when the last attempt began, None: as the row says."""

    message: int
    reason: DeadLetter.Reason
    error: ErrorRecord
    attempts: int
    lost: int
    started: datetime | None = None


class MessageGone(Exception):
    """A message is not held under this claim any more; nothing was captured."""


def dead_letters(*, queue: int, claim: int | None, worker: str, deaths: Sequence[Death]) -> list[int]:
    """Turn these messages of one queue into open dead letters; the letters' ids, oldest first.

    `claim`: what their `claim_id` must be. Runs inside the caller's transaction, all or none; raises MessageGone if one
    is not there to be moved.
    """
    errors = [Told(death.error.error_class, death.error.text, death.error.traceback) for death in deaths]
    values: dict[str, Any] = {
        "claim": claim,
        "worker": worker,
        "message": [death.message for death in deaths],
        "cluster": assign_all(queue_id=queue, errors=errors),
        "reason": [death.reason.value for death in deaths],
        "attempts": [death.attempts for death in deaths],
        "lost": [death.lost for death in deaths],
        "error_class": [death.error.error_class for death in deaths],
        "error_text": [death.error.text for death in deaths],
        "error_raw": [death.error.raw for death in deaths],
        "traceback": [death.error.traceback for death in deaths],
        "started": [death.started for death in deaths],
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_MOVE, values)
        moved = cursor.fetchall()
        if len(moved) != len(deaths):
            raise MessageGone(f"{len(deaths) - len(moved)} of {len(deaths)} messages")
        if previous := [row[1] for row in moved if row[1] is not None]:
            mark_returned(previous)
    return [row[0] for row in moved]
