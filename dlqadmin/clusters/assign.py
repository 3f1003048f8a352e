"""Which cluster a dead letter belongs to."""

from collections.abc import Sequence

from django.db import connection

from dlqadmin.clusters.fingerprint import VERSION, fingerprint

# DO NOTHING leaves the row unlocked when it is there already, so that any number of workers agree without waiting; who
# makes several makes them in one order, so that nobody waits in a circle.
_INSERT = """
INSERT INTO dlqadmin_errorcluster
    (queue_id, fingerprint, fingerprint_version, error_class, template, sample_text, note)
SELECT %s, digest, %s, error_class, template, sample, ''
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS found (digest, error_class, template, sample)
ORDER BY digest
ON CONFLICT (queue_id, fingerprint_version, fingerprint) DO NOTHING
"""
_SELECT = """
SELECT fingerprint, coalesce(merged_into_id, id) FROM dlqadmin_errorcluster
WHERE queue_id = %s AND fingerprint_version = %s AND fingerprint = ANY(%s)
"""


def assign(*, queue_id: int, error_class: str, error_text: str) -> int:
    """The id of the cluster for this error: `assign_all` for one."""
    return assign_all(queue_id=queue_id, errors=[(error_class, error_text)])[0]


def assign_all(*, queue_id: int, errors: Sequence[tuple[str, str]]) -> list[int]:
    """The ids of the clusters for these errors (class, display-safe text), in their order; new ones are made.

    A merged cluster answers with what it was merged into. Runs inside the caller's transaction.
    """
    found = [fingerprint(text, error_class) for error_class, text in errors]
    clusters = _known(queue_id, {one.digest for one in found})
    new = {
        one.digest: (one.digest, error_class, one.template, text)
        for one, (error_class, text) in zip(found, errors, strict=True)
        if one.digest not in clusters
    }
    if new:
        columns = [list(column) for column in zip(*new.values(), strict=True)]
        with connection.cursor() as cursor:
            cursor.execute(_INSERT, [queue_id, VERSION, *columns])
        # A second statement has a new snapshot: it sees the rows of whoever was first.
        clusters |= _known(queue_id, set(new))
    return [clusters[one.digest] for one in found]


def _known(queue_id: int, digests: set[str]) -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(_SELECT, [queue_id, VERSION, list(digests)])
        return dict(cursor.fetchall())
