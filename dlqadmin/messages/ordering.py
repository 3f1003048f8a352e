"""The keys of an ordered queue: which of them have messages, when the first of each may run, which are blocked.

Publishers append an arrival, consumers file it: nobody's transaction waits for the row of a key. Whoever changes the
messages of a key holds the key's row, and writes down its new head when he lets go of it:

- `file_arrivals` makes the rows of new keys, and looks at the heads of those that nobody has claimed;
- `hold_keys` and `let_go` do so for the keys of a claim, once its messages are settled.

Both lock the rows first, in the order of their keys, and look at the messages in a later statement: an arrival that was
filed while the key was claimed is then seen by who lets go of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from dlqadmin.prepared import prepared_cursor

# The update changes nothing: it locks the row, or makes it again if somebody just removed it.
_FILE = """
WITH arrived AS (
    DELETE FROM dlqadmin_keyarrival WHERE id IN (
        SELECT id FROM dlqadmin_keyarrival WHERE queue_id = %(queue)s ORDER BY id LIMIT %(most)s FOR UPDATE SKIP LOCKED
    ) RETURNING key
)
INSERT INTO dlqadmin_queuekey AS known (queue_id, key, suspect)
SELECT DISTINCT %(queue)s::bigint, key, false FROM arrived ORDER BY key
ON CONFLICT (queue_id, key) DO UPDATE SET suspect = known.suspect
RETURNING id, claim_id
"""

# A head that has failed blocks its key; so does a letter, for all that was published after it.
_LOOK = """
UPDATE dlqadmin_queuekey AS known SET claim_id = NULL, head = first.position, suspect = coalesce(first.suspect, false),
    due_at = CASE WHEN first.position > known.parked_position THEN NULL ELSE first.available_at END,
    blocked_at = CASE
        WHEN coalesce(first.position > known.parked_position, known.parked_position IS NOT NULL) THEN known.parked_at
        WHEN first.attempts + first.lost = 0 THEN NULL
        WHEN first.position = known.head AND known.blocked_at IS NOT NULL THEN known.blocked_at
        ELSE coalesce(first.last_attempt_at, clock_timestamp()) END
FROM dlqadmin_queuekey AS asked LEFT JOIN LATERAL (
    SELECT position, available_at, suspect, attempts, lost, last_attempt_at FROM dlqadmin_message AS message
    WHERE message.queue_id = asked.queue_id AND message.key = asked.key AND by_key ORDER BY position LIMIT 1
) AS first ON true
WHERE asked.id = ANY(%s) AND known.id = asked.id
"""

_LOCK_CLAIMED = "SELECT id FROM dlqadmin_queuekey WHERE claim_id = %s ORDER BY key FOR UPDATE"
# All of them, also the claimed ones: who is just letting go of one must not miss what this transaction has changed.
_LOCK = """
SELECT id, claim_id FROM dlqadmin_queuekey WHERE queue_id = %s AND key = ANY(%s) ORDER BY key FOR UPDATE
"""
_DROP = "DELETE FROM dlqadmin_queuekey WHERE id = ANY(%s) AND head IS NULL AND parked_position IS NULL"

# Counting stops at a bound: a key may have hundreds of thousands behind it.
_BLOCKED = """
SELECT key, blocked_at, due_at, parked_position IS NOT NULL, head, (
    SELECT count(*) FROM (
        SELECT FROM dlqadmin_message AS message WHERE message.queue_id = blocked.queue_id
            AND message.key = blocked.key AND by_key AND (head IS NULL OR message.position >= head) LIMIT %(bound)s
    ) AS counted
) FROM dlqadmin_queuekey AS blocked WHERE queue_id = %(queue)s AND blocked_at IS NOT NULL
ORDER BY blocked_at LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class BlockedKey:
    """A key whose head keeps failing (`parked` false) or that waits for a letter to be settled (`parked`).

    `waiting`: its messages, the failing head included, counted up to the bound that was asked for; `due_at`: when the
    head is tried again.
    """

    key: bytes
    since: datetime
    due_at: datetime | None
    parked: bool
    head: int | None
    waiting: int


def file_arrivals(queue_id: int, most: int = 2000) -> int:
    """Bring the keys of at most `most` arrivals up to date, in the caller's transaction; the number of keys."""
    with prepared_cursor() as cursor:
        cursor.execute(_FILE, {"queue": queue_id, "most": most})
        rows = cursor.fetchall()
    free = [row[0] for row in rows if row[1] is None]
    if free:
        with connection.cursor() as cursor:
            cursor.execute(_LOOK, [free])
    return len(rows)


def hold_keys(token: int) -> list[int]:
    """Lock the keys of a claim for the rest of the transaction that settles it; their ids."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_CLAIMED, [token])
        return [row[0] for row in cursor.fetchall()]


def hold_free_keys(queue_id: int, keys: Sequence[bytes]) -> list[int]:
    """Lock these keys; the ids of those that nobody has claimed. Who claimed the others will look at them."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [queue_id, list(keys)])
        return [row[0] for row in cursor.fetchall() if row[1] is None]


def let_go(ids: Sequence[int]) -> None:
    """Free these keys, which the transaction holds: each gets its new head, and one without messages is removed."""
    if ids:
        with connection.cursor() as cursor:
            cursor.execute(_LOOK, [list(ids)])
            cursor.execute(_DROP, [list(ids)])


def blocked_keys(queue_id: int, most: int = 25, bound: int = 10_000) -> list[BlockedKey]:
    """The blocked keys of a queue, the longest blocked first, at most `most`; `waiting` is counted up to `bound`."""
    with connection.cursor() as cursor:
        cursor.execute(_BLOCKED, {"queue": queue_id, "most": most, "bound": bound})
        return [BlockedKey(*row) for row in cursor.fetchall()]
