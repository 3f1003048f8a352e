"""The books of a queue: an entry for each message that is received or ends.

Entries are appended by whoever changes a state, in the same transaction; nobody's transaction updates a shared row
(one counter row took publishing from 346 to 45 a second). `fold` sums them up now and then. A reader adds what is
folded and what is not: `redrive.ledger`.
"""

from django.db import connection

from dlqadmin.leases.run import guarded
from dlqadmin.queues.models import AccountKind

# What stands before the rows of new entries, for statements that post in one step with what they tell of.
POST = "INSERT INTO dlqadmin_accountdelta (queue_id, kind, delta)"

# One statement sees one snapshot: exactly the deltas that are deleted are added.
_FOLD = """
WITH gone AS (
    DELETE FROM dlqadmin_accountdelta WHERE id IN (
        SELECT id FROM dlqadmin_accountdelta ORDER BY id LIMIT %(most)s FOR UPDATE SKIP LOCKED
    ) RETURNING queue_id, kind, delta
), sums AS (
    SELECT queue_id, kind, sum(delta) AS delta, count(*) AS rows FROM gone GROUP BY queue_id, kind
    ORDER BY queue_id, kind
), folded AS (
    INSERT INTO dlqadmin_account (queue_id, kind, total) SELECT queue_id, kind, delta FROM sums
    WHERE EXISTS (SELECT FROM dlqadmin_sourcequeue q WHERE q.id = sums.queue_id)
    ON CONFLICT (queue_id, kind) DO UPDATE SET total = dlqadmin_account.total + excluded.total
)
SELECT coalesce(sum(rows), 0) FROM sums
"""


def post(queue_id: int, kind: AccountKind, delta: int = 1) -> None:
    """Append an entry, inside the caller's transaction. An undo is a counter-entry: a negative delta."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"{POST} VALUES (%s, %s, %s)",
            [queue_id, kind.value, delta],
        )


def fold(most: int = 10_000) -> int:
    """Fold at most `most` entries into the totals; the number folded. Safe to run beside writers and other folds."""
    with guarded(), connection.cursor() as cursor:
        cursor.execute(_FOLD, {"most": most})
        folded: int = cursor.fetchone()[0]
    return folded
