"""Which deliveries were done before: a ledger of message ids, or the newest version of each key.

An atomic batch first locks what it is about to do (`enter_ids`, `lock_versions`), in one sorted statement: unsorted,
64 of 120 batches deadlocked. What failed is taken back before the commit, so a failed message leaves no trace.
"""

from collections.abc import Iterable, Mapping

from django.db import connection

from dlqadmin.messages.models import Discard

# Stands for "no version yet" in a row that a batch has locked; lower than any version that a message may have.
NO_VERSION = -(2**63)

_ENTER = """
INSERT INTO dlqadmin_processedid (queue_id, message_id, processed_at)
SELECT %s, message_id, clock_timestamp() FROM unnest(%s::text[]) AS message_id ORDER BY message_id
ON CONFLICT (queue_id, message_id) DO NOTHING RETURNING message_id
"""
_KNOWN_IDS = "SELECT message_id FROM dlqadmin_processedid WHERE queue_id = %s AND message_id = ANY(%s)"
_FORGET = "DELETE FROM dlqadmin_processedid WHERE queue_id = %s AND message_id = ANY(%s)"

_LOCK_VERSIONS = """
INSERT INTO dlqadmin_keyversion AS known (queue_id, key, version, processed_at)
SELECT %s, key, %s, clock_timestamp() FROM unnest(%s::bytea[]) AS key ORDER BY key
ON CONFLICT (queue_id, key) DO UPDATE SET version = known.version RETURNING key, version
"""
_KNOWN_VERSIONS = "SELECT key, version FROM dlqadmin_keyversion WHERE queue_id = %s AND key = ANY(%s)"
_RAISE_VERSIONS = """
INSERT INTO dlqadmin_keyversion AS known (queue_id, key, version, processed_at)
SELECT %s, key, version, clock_timestamp() FROM unnest(%s::bytea[], %s::bigint[]) AS done (key, version) ORDER BY key
ON CONFLICT (queue_id, key) DO UPDATE SET version = excluded.version, processed_at = excluded.processed_at
WHERE known.version < excluded.version
"""
_DROP_UNUSED = "DELETE FROM dlqadmin_keyversion WHERE queue_id = %s AND key = ANY(%s) AND version = %s"


def judge_version(version: int, newest: int) -> Discard.Kind | None:
    """Whether a message of `version` is to be dropped when `newest` was processed. Pure. Equal: a duplicate."""
    if version > newest:
        return None
    return Discard.Kind.DUPLICATE if version == newest else Discard.Kind.STALE


def enter_ids(queue_id: int, ids: Iterable[str]) -> set[str]:
    """Enter these ids into the ledger; those that were not in it. Waits for others that are entering the same ones."""
    with connection.cursor() as cursor:
        cursor.execute(_ENTER, [queue_id, list(ids)])
        return {row[0] for row in cursor.fetchall()}


def known_ids(queue_id: int, ids: Iterable[str]) -> set[str]:
    """Which of these ids are in the ledger."""
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN_IDS, [queue_id, list(ids)])
        return {row[0] for row in cursor.fetchall()}


def forget_ids(queue_id: int, ids: Iterable[str]) -> None:
    """Take these ids out of the ledger: their messages were not processed."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, [queue_id, list(ids)])


def lock_versions(queue_id: int, keys: Iterable[bytes]) -> dict[bytes, int]:
    """Lock these keys until the end of the transaction; the newest processed version of each, or NO_VERSION."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_VERSIONS, [queue_id, NO_VERSION, list(keys)])
        return {bytes(key): version for key, version in cursor.fetchall()}


def known_versions(queue_id: int, keys: Iterable[bytes]) -> dict[bytes, int]:
    """The newest processed version of each of these keys; keys without one are not in the answer."""
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN_VERSIONS, [queue_id, list(keys)])
        return {bytes(key): version for key, version in cursor.fetchall()}


def raise_versions(queue_id: int, versions: Mapping[bytes, int]) -> None:
    """Remember these versions as processed; a newer one that is known stays."""
    with connection.cursor() as cursor:
        cursor.execute(_RAISE_VERSIONS, [queue_id, list(versions), list(versions.values())])


def drop_unused_locks(queue_id: int, keys: Iterable[bytes]) -> None:
    """Remove the rows that `lock_versions` made for keys of which nothing was processed after all."""
    with connection.cursor() as cursor:
        cursor.execute(_DROP_UNUSED, [queue_id, list(keys), NO_VERSION])
