"""Templates that may be one cause: a person is asked. Read from the keys, nothing is stored but the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from dlqadmin.clusters.joining import PROPOSED_FILLS, SURE_FILLS, KeyKind
from dlqadmin.clusters.models import ErrorCluster

MOST_PROPOSALS = 20
_MOST_KEYS = 500  # several keys name the same templates

# A person was asked before if any two of the leaves have a verdict.
_PROPOSED = """
SELECT array_agg(DISTINCT root ORDER BY root), array_agg(fill ORDER BY fill) FROM (
    SELECT key.digest, key.fill, coalesce(leaf.merged_into_id, leaf.id) AS root
    FROM dlqadmin_templatekey AS key JOIN dlqadmin_errorcluster AS leaf ON leaf.id = key.cluster_id
    WHERE key.queue_id = %(queue)s AND key.kind = %(kind)s AND key.digest IN (
        SELECT digest FROM dlqadmin_templatekey AS own JOIN dlqadmin_errorcluster AS leaf ON leaf.id = own.cluster_id
        WHERE (leaf.id = %(root)s OR leaf.merged_into_id = %(root)s) AND own.kind = %(kind)s
    )
) AS keyed
GROUP BY digest HAVING count(*) BETWEEN %(least)s AND %(most)s AND count(DISTINCT root) >= %(least)s AND NOT EXISTS (
    SELECT FROM dlqadmin_clusterverdict WHERE queue_id = %(queue)s AND withdrawn_at IS NULL AND NOT same
        AND one_id = ANY(array_agg(root)) AND other_id = ANY(array_agg(root))
)
ORDER BY count(*) DESC, min(root), min(length(fill)) LIMIT %(keys)s
"""


# Why templates are together: the keys that some of them share.
_JOINS = """
SELECT joined.id, joined.kind, array_agg(DISTINCT key.cluster_id), (array_agg(DISTINCT key.fill))[1:%(fills)s]
FROM dlqadmin_templatekey AS key JOIN dlqadmin_clusterjoin AS joined
    ON joined.queue_id = key.queue_id AND joined.digest = key.digest AND joined.kind = key.kind
WHERE key.cluster_id = ANY(%(leaves)s) AND joined.undone_at IS NULL
GROUP BY joined.id, joined.kind HAVING count(DISTINCT key.cluster_id) > 1
ORDER BY min(length(key.fill)), joined.id LIMIT %(most)s
"""
MOST_JOINS = 50
SHOWN_FILLS = 8


@dataclass(frozen=True, slots=True)
class Join:
    """What holds `leaves` together: what they differ in (`fills`), or a wrapper around one text. Several rows (`pks`)
    may say the same."""

    pks: list[int]
    kind: str
    leaves: list[int]
    fills: list[str]


def joins_of(leaves: Sequence[int]) -> list[Join]:
    """The joins among these leaves."""
    values: dict[str, Any] = {"leaves": list(leaves), "fills": SHOWN_FILLS, "most": MOST_JOINS}
    found: dict[tuple[str, tuple[int, ...]], Join] = {}
    with connection.cursor() as cursor:
        cursor.execute(_JOINS, values)
        for pk, kind, members, fills in cursor.fetchall():
            join = found.setdefault((kind, tuple(members)), Join([], kind, members, fills))
            join.pks.append(pk)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Proposal:
    """Groups, by their roots, whose templates differ in `fills` only."""

    roots: tuple[int, ...]
    fills: tuple[str, ...]


def proposals_of(cluster: ErrorCluster) -> list[Proposal]:
    """The proposals that the group of `cluster` is in, those with most templates first."""
    values: dict[str, int | str] = {
        "queue": cluster.queue_id,
        "root": cluster.root_id,
        "kind": KeyKind.SLOT.value,
        "least": PROPOSED_FILLS,
        "most": SURE_FILLS - 1,
        "keys": _MOST_KEYS,
    }
    found: dict[tuple[int, ...], Proposal] = {}
    with connection.cursor() as cursor:
        cursor.execute(_PROPOSED, values)
        for roots, fills in cursor.fetchall():
            found.setdefault(tuple(roots), Proposal(tuple(roots), tuple(fills)))
    return list(found.values())[:MOST_PROPOSALS]
