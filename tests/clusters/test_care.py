"""What people do with a cluster is kept, audited, and refused with a reason."""

from datetime import timedelta

import pytest

from dlqadmin.clock import db_now
from dlqadmin.clusters.care import NotPossible, assign_to, close, mute, rename, reopen, write_note
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.people.models import AuditEntry
from tests.clusters.told import leaves_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(queue) -> ErrorCluster:
    return ErrorCluster.objects.get(pk=leaves_of(queue, ["a is lost"])[0])


def test_each_change_is_kept_and_audited(cluster, django_user_model) -> None:
    anna = django_user_model.objects.create_user("anna")
    until = db_now() + timedelta(hours=4)
    rename(cluster=cluster, name=" The lost ones ", by=anna)
    write_note(cluster=cluster, note="ask the members team", by=anna)
    assign_to(cluster=cluster, person=anna, by=anna)
    mute(cluster=cluster, until=until, by=anna)
    close(cluster=cluster, by=anna)
    cluster.refresh_from_db()
    assert (str(cluster), cluster.note, cluster.assignee) == ("The lost ones", "ask the members team", anna)
    assert cluster.muted_until == until
    assert cluster.closed_at is not None
    reopen(cluster=cluster, by=anna)
    mute(cluster=cluster, until=None, by=anna)
    rename(cluster=cluster, name="", by=anna)
    assert str(ErrorCluster.objects.get()) == "a is lost"
    entries = AuditEntry.objects.order_by("pk")
    assert [entry.action.partition(".")[2] for entry in entries] == [
        *("rename", "rename", "assign", "mute", "close", "close", "mute", "rename"),
    ]
    assert entries[0].before == {"name": ""}
    assert entries[0].after == {"name": "The lost ones"}
    assert {entry.actor for entry in entries} == {"anna"}


def test_nothing_changed_is_no_entry(cluster) -> None:
    rename(cluster=cluster, name="", by=None)
    assert not AuditEntry.objects.exists()


def test_bad_input_gets_a_reason_and_changes_nothing(cluster) -> None:
    with pytest.raises(NotPossible, match="200"):
        rename(cluster=cluster, name="x" * 201, by=None)
    with pytest.raises(NotPossible, match="to come"):
        mute(cluster=cluster, until=db_now(), by=None)
    assert ErrorCluster.objects.get().worked_on_at is None
