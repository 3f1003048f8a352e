"""Letters go from one leaf to others, and what they count for goes with them."""

from collections.abc import Mapping

from django.db import connection

# The counts are of the hours in which the letters died.
_MOVE = """
WITH wanted AS (
    SELECT * FROM unnest(%(letters)s::bigint[], %(leaves)s::bigint[]) AS wanted (letter, leaf)
), moved AS (
    UPDATE dlqadmin_deadletter AS letter SET cluster_id = wanted.leaf FROM wanted
    WHERE letter.id = wanted.letter AND letter.cluster_id = %(old)s RETURNING wanted.leaf, letter.state, letter.died_at
), sums AS (
    SELECT leaf, count(*) FILTER (WHERE state = 'open') AS opened, count(*) AS total, max(died_at) AS at FROM moved
    GROUP BY leaf, date_trunc('hour', died_at)
), posted AS (
    INSERT INTO dlqadmin_clusterdelta (cluster_id, opened, total, at)
    SELECT leaf, opened, total, at FROM sums UNION ALL SELECT %(old)s, -opened, -total, at FROM sums
)
SELECT coalesce(sum(total), 0)::bigint FROM sums
"""


def move_letters(old: int, leaves: Mapping[int, int]) -> int:
    """Move letters that are of the leaf `old` to other leaves, by letter; how many were still there.

    Call it inside a transaction.
    """
    with connection.cursor() as cursor:
        cursor.execute(_MOVE, {"old": old, "letters": list(leaves), "leaves": list(leaves.values())})
        moved: int = cursor.fetchone()[0]
    return moved
