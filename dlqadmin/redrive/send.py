"""Sending letters of a redrive back to their queue: the message and its mark are one statement."""

from django.db import connection

from dlqadmin.leases.run import guarded
from dlqadmin.messages.wakeups import wake
from dlqadmin.redrive.models import Redrive

BATCH = 2_000

# Whoever sends, pauses, cancels or ends a redrive holds its row; the next statement sees what was sent before.
_LOCK = "SELECT FROM dlqadmin_redrive WHERE id = %s AND state IN ('running', 'stalled') FOR UPDATE"

# Send and mark are one statement: a message exists exactly if its item says so. The message keeps id, key, version,
# lineage and position; its attempts start at 0. Items were made in publish order and are taken so: a key keeps its
# order. Letters are found by arrays of ids and by nothing else (`|| ''`, `+ 0`): statistics of before a redrive say
# that hardly a letter is being redriven, so a planner would read all of them for each batch.
_SEND = """
WITH batch AS (
    SELECT item.id, item.letter_id FROM dlqadmin_redriveitem AS item
    WHERE item.redrive_id = %(redrive)s AND item.outcome = 'pending' AND {which} ORDER BY item.id LIMIT {most}
), sent AS (
    INSERT INTO dlqadmin_message (position, queue_id, message_id, key, version, type, body, content_type,
        content_encoding, headers, lineage, by_key, generation, attempts, lost, suspect, available_at, published_at,
        letter_id)
    SELECT position, queue_id, message_id, letter.key, version, type,
        CASE WHEN edit.id IS NULL THEN letter.body ELSE edit.body END, content_type, content_encoding, headers,
        lineage, queue.ordered AND letter.key IS NOT NULL, generation, 0, 0, false, clock_timestamp(),
        coalesce(sent_at, clock_timestamp()), letter.id
    FROM dlqadmin_deadletter AS letter JOIN dlqadmin_sourcequeue AS queue ON queue.id = letter.queue_id
    LEFT JOIN dlqadmin_letteredit AS edit ON edit.letter_id = letter.id
    WHERE letter.id = ANY(ARRAY(SELECT letter_id FROM batch)) AND letter.state || '' = 'redriving'
    ORDER BY position RETURNING queue_id, key, by_key, letter_id
), announced AS (
    INSERT INTO dlqadmin_keyarrival (queue_id, key) SELECT DISTINCT queue_id, key FROM sent WHERE by_key
)
UPDATE dlqadmin_redriveitem AS item SET outcome = 'sent', sent_at = clock_timestamp()
WHERE item.id = ANY(ARRAY(SELECT id FROM batch)) AND item.letter_id + 0 = ANY(ARRAY(SELECT letter_id FROM sent))
"""


def send_batch(redrive: Redrive, most: int, canary: bool) -> int:
    """Send at most so many of its pending letters, or only those of the canary, in one transaction; the number sent."""
    # The number stands in the text: the plan depends on it.
    statement = _SEND.format(which="item.is_canary" if canary else "true", most=int(min(most, BATCH)))
    with guarded(), connection.cursor() as cursor:
        cursor.execute(_LOCK, [redrive.pk])
        if cursor.rowcount == 0:
            return 0
        cursor.execute(statement, {"redrive": redrive.pk})
        sent = cursor.rowcount
        if sent:
            wake(redrive.queue_id)
    return sent
