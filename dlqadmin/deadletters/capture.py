"""Where a message becomes a dead letter: the one place that inserts one from a native queue.

1. Its error is assigned to a cluster.
2. Its row leaves `message` and enters `deadletter` in one statement, body and headers untouched by Python.
3. If it was redriven before, the letter that it came from is marked as returned.
"""

from typing import Any

from django.db import connection, transaction

from dlqadmin.clusters.assign import assign
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.outcomes import mark_returned
from dlqadmin.messages.failure import ErrorRecord

_MOVE = """
WITH gone AS (
    DELETE FROM dlqadmin_message WHERE id = %(message)s AND claim_id = %(claim)s RETURNING *
)
INSERT INTO dlqadmin_deadletter (message_id, key, version, type, body, content_type, content_encoding, headers,
    lineage, generation, position, queue_id, cluster_id, state, resolution, reason, attempts, attempts_counter, lost,
    error_class, error_text, error_raw, traceback, worker, body_size, sent_at, last_attempt_at, previous_id)
SELECT message_id, key, version, type, body, content_type, content_encoding, headers, lineage,
    generation + 1, position, queue_id, %(cluster)s, 'open', '', %(reason)s, %(attempts)s, 'dlqadmin', %(lost)s,
    %(error_class)s, %(error_text)s, %(error_raw)s, %(traceback)s, %(worker)s, coalesce(octet_length(body), 0),
    published_at, last_attempt_at, letter_id
FROM gone RETURNING id, previous_id
"""


class MessageGone(Exception):
    """The message is not held under this claim any more; nothing was captured."""


def dead_letter(
    *,
    message: int,
    claim: int,
    queue: int,
    reason: DeadLetter.Reason,
    error: ErrorRecord,
    attempts: int,
    lost: int,
    worker: str,
) -> int:
    """Turn the message with this id, held under `claim`, into an open dead letter; the letter's id.

    `attempts`: starts whose outcome counted; `lost`: starts whose worker was lost. Runs inside the caller's
    transaction; raises MessageGone if the message is not there to be moved.
    """
    cluster = assign(queue_id=queue, error_class=error.error_class, error_text=error.text)
    values: dict[str, Any] = {
        "message": message,
        "claim": claim,
        "cluster": cluster,
        "reason": reason.value,
        "attempts": attempts,
        "lost": lost,
        "error_class": error.error_class,
        "error_text": error.text,
        "error_raw": error.raw,
        "traceback": error.traceback,
        "worker": worker,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_MOVE, values)
        row = cursor.fetchone()
        if row is None:
            raise MessageGone(message)
        letter, previous = row
        if previous is not None:
            mark_returned(previous)
    moved: int = letter
    return moved
