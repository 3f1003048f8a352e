"""Which leaf of a cluster an error belongs to.

1. The fingerprint of each error.
2. The leaves that are there: one read, no lock.
3. Those that are not: one sorted insert, so that nobody waits in a circle, and a second read.
4. Where a person split a leaf, the part that the error belongs to.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from dlqadmin.clusters.fingerprint import VERSION, Fingerprint, fingerprint
from dlqadmin.clusters.splitting import Rule, part_of

# DO NOTHING leaves the row unlocked when it is there already, so that any number of workers agree without waiting.
_INSERT = """
INSERT INTO dlqadmin_errorcluster
    (queue_id, fingerprint, fingerprint_version, error_class, template, sample_text, name, note)
SELECT %s, digest, %s, error_class, template, sample, '', ''
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS found (digest, error_class, template, sample)
ORDER BY digest
ON CONFLICT (queue_id, fingerprint_version, fingerprint) DO NOTHING
"""
_SELECT = """
SELECT leaf.fingerprint, leaf.id, rule.target_id, rule.position, rule.value, rule.pattern
FROM dlqadmin_errorcluster AS leaf LEFT JOIN dlqadmin_splitrule AS rule ON rule.cluster_id = leaf.id
WHERE leaf.queue_id = %s AND leaf.fingerprint_version = %s AND leaf.fingerprint = ANY(%s) ORDER BY rule.id
"""


@dataclass(frozen=True, slots=True)
class Told:
    """An error as it is assigned: its class, its display-safe text, its traceback."""

    error_class: str
    text: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class _Leaf:
    pk: int
    rules: list[Rule]


def assign(*, queue_id: int, error_class: str, error_text: str, traceback: str = "") -> int:
    """The id of the leaf for this error: `assign_all` for one."""
    return assign_all(queue_id=queue_id, errors=[Told(error_class, error_text, traceback)])[0]


def assign_all(*, queue_id: int, errors: Sequence[Told]) -> list[int]:
    """The ids of the leaves for these errors, in their order; new ones are made. Inside the caller's transaction."""
    found = [fingerprint(error.text, error.error_class, error.traceback) for error in errors]
    leaves = _known(queue_id, {one.digest for one in found})
    new = {
        one.digest: (one, error) for one, error in zip(found, errors, strict=True) if one.digest not in leaves
    }
    if new:
        _insert(queue_id, new)
        # A second statement has a new snapshot: it sees the rows of whoever was first.
        leaves |= _known(queue_id, set(new))
    return [
        part_of(leaves[one.digest].pk, leaves[one.digest].rules, one.parameters, error.text)
        for one, error in zip(found, errors, strict=True)
    ]


def _insert(queue_id: int, new: dict[str, tuple[Fingerprint, Told]]) -> None:
    rows = [(digest, error.error_class, one.template, error.text) for digest, (one, error) in new.items()]
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [queue_id, VERSION, *(list(column) for column in zip(*rows, strict=True))])


def _known(queue_id: int, digests: set[str]) -> dict[str, _Leaf]:
    leaves: dict[str, _Leaf] = {}
    with connection.cursor() as cursor:
        cursor.execute(_SELECT, [queue_id, VERSION, list(digests)])
        for digest, leaf, target, position, value, pattern in cursor.fetchall():
            rules = leaves.setdefault(digest, _Leaf(leaf, [])).rules
            if target is not None:
                rules.append(Rule(target, position, value, pattern))
    return leaves
