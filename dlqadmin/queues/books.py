"""The books of a queue: what was received equals what can be shown.

    received = processed + duplicates + stale + waiting + running + dead + discarded + resolved

Entries are appended by whoever changes a state, in the same transaction; nobody's transaction updates a shared row.
`fold` sums them up now and then; a reader adds what is folded and what is not.
"""

from dataclasses import dataclass

from django.db import connection, transaction

from dlqadmin.queues.models import AccountKind

_READ = """
SELECT queue_id, kind, sum(amount)::bigint FROM (
    SELECT queue_id, kind, total AS amount FROM dlqadmin_account WHERE queue_id = ANY(%(queues)s)
    UNION ALL
    SELECT queue_id, kind, delta FROM dlqadmin_accountdelta WHERE queue_id = ANY(%(queues)s)
) AS entries GROUP BY queue_id, kind
"""

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


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of a queue that are counted as things happen, in messages."""

    received: int = 0
    processed: int = 0
    duplicate: int = 0
    stale: int = 0
    discarded: int = 0
    resolved: int = 0


def post(queue_id: int, kind: AccountKind, delta: int = 1) -> None:
    """Append an entry, inside the caller's transaction. An undo is a counter-entry: a negative delta."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO dlqadmin_accountdelta (queue_id, kind, delta) VALUES (%s, %s, %s)",
            [queue_id, kind.value, delta],
        )


def read(queue_ids: list[int]) -> dict[int, Accounts]:
    """The accounts of these queues in one statement (so: one moment). Every asked queue is in the answer."""
    found: dict[int, dict[str, int]] = {queue_id: {} for queue_id in queue_ids}
    with connection.cursor() as cursor:
        cursor.execute(_READ, {"queues": queue_ids})
        for queue_id, kind, amount in cursor.fetchall():
            found[queue_id][kind] = amount
    return {queue_id: Accounts(**amounts) for queue_id, amounts in found.items()}


def fold(most: int = 10_000) -> int:
    """Fold at most `most` entries into the totals; the number folded. Safe to run beside writers and other folds."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_FOLD, {"most": most})
        folded: int = cursor.fetchone()[0]
    return folded
