"""The same error in other queues."""

from collections.abc import Sequence

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.queues.models import SourceQueue


def also_in(
    *, queue_id: int, fingerprints: Sequence[str], owners: list[int] | None
) -> list[tuple[ErrorCluster, int]]:
    """For every other queue that has one of these fingerprints: its cluster, and the letters that are folded.

    `owners`: only queues of these owners; None: of all.
    """
    queues = SourceQueue.objects.visible_to_owners(owners).filter(archived_at=None)
    leaves = (
        ErrorCluster.objects.filter(fingerprint__in=fingerprints, queue__in=queues)
        .exclude(queue=queue_id)
        .select_related("queue")
        .order_by("queue__name", "pk")
    )
    found: dict[int, tuple[ErrorCluster, int]] = {}
    for leaf in leaves:
        before = found.get(leaf.queue_id, (leaf, 0))
        found[leaf.queue_id] = (before[0], before[1] + leaf.open_count)
    return list(found.values())
