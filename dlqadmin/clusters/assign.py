"""Which cluster a dead letter belongs to."""

from typing import Any

from django.db import connection

from dlqadmin.clusters.fingerprint import VERSION, fingerprint

# DO NOTHING leaves the row unlocked when it is there already, so that any number of workers agree without waiting.
_INSERT = """
INSERT INTO dlqadmin_errorcluster
    (queue_id, fingerprint, fingerprint_version, error_class, template, sample_text, note)
VALUES (%(queue)s, %(digest)s, %(version)s, %(error_class)s, %(template)s, %(sample)s, '')
ON CONFLICT (queue_id, fingerprint_version, fingerprint) DO NOTHING
"""
_SELECT = """
SELECT coalesce(merged_into_id, id) FROM dlqadmin_errorcluster
WHERE queue_id = %(queue)s AND fingerprint_version = %(version)s AND fingerprint = %(digest)s
"""


def assign(*, queue_id: int, error_class: str, error_text: str) -> int:
    """The id of the cluster for this error, made if it is new; a merged cluster answers with what it was merged into.

    `error_text` is the display-safe text. Runs inside the caller's transaction.
    """
    found = fingerprint(error_text, error_class)
    values: dict[str, Any] = {
        "queue": queue_id,
        "digest": found.digest,
        "version": VERSION,
        "error_class": error_class,
        "template": found.template,
        "sample": error_text,
    }
    with connection.cursor() as cursor:
        cursor.execute(_SELECT, values)
        row = cursor.fetchone()
        if row is None:
            cursor.execute(_INSERT, values)
            # A second statement has a new snapshot: it sees the row of whoever was first.
            cursor.execute(_SELECT, values)
            row = cursor.fetchone()
    cluster: int = row[0]
    return cluster
