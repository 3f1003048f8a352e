"""How many letters a cluster has, open and in all, and when the last came.

Whoever changes letters appends what changed, in the same transaction, as for the books (`queues.books`): nobody waits
for a cluster's row. `fold` sums up; a reader adds what is not folded yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from dlqadmin.leases.run import guarded

TREND_HOURS = 14 * 24

# What stands before the rows of new entries, for statements that post in one step with what they tell of.
POST = "INSERT INTO dlqadmin_clusterdelta (cluster_id, opened, total)"

# One statement sees one snapshot: exactly the deltas that are deleted are added.
_FOLD = """
WITH gone AS (
    DELETE FROM dlqadmin_clusterdelta WHERE id IN (
        SELECT id FROM dlqadmin_clusterdelta ORDER BY id LIMIT %(most)s FOR UPDATE SKIP LOCKED
    ) RETURNING cluster_id, opened, total, at
), sums AS (
    SELECT cluster_id, sum(opened) AS opened, sum(total) AS total, max(at) FILTER (WHERE total > 0) AS last,
        count(*) AS rows FROM gone GROUP BY cluster_id ORDER BY cluster_id
), folded AS (
    UPDATE dlqadmin_errorcluster AS cluster SET open_count = open_count + sums.opened,
        total_count = total_count + sums.total, last_seen_at = greatest(last_seen_at, sums.last)
    FROM sums WHERE cluster.id = sums.cluster_id RETURNING cluster.id
), hours AS (
    INSERT INTO dlqadmin_clusterhour (cluster_id, hour, arrived)
    SELECT cluster_id, date_trunc('hour', at, 'UTC'), sum(total) FROM gone
    WHERE total > 0 AND cluster_id IN (SELECT id FROM folded) GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (cluster_id, hour) DO UPDATE SET arrived = dlqadmin_clusterhour.arrived + excluded.arrived
)
SELECT coalesce(sum(rows), 0) FROM sums
"""

_PRUNE = "DELETE FROM dlqadmin_clusterhour WHERE hour < clock_timestamp() - make_interval(hours => %s)"

# The leaves of all queues that have open letters, each with its group's root.
OPEN_LEAVES = """
SELECT leaf.queue_id, leaf.id, coalesce(leaf.merged_into_id, leaf.id) AS root,
    leaf.open_count + coalesce(new.opened, 0) AS letters
FROM dlqadmin_errorcluster AS leaf LEFT JOIN (
    SELECT cluster_id, sum(opened) AS opened FROM dlqadmin_clusterdelta GROUP BY cluster_id
) AS new ON new.cluster_id = leaf.id
WHERE leaf.open_count <> 0 OR new.opened <> 0
"""

# Groups: a leaf counts for its root. A sorted list of roots, and the leaves of each by the index on merged_into.
_OF_GROUPS = """
SELECT root.id, sum(leaf.open_count + coalesce(new.opened, 0))::bigint,
    sum(leaf.total_count + coalesce(new.total, 0))::bigint, min(leaf.first_seen_at),
    greatest(max(leaf.last_seen_at), max(new.last)), count(*)
FROM unnest(%s::bigint[]) AS root (id)
JOIN dlqadmin_errorcluster AS leaf ON leaf.id = root.id OR leaf.merged_into_id = root.id
LEFT JOIN LATERAL (
    SELECT sum(opened) AS opened, sum(total) AS total, max(at) FILTER (WHERE total > 0) AS last
    FROM dlqadmin_clusterdelta WHERE cluster_id = leaf.id
) AS new ON true
GROUP BY root.id
"""

_TREND = """
SELECT hour, sum(arrived)::bigint FROM (
    SELECT hour, arrived FROM dlqadmin_clusterhour WHERE cluster_id = ANY(%(leaves)s)
    UNION ALL
    SELECT date_trunc('hour', at, 'UTC'), total FROM dlqadmin_clusterdelta
    WHERE cluster_id = ANY(%(leaves)s) AND total > 0
) AS arrivals
WHERE hour > date_trunc('hour', clock_timestamp(), 'UTC') - make_interval(hours => %(hours)s)
GROUP BY hour
"""


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a group: its letters, since when and until when they came, and of how many templates they are."""

    open: int = 0
    total: int = 0
    first_seen_at: datetime | None = None
    last_seen_at: datetime | None = None
    templates: int = 1


def post(cluster_id: int, *, opened: int, total: int = 0) -> None:
    """Append a change of a leaf's letters, inside the caller's transaction."""
    with connection.cursor() as cursor:
        cursor.execute(f"{POST} VALUES (%s, %s, %s)", [cluster_id, opened, total])


def counts_of(roots: Sequence[int]) -> dict[int, Counts]:
    """The counts of these groups, by the id of their root: one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_GROUPS, [list(roots)])
        return {row[0]: Counts(*row[1:]) for row in cursor.fetchall()}


def trend_of(leaves: Sequence[int], now: datetime, hours: int = 24) -> list[int]:
    """How many letters came in each of the last `hours` hours, the present one last."""
    with connection.cursor() as cursor:
        cursor.execute(_TREND, {"leaves": list(leaves), "hours": hours})
        arrived = dict(cursor.fetchall())
    last = now.replace(minute=0, second=0, microsecond=0)
    return [int(arrived.get(last - timedelta(hours=back), 0)) for back in range(hours - 1, -1, -1)]


def fold(most: int = 10_000) -> int:
    """Fold at most `most` entries into the clusters; the number folded. Safe beside writers and other folds."""
    with guarded(), connection.cursor() as cursor:
        cursor.execute(_FOLD, {"most": most})
        folded: int = cursor.fetchone()[0]
    return folded


def prune_hours() -> None:
    """Forget the hours that no trend shows any more."""
    with guarded(), connection.cursor() as cursor:
        cursor.execute(_PRUNE, [TREND_HOURS])
