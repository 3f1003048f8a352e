"""What people say about which leaves are one cause. Their word overrides every join, and can be taken back.

Every function opens its transaction, brings the queue's groups up to date and leaves an audit entry; `undo` takes back
what an entry tells of.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters.groups import changing_groups
from dlqadmin.clusters.models import ClusterJoin, ClusterVerdict, ErrorCluster
from dlqadmin.people.audit import Actor, actor_name, record
from dlqadmin.people.models import AuditEntry


class CannotRegroup(ValueError):
    """The groups cannot be changed so; the text says why and what to do."""


def merge(*, into: ErrorCluster, others: Sequence[ErrorCluster], by: Actor) -> AuditEntry:
    """Say that the groups of `others` have the same cause as `into`, whose work of people goes on for all of them.

    Raises CannotRegroup: nothing to merge, another queue.
    """
    others = [other for other in others if other.pk != into.pk]
    if not others:
        raise CannotRegroup(_("Choose at least one other cluster."))
    if any(other.queue_id != into.queue_id for other in others):
        raise CannotRegroup(_("Clusters of two queues cannot be merged: each queue has its own gate."))
    with changing_groups(into.queue_id):
        members = [_leaves(cluster) for cluster in (into, *others)]
        withdrawn = _withdraw(_between(members), same=False)
        made = _say(into.queue_id, [(into.pk, other.pk) for other in others], same=True, by=by)
        ErrorCluster.objects.filter(pk=into.pk).update(worked_on_at=ClockTimestamp())
        after = {"merged": [other.pk for other in others], "verdicts": made, "withdrawn": withdrawn}
        return record(by=by, action="cluster.merge", target=into, after=after)


def split_off(*, cluster: ErrorCluster, leaves: Iterable[int], by: Actor) -> AuditEntry:
    """Say that these leaves of the group of `cluster` have another cause than its other leaves.

    Raises CannotRegroup: none of the group, or all of it.
    """
    with changing_groups(cluster.queue_id):
        all_leaves = _leaves(cluster)
        out = sorted(set(leaves) & set(all_leaves))
        stay = [leaf for leaf in all_leaves if leaf not in out]
        if not out or not stay:
            raise CannotRegroup(_("Choose some templates of this cluster, but not all of them."))
        withdrawn = _withdraw(list(product(out, stay)), same=True)
        apart = _say(cluster.queue_id, list(product(out, stay)), same=False, by=by)
        # What is taken out together stays together, also if it hung together by what stayed.
        kept = _say(cluster.queue_id, [(out[0], leaf) for leaf in out[1:]], same=True, by=by)
        after = {"split": out, "verdicts": [*apart, *kept], "withdrawn": withdrawn}
        return record(by=by, action="cluster.split", target=cluster, after=after)


def tell_apart(*, clusters: Sequence[ErrorCluster], by: Actor) -> AuditEntry:
    """Say that these groups have causes of their own: they are not proposed again, and no join puts them together.

    Raises CannotRegroup if they are fewer than two.
    """
    if len(clusters) < 2:
        raise CannotRegroup(_("Choose at least one other cluster."))
    first = clusters[0]
    with changing_groups(first.queue_id):
        pairs = list(combinations([cluster.pk for cluster in clusters], 2))
        made = _say(first.queue_id, pairs, same=False, by=by)
        after = {"apart": [cluster.pk for cluster in clusters], "verdicts": made}
        return record(by=by, action="cluster.tell_apart", target=first, after=after)


def undo_joins(*, joins: Sequence[int], cluster: ErrorCluster, by: Actor) -> AuditEntry:
    """Say that these keys join nothing: their templates part, unless something else holds them together.

    Raises CannotRegroup if that was said before.
    """
    with changing_groups(cluster.queue_id):
        standing = ClusterJoin.objects.filter(pk__in=joins, queue=cluster.queue_id, undone_at=None)
        undone = list(standing.values_list("pk", flat=True))
        if not undone:
            raise CannotRegroup(_("This join was undone already."))
        standing.update(undone_at=ClockTimestamp(), undone_by=actor_name(by))
        return record(by=by, action="cluster.undo_join", target=cluster, after={"joins": undone})


def undo(*, entry: AuditEntry, by: Actor) -> AuditEntry:
    """Take back a merge, a split or the undoing of joins. Raises CannotRegroup if that was done already."""
    cluster = ErrorCluster.objects.get(pk=entry.object_id)
    with changing_groups(cluster.queue_id):
        if entry.action == "cluster.undo_join":
            undone = ClusterJoin.objects.filter(pk__in=entry.after["joins"], undone_at__isnull=False)
            changed = undone.update(undone_at=None, undone_by="")
        else:
            changed = _take_back(entry.after)
        if not changed:
            raise CannotRegroup(_("This was taken back already."))
        if target := entry.after.get("target"):
            # A part of a template: its letters stay where they are, and count for the whole again.
            _say(cluster.queue_id, [(cluster.pk, target)], same=True, by=by)
        return record(by=by, action="cluster.undo", target=cluster, after={"entry": entry.pk})


def _take_back(told: dict[str, Any]) -> int:
    standing = ClusterVerdict.objects.filter(pk__in=told.get("verdicts", ()), withdrawn_at=None)
    changed = standing.update(withdrawn_at=ClockTimestamp())
    if changed:
        ClusterVerdict.objects.filter(pk__in=told.get("withdrawn", ())).update(withdrawn_at=None)
    return changed


def _leaves(cluster: ErrorCluster) -> list[int]:
    return list(ErrorCluster.objects.group_of(cluster).order_by("pk").values_list("pk", flat=True))


def _between(groups: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    return [
        pair
        for at, group in enumerate(groups)
        for other in groups[at + 1 :]
        for pair in product(group, other)
    ]


def _withdraw(pairs: Iterable[tuple[int, int]], *, same: bool) -> list[int]:
    """Withdraw the verdicts on these pairs that say the opposite; their ids."""
    wanted = {frozenset(pair) for pair in pairs}
    leaves = {leaf for pair in wanted for leaf in pair}
    standing = ClusterVerdict.objects.filter(
        Q(one__in=leaves), Q(other__in=leaves), same=same, withdrawn_at=None
    )
    opposed = [
        pk
        for pk, one, other in standing.values_list("pk", "one", "other")
        if frozenset((one, other)) in wanted
    ]
    ClusterVerdict.objects.filter(pk__in=opposed).update(withdrawn_at=ClockTimestamp())
    return opposed


def _say(queue_id: int, pairs: Sequence[tuple[int, int]], *, same: bool, by: Actor) -> list[int]:
    made = ClusterVerdict.objects.bulk_create(
        ClusterVerdict(queue_id=queue_id, one_id=one, other_id=other, same=same, by_name=actor_name(by))
        for one, other in pairs
    )
    return [verdict.pk for verdict in made]
