"""Bringing the groups of a queue's leaves up to date with its joins and verdicts.

The partition is made anew from the rows (`components.partition`), so it depends on nothing but them. Leaves that no
join and no verdict mentions are groups of their own and are not read.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from dlqadmin.clusters.components import partition, root_of
from dlqadmin.clusters.models import ClusterVerdict, ErrorCluster
from dlqadmin.leases.run import guarded

# Who changes joins, verdicts or groups of a queue does it alone; capture does not ask for this lock.
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('dlqadmin.clusters', %s))"

_MEMBERS = """
SELECT key.kind || key.digest, key.cluster_id FROM dlqadmin_clusterjoin AS joined
JOIN dlqadmin_templatekey AS key
    ON key.queue_id = joined.queue_id AND key.digest = joined.digest AND key.kind = joined.kind
WHERE joined.queue_id = %s AND joined.undone_at IS NULL
"""

_MERGE = """
UPDATE dlqadmin_errorcluster AS leaf SET merged_into_id = nullif(wanted.root, leaf.id)
FROM unnest(%(leaves)s::bigint[], %(roots)s::bigint[]) AS wanted (leaf, root)
WHERE leaf.id = wanted.leaf AND leaf.merged_into_id IS DISTINCT FROM nullif(wanted.root, leaf.id)
"""
_PART = """
UPDATE dlqadmin_errorcluster SET merged_into_id = NULL
WHERE queue_id = %(queue)s AND merged_into_id IS NOT NULL AND id <> ALL(%(leaves)s)
"""


@contextmanager
def changing_groups(queue_id: int) -> Iterator[None]:
    """A transaction that alone may change the groups of this queue; they are brought up to date at its end."""
    with guarded():
        lock_groups(queue_id)
        yield
        regroup(queue_id)


def lock_groups(queue_id: int) -> None:
    """Nobody changes the groups of this queue before the caller's transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [queue_id])


def regroup(queue_id: int) -> None:
    """Set `merged_into` of the queue's leaves. Call it inside `changing_groups`."""
    joins = _joins(queue_id)
    verdicts = list(
        ClusterVerdict.objects.filter(queue=queue_id, withdrawn_at=None).values_list("one", "other", "same")
    )
    mentioned = {leaf for leaves in joins.values() for leaf in leaves}
    mentioned.update(leaf for one, other, _ in verdicts for leaf in (one, other))
    # Told apart by fingerprint, not by id, so that the order of arrival has no say.
    leaves = ErrorCluster.objects.filter(pk__in=mentioned).values_list(
        "pk", "fingerprint", "fingerprint_version", "worked_on_at"
    )
    names = {pk: f"{fingerprint}.{version}" for pk, fingerprint, version, _ in leaves}
    worked_on = {names[pk]: at for pk, _, _, at in leaves}
    pairs: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for one, other, same in verdicts:
        pairs[same].append((names[one], names[other]))
    groups: dict[str, list[str]] = defaultdict(list)
    found = partition(
        {key: [names[leaf] for leaf in members] for key, members in joins.items()}, pairs[True], pairs[False]
    )
    for name, least in found.items():
        groups[least].append(name)
    ids = {name: pk for pk, name in names.items()}
    roots = {ids[name]: ids[root_of(group, worked_on)] for group in groups.values() for name in group}
    with connection.cursor() as cursor:
        # First, so that a leaf that was a root is none for anybody when it gets one.
        cursor.execute(_PART, {"queue": queue_id, "leaves": list(roots)})
        cursor.execute(_MERGE, {"leaves": list(roots), "roots": list(roots.values())})


def _joins(queue_id: int) -> dict[str, list[int]]:
    joins: dict[str, list[int]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_MEMBERS, [queue_id])
        for key, leaf in cursor.fetchall():
            joins[key].append(leaf)
    return joins
