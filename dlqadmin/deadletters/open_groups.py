"""The groups of clusters in a queue that have open letters, without reading these."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

# How many there are is what the clusters' counts say; when they died, the first and the last entry of each leaf in the
# index letter_open_of_queue.
_OPEN = """
WITH news AS (
    SELECT cluster_id, sum(delta.opened) AS opened FROM dlqadmin_clusterdelta AS delta
    JOIN dlqadmin_errorcluster AS leaf ON leaf.id = delta.cluster_id WHERE leaf.queue_id = %(queue)s GROUP BY 1
), leaves AS (
    SELECT leaf.id, coalesce(leaf.merged_into_id, leaf.id) AS root, open_count + coalesce(news.opened, 0) AS letters
    FROM dlqadmin_errorcluster AS leaf LEFT JOIN news ON news.cluster_id = leaf.id
    WHERE leaf.queue_id = %(queue)s AND (open_count > 0 OR news.opened <> 0)
), groups AS (
    SELECT root, sum(letters)::bigint AS letters, array_agg(id) AS leaves,
        row_number() OVER (ORDER BY sum(letters) DESC, root) AS place
    FROM leaves WHERE letters > 0 GROUP BY root
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
"""


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
