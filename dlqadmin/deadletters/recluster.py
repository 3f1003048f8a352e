"""A new version of the fingerprint: letters go from the leaves of older versions to those of the present one.

1. The next leaf of an older version.
2. Its successor: where most of its newest letters go now. dlqadmin's word joins the two, so its diagnoses, its notes,
   its history and its address follow. A leaf without letters follows the text of its first error.
3. Its letters, portion by portion, get the leaf that their error has now; the counts go with them.
4. When none is left, it is done.

Every step is a transaction that can be repeated, so the job may be killed at any moment.
"""

from collections import Counter

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters.assign import Told, assign_all
from dlqadmin.clusters.fingerprint import VERSION
from dlqadmin.clusters.groups import changing_groups
from dlqadmin.clusters.models import ClusterVerdict, ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.moving import move_letters
from dlqadmin.leases.run import guarded

ASKED = 2_000  # letters that choose the successor
BY = "dlqadmin"
PORTION = 500

# Leaves of an older version are done when they are marked as seen by the second pass.
OUTDATED = (
    f"EXISTS (SELECT FROM dlqadmin_errorcluster WHERE keyed_at IS NULL AND fingerprint_version < {VERSION})"
)


def recluster() -> None:
    """Bring all leaves of older versions up to date."""
    while leaf := _next():
        _name_successor(leaf)
        while _move_portion(leaf):
            pass
        with guarded():
            ErrorCluster.objects.filter(pk=leaf.pk).update(keyed_at=ClockTimestamp())


def _next() -> ErrorCluster | None:
    outdated = ErrorCluster.objects.filter(keyed_at=None, fingerprint_version__lt=VERSION)
    return outdated.order_by("fingerprint_version", "queue", "pk").first()


def _name_successor(leaf: ErrorCluster) -> None:
    with changing_groups(leaf.queue_id):
        if ClusterVerdict.objects.filter(one=leaf, by_name=BY, same=True).exists():
            return
        letters = DeadLetter.objects.filter(cluster=leaf.pk).order_by("-pk")
        told = [Told(*row) for row in letters.values_list("error_class", "error_text", "traceback")[:ASKED]]
        found = Counter(_leaves(leaf, told or [Told(leaf.error_class, leaf.sample_text)]))
        names = dict(ErrorCluster.objects.filter(pk__in=found).values_list("pk", "fingerprint"))
        successor = min(found, key=lambda pk: (-found[pk], names[pk]))
        ClusterVerdict.objects.create(
            queue_id=leaf.queue_id, one=leaf, other_id=successor, same=True, by_name=BY
        )


def _move_portion(leaf: ErrorCluster) -> bool:
    """Move the next letters; False when none is left."""
    with guarded():
        letters = DeadLetter.objects.filter(cluster=leaf.pk).order_by("pk")
        rows = list(letters.values_list("pk", "error_class", "error_text", "traceback")[:PORTION])
        if rows:
            leaves = _leaves(leaf, [Told(*told) for _, *told in rows])
            move_letters(leaf.pk, dict(zip((row[0] for row in rows), leaves, strict=True)))
    return bool(rows)


def _leaves(leaf: ErrorCluster, told: list[Told]) -> list[int]:
    return assign_all(queue_id=leaf.queue_id, errors=told)
