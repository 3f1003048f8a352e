"""The groups of clusters in a queue that have open letters, without reading these."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from dlqadmin.clusters.counts import OPEN_LEAVES

# How many there are is what the clusters' counts say; when they died, the first and the last entry of each leaf in the
# index letter_open_of_queue.
_OPEN = f"""
WITH groups AS (
    SELECT root, sum(letters)::bigint AS letters, array_agg(id) AS leaves,
        row_number() OVER (ORDER BY sum(letters) DESC, root) AS place
    FROM ({OPEN_LEAVES}) AS leaves WHERE queue_id = %(queue)s AND letters > 0 GROUP BY root
)
SELECT root, letters, ages.oldest, ages.newest FROM groups LEFT JOIN LATERAL (
    SELECT min(first.died_at) AS oldest, max(last.died_at) AS newest
    FROM unnest(groups.leaves) AS leaf (id) CROSS JOIN LATERAL (
        SELECT died_at FROM dlqadmin_deadletter
        WHERE queue_id = %(queue)s AND cluster_id = leaf.id AND state = 'open' ORDER BY died_at LIMIT 1
    ) AS first CROSS JOIN LATERAL (
        SELECT died_at FROM dlqadmin_deadletter
        WHERE queue_id = %(queue)s AND cluster_id = leaf.id AND state = 'open' ORDER BY died_at DESC LIMIT 1
    ) AS last
) AS ages ON place <= %(aged)s
ORDER BY place
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """A group of clusters with open letters: its root, their number, and when the oldest and the newest died (None: it
    was not asked)."""

    root: int
    letters: int
    oldest: datetime | None
    newest: datetime | None


def open_groups(queue_id: int, aged: int) -> list[OpenGroup]:
    """The groups of a queue that have open letters, the largest first; of the first `aged` also when these died."""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, {"queue": queue_id, "aged": aged})
        return [OpenGroup(*row) for row in cursor.fetchall()]
