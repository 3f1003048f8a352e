"""Templates that differ in free words or wrappers are joined, whatever came first, and follow what people say."""

import random

import pytest

from dlqadmin.clusters import second_pass
from dlqadmin.clusters.grouping import group_texts
from dlqadmin.clusters.merging import CannotRegroup, merge, split_off, tell_apart, undo, undo_joins
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.clusters.proposals import joins_of, proposals_of
from dlqadmin.clusters.second_pass import join_new_templates
from dlqadmin.people.models import AuditEntry
from tests.clusters.told import FRUITS, baskets, groups, leaves_of

pytestmark = pytest.mark.django_db(transaction=True)

TEXTS = [
    *baskets(9),
    "lease of the node is gone",
    "LeaseError: lease of the node is gone",
    "[node-7f3a9] LeaseError: lease of the node is gone",
    *(f"no column {fruit} in the file" for fruit in FRUITS),
    'relation "loans" does not exist',
    'relation "members" does not exist',
]


def in_memory() -> set[frozenset[str]]:
    found: dict[str, set[str]] = {}
    for text, group in zip(TEXTS, group_texts(TEXTS), strict=True):
        found.setdefault(group, set()).add(text.removeprefix("[node-7f3a9] "))
    return {frozenset(group) for group in found.values()}


@pytest.mark.parametrize("seed", range(4))
def test_the_groups_are_those_in_memory_for_any_order_and_portion(make_queue, monkeypatch, seed) -> None:
    queue, luck = make_queue(f"queue-{seed}"), random.Random(seed)
    monkeypatch.setattr(second_pass, "PORTION", luck.choice((1, 3, 7)))
    texts = luck.sample(TEXTS, len(TEXTS))
    while texts:
        number = luck.randrange(1, 9)
        leaves_of(queue, texts[:number])
        texts = texts[number:]
        join_new_templates()
    assert groups(queue) == in_memory()
    assert not ErrorCluster.objects.filter(keyed_at=None).exists()


def test_another_queue_has_groups_of_its_own(make_queue) -> None:
    for name in ("a", "b"):
        leaves_of(make_queue(name), baskets(5))
    join_new_templates()
    assert not ErrorCluster.objects.exclude(merged_into=None).exists()


def test_a_join_can_be_undone_and_that_too(queue) -> None:
    leaves_of(queue, baskets(8))
    join_new_templates()
    assert len(groups(queue)) == 1
    root = ErrorCluster.objects.roots().get()
    leaves = list(ErrorCluster.objects.values_list("pk", flat=True))
    (join,) = (join for join in joins_of(leaves) if join.fills == sorted(FRUITS[:8]))
    entry = undo_joins(joins=join.pks, cluster=root, by=None)
    assert len(groups(queue)) == 8
    with pytest.raises(CannotRegroup):
        undo_joins(joins=join.pks, cluster=root, by=None)
    undo(entry=entry, by=None)
    assert len(groups(queue)) == 1


def test_what_people_split_off_stays_apart_when_more_templates_come(queue) -> None:
    first, second, *_ = leaves_of(queue, baskets(8))
    join_new_templates()
    root = ErrorCluster.objects.roots().get()
    entry = split_off(cluster=root, leaves=[first, second], by=None)
    assert sorted(map(len, groups(queue))) == [2, 6]
    leaves_of(queue, baskets(10))
    join_new_templates()
    assert sorted(map(len, groups(queue))) == [2, 8]
    undo(entry=entry, by=None)
    assert sorted(map(len, groups(queue))) == [10]
    with pytest.raises(CannotRegroup):
        undo(entry=entry, by=None)


def test_a_split_takes_out_some_templates_but_not_all(queue) -> None:
    leaves = leaves_of(queue, baskets(8))
    join_new_templates()
    root = ErrorCluster.objects.roots().get()
    for wrong in ([], leaves, [-1]):
        with pytest.raises(CannotRegroup):
            split_off(cluster=root, leaves=wrong, by=None)
    assert not AuditEntry.objects.exists()


def test_what_people_merge_is_one_cluster_until_they_take_it_back(queue) -> None:
    one, other, third = (
        ErrorCluster.objects.get(pk=pk) for pk in leaves_of(queue, ["a is lost", "b has gone", "c"])
    )
    entry = merge(into=one, others=[other, third], by=None)
    assert len(groups(queue)) == 1
    assert ErrorCluster.objects.roots().get() == one
    undo(entry=entry, by=None)
    assert len(groups(queue)) == 3
    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == [
        "cluster.merge",
        "cluster.undo",
    ]


def test_the_last_word_of_people_counts(queue) -> None:
    one, other = (ErrorCluster.objects.get(pk=pk) for pk in leaves_of(queue, ["a is lost", "b has gone"]))
    merge(into=one, others=[other], by=None)
    split_off(cluster=one, leaves=[other.pk], by=None)
    assert len(groups(queue)) == 2
    merge(into=other, others=[one], by=None)
    assert ErrorCluster.objects.roots().get() == other


def test_clusters_of_two_queues_are_not_merged(make_queue) -> None:
    one, other = (
        ErrorCluster.objects.get(pk=leaves_of(make_queue(name), ["the same"])[0]) for name in ("a", "b")
    )
    with pytest.raises(CannotRegroup):
        merge(into=one, others=[other], by=None)
    with pytest.raises(CannotRegroup):
        merge(into=one, others=[], by=None)


def test_three_to_seven_fills_are_proposed_until_they_are_answered(queue) -> None:
    leaves = leaves_of(queue, baskets(4))
    join_new_templates()
    first, *others = ErrorCluster.objects.filter(pk__in=leaves).order_by("pk")
    (proposal,) = proposals_of(first)
    assert proposal.roots == tuple(sorted(leaves))
    assert proposal.fills == tuple(sorted(FRUITS[:4]))
    entry = merge(into=first, others=others, by=None)
    assert proposals_of(first) == []
    undo(entry=entry, by=None)
    assert len(proposals_of(first)) == 1
    entry = tell_apart(clusters=[first, *others], by=None)
    assert proposals_of(first) == []
    undo(entry=entry, by=None)
    assert len(proposals_of(first)) == 1
