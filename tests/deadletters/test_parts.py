"""A part of a cluster is told apart by a value or a pattern: letters that are there, and those to come."""

import pytest

from dlqadmin.clusters.counts import counts_of
from dlqadmin.clusters.merging import undo
from dlqadmin.clusters.models import ErrorCluster, SplitRule
from dlqadmin.clusters.splitting import BadPattern
from dlqadmin.deadletters import parts
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.parts import move_parts, preview_part, split_part
from dlqadmin.people.models import AuditEntry
from dlqadmin.redrive.audit import audit_books
from tests.clusters.told import leaves_of, letters_of

pytestmark = pytest.mark.django_db(transaction=True)

TEXTS = [f"shop {n % 3} is closed on day {n}" for n in range(10)]


@pytest.fixture
def leaf(queue, monkeypatch) -> ErrorCluster:
    monkeypatch.setattr(parts, "PORTION", 3)
    letters_of(queue, TEXTS)
    return ErrorCluster.objects.get()


@pytest.mark.parametrize("how", [{"position": 0, "value": "1"}, {"pattern": r"^shop 1\b"}])
def test_the_preview_says_what_the_split_does(leaf, how, queue) -> None:
    preview = preview_part(leaf=leaf, **how)
    assert (preview.matching, preview.read, preview.total) == (3, 10, 10)
    assert all("shop 1" in text for text in preview.examples)
    rule = split_part(leaf=leaf, by=None, **how)
    assert leaves_of(queue, ["shop 1 is closed on day 99"]) == [rule.target_id]
    assert leaves_of(queue, ["shop 2 is closed on day 99"]) == [leaf.pk]
    move_parts()
    rule.refresh_from_db()
    assert (rule.moved, rule.finished_at) == (3, None)
    # A capture that did not know of the rule yet commits now.
    letters_of(queue, ["shop 0 is closed on day 98"])
    DeadLetter.objects.filter(error_text__endswith="98").update(error_text="shop 1 is closed on day 98")
    SplitRule.objects.update(at=rule.at - 2 * parts.SETTLED, moved_to=10**9)
    DeadLetter.objects.update(died_at=rule.at - 2 * parts.SETTLED)
    move_parts()
    rule.refresh_from_db()
    assert rule.moved == 4
    assert rule.finished_at is not None
    assert DeadLetter.objects.filter(cluster=rule.target).count() == 4
    assert counts_of([rule.target_id])[rule.target_id].open == 4
    assert counts_of([leaf.pk])[leaf.pk].total == 7
    assert not [said for said in audit_books().differences if "cluster" in said]


def test_a_part_is_told_apart_once(leaf) -> None:
    split_part(leaf=leaf, by=None, position=0, value="1")
    with pytest.raises(BadPattern, match="before"):
        split_part(leaf=leaf, by=None, position=0, value="1")
    assert SplitRule.objects.count() == 1


def test_a_split_by_value_can_be_undone(leaf) -> None:
    rule = split_part(leaf=leaf, by=None, position=0, value="1")
    move_parts()
    assert ErrorCluster.objects.roots().count() == 2
    undo(entry=AuditEntry.objects.get(action="cluster.split"), by=None)
    assert ErrorCluster.objects.roots().count() == 1
    assert counts_of([leaf.pk])[leaf.pk].open == 10
    assert ErrorCluster.objects.get(pk=rule.target_id).root_id == leaf.pk


@pytest.mark.parametrize("pattern", ["", "x" * 201, "(", "(?=a)"])
def test_a_pattern_that_cannot_be_used_gets_a_reason(leaf, pattern) -> None:
    for ask in (preview_part, lambda **how: split_part(by=None, **how)):
        with pytest.raises(BadPattern):
            ask(leaf=leaf, pattern=pattern)


def test_no_pattern_can_hang_a_worker(queue) -> None:
    letters_of(queue, ["a" * 1_900 + "!"])
    assert preview_part(leaf=ErrorCluster.objects.get(), pattern="(a+)+$").matching == 0
