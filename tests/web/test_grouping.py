"""People merge, split, name, mute and undo on the page of a cluster, and see what they did."""

from typing import Any

import pytest
from django.urls import reverse

from dlqadmin.clusters.models import ErrorCluster, SplitRule
from dlqadmin.clusters.second_pass import join_new_templates
from dlqadmin.people.models import AuditEntry
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.stages import Stage, progress_of
from tests.web.making import cluster_of

FRUITS = ("apple", "pear", "plum", "cherry", "quince", "medlar", "peach", "grape")


def page(client: Any, cluster: ErrorCluster) -> str:
    return client.get(reverse("cluster", args=[cluster.pk]), follow=True).content.decode()


def post(client: Any, route: str, cluster: ErrorCluster, **data: Any) -> Any:
    return client.post(reverse(route, args=[cluster.pk]), data, follow=True)


@pytest.fixture
def fruits(die: Any) -> list[ErrorCluster]:
    """Eight templates that are one cluster."""
    leaves = [cluster_of(die(f"the {fruit} basket of the loan is empty")) for fruit in FRUITS]
    join_new_templates()
    return leaves


def test_merging_is_seen_at_once_and_can_be_undone(signed_in: Any, die: Any, queue: SourceQueue) -> None:
    client = signed_in()
    one, other = cluster_of(die("a is lost")), cluster_of(die("b has gone"))
    answer = post(client, "merge-clusters", one, clusters=[other.pk])
    assert "Merged." in answer.content.decode()
    text = page(client, other)
    assert "2 templates, one cause" in text
    assert "LookupError: b has gone" in text
    assert client.get(reverse("queue", args=[queue.name])).context["causes"] == 1
    entry = AuditEntry.objects.get(action="cluster.merge")
    assert "Taken back." in post(client, "undo-grouping", one, entry=entry.pk).content.decode()
    assert ErrorCluster.objects.roots().count() == 2


def test_what_cannot_be_merged_is_refused_with_a_reason(signed_in: Any, die: Any, make_queue: Any) -> None:
    client, cluster = signed_in(), cluster_of(die())
    elsewhere = cluster_of(die(into=make_queue("elsewhere")))
    for others in ([], [cluster.pk], [elsewhere.pk], ["x"], [10**30]):
        answer = post(client, "merge-clusters", cluster, clusters=others)
        assert answer.status_code == 422
        assert "Nothing was changed." in answer.content.decode()


def test_templates_are_split_off_and_joins_undone(signed_in: Any, fruits: list[ErrorCluster]) -> None:
    client = signed_in()
    root = ErrorCluster.objects.roots().get()
    text = page(client, root)
    assert "8 templates, one cause" in text
    assert "8 templates differ in a word only" in text
    other = next(leaf for leaf in fruits if leaf.pk != root.pk)
    post(client, "split-templates", root, leaves=[other.pk])
    assert ErrorCluster.objects.roots().count() == 2
    entry = AuditEntry.objects.get(action="cluster.split")
    post(client, "undo-grouping", root, entry=entry.pk)
    assert ErrorCluster.objects.roots().count() == 1
    joins = client.get(reverse("cluster", args=[root.pk])).context["joins"]
    for join in joins:
        post(client, "undo-grouping", root, joins=join.pks)
    assert ErrorCluster.objects.roots().count() == 8


def test_a_proposal_is_answered(signed_in: Any, die: Any) -> None:
    client = signed_in()
    first, *others = [cluster_of(die(f"the {fruit} basket of the loan is empty")) for fruit in FRUITS[:4]]
    join_new_templates()
    assert "3 clusters differ in a word only." in page(client, first)
    post(client, "tell-clusters-apart", first, clusters=[other.pk for other in others])
    assert "differ in a word only" not in page(client, first)


def test_a_split_by_value_is_previewed_first(signed_in: Any, die: Any) -> None:
    client = signed_in()
    cluster = cluster_of(die("shop 1 is closed"))
    for number in (1, 2, 2, 3):
        die(f"shop {number} is closed")
    asked = {"leaf": cluster.pk, "position": 0, "value": "2"}
    answer = post(client, "split-by-part", cluster, **asked, preview="").content.decode()
    assert "<b>2</b> of the newest 5 letters" in answer
    assert not SplitRule.objects.exists()
    answer = post(client, "split-by-part", cluster, **asked, split="").content.decode()
    assert "are being moved" in answer
    assert SplitRule.objects.get().value == "2"
    wrong = post(client, "split-by-part", cluster, leaf=cluster.pk, pattern="(")
    assert wrong.status_code == 422
    assert "Nothing was changed." in wrong.content.decode()


def test_a_cluster_is_named_taken_on_muted_and_closed(signed_in: Any, die: Any) -> None:
    client, cluster = signed_in(), cluster_of(die())
    post(client, "edit-cluster", cluster, rename="", name="<b>Lost</b>", note="ask <i>Bo</i>")
    post(client, "edit-cluster", cluster, take="")
    post(client, "edit-cluster", cluster, mute="24")
    text = page(client, cluster)
    assert "&lt;b&gt;Lost&lt;/b&gt;" in text
    assert "ask &lt;i&gt;Bo&lt;/i&gt;" in text
    assert client.user.get_username() in text
    assert "muted until" in text
    assert progress_of([cluster.pk])[cluster.pk].stage is Stage.MUTED
    post(client, "edit-cluster", cluster, unmute="")
    post(client, "edit-cluster", cluster, **{"give-up": ""})
    post(client, "edit-cluster", cluster, close="")
    assert progress_of([cluster.pk])[cluster.pk].stage is Stage.CLOSED
    die()
    assert progress_of([cluster.pk])[cluster.pk].stage is Stage.CAME_BACK
    post(client, "edit-cluster", cluster, reopen="")
    assert progress_of([cluster.pk])[cluster.pk].stage is Stage.NEW
    assert post(client, "edit-cluster", cluster, rename="", name="x" * 201).status_code == 422


def test_the_same_error_elsewhere_is_linked_for_those_who_may_see_it(
    signed_in: Any, die: Any, make_queue: Any, make_user: Any
) -> None:
    cluster = cluster_of(die())
    die(into=make_queue("reminders"))
    die(into=make_queue("secret", owner=None))
    text = page(signed_in(), cluster)
    assert "also in 1 other queue" in text
    assert "reminders" in text
    assert "secret" not in text


def test_the_fields_that_letters_share_are_shown(signed_in: Any, die: Any) -> None:
    cluster = cluster_of(die("a is lost", body={"country": "TR", "password": "s3cret"}))
    for _ in range(9):
        die("a is lost", body={"country": "TR", "password": "s3cret"})
        die("b has gone", body={"country": "DE"})
    text = page(signed_in(), cluster)
    assert "body.country" in text
    assert "only here" in text
    assert "s3cret" not in text
    assert "From all 10 letters here, and 9 of other causes." in text
