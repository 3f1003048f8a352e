"""The second pass: templates that differ in free words or wrappers only are joined. For new leaves only.

1. The leaves that it has not seen, some of one queue.
2. Their keys are stored.
3. Every key that now has enough different fills becomes a join.
4. The groups are brought up to date.

A join depends on the set of fills that a key has, and on nothing else; so it makes no difference in which order, or in
which portions, leaves come here.
"""

from django.db import connection

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters.fingerprint import VERSION
from dlqadmin.clusters.groups import changing_groups
from dlqadmin.clusters.joining import Judgement, KeyKind, judge, keys_of
from dlqadmin.clusters.models import ErrorCluster

PORTION = 500  # leaves

# A leaf of a newer version has the keys of its forerunner.
_STORE = """
INSERT INTO dlqadmin_templatekey (queue_id, kind, digest, fill, cluster_id)
SELECT DISTINCT ON (digest, kind, fill) %(queue)s, kind, digest, fill, leaf
FROM unnest(%(kinds)s::text[], %(digests)s::text[], %(fills)s::text[], %(leaves)s::bigint[])
    AS key (kind, digest, fill, leaf)
ORDER BY digest, kind, fill, leaf
ON CONFLICT (queue_id, digest, kind, fill) DO UPDATE SET cluster_id = excluded.cluster_id
"""

# A hundred fills say what a million say.
_FILLS = """
SELECT asked.kind, asked.digest, array_agg(fills.fill) FROM (
    SELECT DISTINCT kind, digest FROM unnest(%(kinds)s::text[], %(digests)s::text[]) AS asked (kind, digest)
) AS asked CROSS JOIN LATERAL (
    SELECT fill FROM dlqadmin_templatekey AS key
    WHERE key.queue_id = %(queue)s AND key.digest = asked.digest AND key.kind = asked.kind ORDER BY fill LIMIT 100
) AS fills GROUP BY 1, 2 HAVING count(*) > 1
"""

_JOIN = """
INSERT INTO dlqadmin_clusterjoin (queue_id, kind, digest, undone_by)
SELECT %s, kind, digest, '' FROM unnest(%s::text[], %s::text[]) AS key (kind, digest) ORDER BY digest, kind
ON CONFLICT (queue_id, digest, kind) DO NOTHING
"""

# In SQL: whether there is anything to do.
WAITING = (
    f"EXISTS (SELECT FROM dlqadmin_errorcluster WHERE keyed_at IS NULL AND fingerprint_version = {VERSION})"
)


def join_new_templates() -> int:
    """Take all leaves that the second pass has not seen; their number."""
    queues = ErrorCluster.objects.filter(keyed_at=None, fingerprint_version=VERSION).order_by("queue")
    total = 0
    for queue in queues.values_list("queue", flat=True).distinct():
        while seen := _portion(queue):
            total += seen
    return total


def _portion(queue_id: int) -> int:
    with changing_groups(queue_id):
        leaves = ErrorCluster.objects.filter(queue=queue_id, keyed_at=None, fingerprint_version=VERSION)
        templates = dict(leaves.order_by("pk").values_list("pk", "template")[:PORTION])
        keys = [
            (key.kind.value, key.digest, key.fill, pk) for pk in templates for key in keys_of(templates[pk])
        ]
        if keys:
            _store(queue_id, keys)
        ErrorCluster.objects.filter(pk__in=templates).update(keyed_at=ClockTimestamp())
    return len(templates)


def _store(queue_id: int, keys: list[tuple[str, str, str, int]]) -> None:
    kinds, digests, fills, leaves = (list(column) for column in zip(*keys, strict=True))
    with connection.cursor() as cursor:
        cursor.execute(
            _STORE, {"queue": queue_id, "kinds": kinds, "digests": digests, "fills": fills, "leaves": leaves}
        )
        cursor.execute(_FILLS, {"queue": queue_id, "kinds": kinds, "digests": digests})
        sure = [
            (kind, digest)
            for kind, digest, filled in cursor.fetchall()
            if judge(KeyKind(kind), filled) is Judgement.SURE
        ]
        if sure:
            cursor.execute(_JOIN, [queue_id, *(list(column) for column in zip(*sure, strict=True))])
