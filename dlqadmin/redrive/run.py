"""Running redrives: send what is pending, read what became of what was sent, finish. Every step is rows, so any
process can go on where another was killed."""

import time
from collections import Counter

from django.db import connection
from django.db.models import Count
from django.utils.translation import gettext_noop

from dlqadmin.clock import ClockTimestamp
from dlqadmin.leases.run import guarded
from dlqadmin.messages.wakeups import wake
from dlqadmin.redrive.diagnose import refute
from dlqadmin.redrive.models import Redrive, RedriveItem

BATCH = 500
TURN_SECONDS = 5.0

# Send and mark are one statement: a message exists exactly if its item says so. The message keeps id, key, version,
# lineage and position; its attempts start at 0. Items are taken in publish order, so a key keeps its order. They are
# read as they were before this statement waited for the redrive's row: `sent_back_at` tells what was sent meanwhile.
_SEND = """
WITH live AS (
    SELECT id, queue_id FROM dlqadmin_redrive WHERE id = %(redrive)s AND state = 'running' FOR UPDATE
), batch AS (
    SELECT item.id, item.letter_id FROM dlqadmin_redriveitem AS item
    JOIN live ON live.id = item.redrive_id JOIN dlqadmin_deadletter AS letter ON letter.id = item.letter_id
    WHERE item.outcome = 'pending' ORDER BY letter.position LIMIT %(most)s
), marked AS (
    UPDATE dlqadmin_deadletter AS letter SET sent_back_at = clock_timestamp() FROM batch
    WHERE letter.id = batch.letter_id AND letter.state = 'redriving' AND letter.sent_back_at IS NULL RETURNING letter.*
), sent AS (
    INSERT INTO dlqadmin_message (position, queue_id, message_id, key, version, type, body, content_type,
        content_encoding, headers, lineage, by_key, generation, attempts, lost, suspect, available_at, published_at,
        letter_id)
    SELECT position, queue_id, message_id, marked.key, version, type, body, content_type, content_encoding,
        headers, lineage, queue.ordered AND marked.key IS NOT NULL, generation, 0, 0, false, clock_timestamp(),
        coalesce(sent_at, clock_timestamp()), marked.id
    FROM marked JOIN dlqadmin_sourcequeue AS queue ON queue.id = marked.queue_id
    ORDER BY position RETURNING queue_id, key, by_key, letter_id
), announced AS (
    INSERT INTO dlqadmin_keyarrival (queue_id, key) SELECT DISTINCT queue_id, key FROM sent WHERE by_key
)
UPDATE dlqadmin_redriveitem AS item SET outcome = 'sent', sent_at = clock_timestamp()
FROM batch, sent WHERE item.id = batch.id AND batch.letter_id = sent.letter_id
"""

_COLLECT = """
UPDATE dlqadmin_redriveitem AS item SET settled_at = letter.state_changed_at, outcome = CASE
    WHEN letter.state = 'returned' THEN 'died again'
    WHEN letter.resolution = 'succeeded' THEN 'succeeded' ELSE 'discarded' END
FROM dlqadmin_deadletter AS letter
WHERE item.redrive_id = %(redrive)s AND item.outcome = 'sent' AND letter.id = item.letter_id
    AND letter.state IN ('resolved', 'returned')
"""


def advance_redrives() -> None:
    """Take every running redrive as far as it goes now."""
    for redrive in Redrive.objects.filter(state=Redrive.State.RUNNING).select_related("queue").order_by("id"):
        send_pending(redrive)
        collect_outcomes(redrive)


def send_pending(redrive: Redrive, seconds: float = TURN_SECONDS) -> int:
    """Send pending letters of a running redrive back to their queue for about so long; the number sent.

    A batch is a transaction. What is left is sent in the next turn.
    """
    total, end = 0, time.monotonic() + seconds
    while time.monotonic() < end and (sent := _send_batch(redrive)):
        total += sent
    return total


def _send_batch(redrive: Redrive) -> int:
    with guarded(), connection.cursor() as cursor:
        cursor.execute(_SEND, {"redrive": redrive.pk, "most": BATCH})
        sent = cursor.rowcount
        if sent:
            wake(redrive.queue_id)
    return sent


@guarded()
def collect_outcomes(redrive: Redrive) -> Counter[str]:
    """Bring the items up to date with their letters, finish the redrive when none is open; the counts by outcome.

    A letter that died again refutes the diagnosis that the redrive relied on.
    """
    with connection.cursor() as cursor:
        cursor.execute(_COLLECT, {"redrive": redrive.pk})
        if cursor.rowcount:
            Redrive.objects.filter(pk=redrive.pk).update(last_outcome_at=ClockTimestamp())
    counts = count_outcomes(redrive)
    died = counts[RedriveItem.Outcome.DIED_AGAIN]
    if died and redrive.diagnosis:
        refute(redrive.diagnosis, f"{died} of the letters of redrive {redrive.pk} died again")
    if not counts[RedriveItem.Outcome.PENDING] and not counts[RedriveItem.Outcome.SENT]:
        _finish(redrive, gettext_noop("Letters died again: the cause is not gone.") if died else "")
    return counts


def count_outcomes(redrive: Redrive) -> Counter[str]:
    """How many items have each outcome."""
    rows = redrive.items.values_list("outcome").annotate(number=Count("id")).order_by()
    return Counter(dict(rows))


def _finish(redrive: Redrive, reason: str) -> None:
    Redrive.objects.filter(pk=redrive.pk, state=Redrive.State.RUNNING).update(
        state=Redrive.State.DONE, state_reason=reason, finished_at=ClockTimestamp()
    )
