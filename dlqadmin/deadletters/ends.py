"""The newest and the oldest letters of clusters, found at the ends of an index, whatever lies between them.

A query for the letters of some clusters in the order of their ids is planned as if these lay evenly among all others:
of a cluster that was quiet for long the whole table would be read.
"""

from collections.abc import Sequence
from typing import Any

from django.db import connection

from dlqadmin.deadletters.models import DeadLetter

OPEN = (DeadLetter.State.OPEN.value,)
ALL_STATES = tuple(state.value for state in DeadLetter.State)
LEAST = -(2**63) + 1

# Of each leaf and each state the end of the index letter_at_ends; of these the end of all.
_IDS = """
SELECT letter.id FROM unnest(%(leaves)s::bigint[]) AS leaf (id) CROSS JOIN unnest(%(states)s::text[]) AS asked (state)
CROSS JOIN LATERAL (
    SELECT id FROM dlqadmin_deadletter
    WHERE cluster_id = leaf.id AND state = asked.state AND id * -1 > %(above)s ORDER BY id * -1 {inner} LIMIT %(most)s
) AS letter ORDER BY letter.id {outer} LIMIT %(most)s
"""
_NEWEST = _IDS.format(inner="ASC", outer="DESC")
_OLDEST = _IDS.format(inner="DESC", outer="ASC")


def newest_ids(
    leaves: Sequence[int], most: int, states: Sequence[str] = ALL_STATES, before: int | None = None
) -> list[int]:
    """The ids of the newest letters of these leaves in these states, newest first; only those below `before`."""
    return _ids(_NEWEST, leaves, most, states, LEAST if before is None else -before)


def oldest_ids(leaves: Sequence[int], most: int, states: Sequence[str] = ALL_STATES) -> list[int]:
    """The ids of the oldest letters of these leaves in these states, oldest first."""
    return _ids(_OLDEST, leaves, most, states, LEAST)


def _ids(query: str, leaves: Sequence[int], most: int, states: Sequence[str], above: int) -> list[int]:
    values: dict[str, Any] = {"leaves": list(leaves), "states": list(states), "above": above, "most": most}
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return [row[0] for row in cursor.fetchall()]
