"""A new version of the fingerprint takes the letters along, and loses neither diagnoses nor history."""

import pytest

from dlqadmin.clusters.counts import counts_of
from dlqadmin.clusters.fingerprint import VERSION
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.clusters.second_pass import join_new_templates
from dlqadmin.deadletters import recluster as module
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.recluster import recluster
from dlqadmin.redrive.audit import audit_books
from dlqadmin.redrive.diagnose import current_diagnosis, sign_diagnosis
from tests.clusters.told import letters_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def old(queue, monkeypatch) -> ErrorCluster:
    """A leaf of the version before, which held two causes as one, with a diagnosis."""
    monkeypatch.setattr(module, "PORTION", 2)
    letters = letters_of(queue, ["the lease of node 7 is gone"] * 4 + ["no member 7"])
    old = ErrorCluster.objects.get(pk=letters[0].cluster.pk)
    ErrorCluster.objects.filter(pk=old.pk).update(fingerprint="0" * 64, fingerprint_version=VERSION - 1)
    gone = letters[4].cluster.pk
    DeadLetter.objects.update(cluster=old)
    ErrorCluster.objects.filter(pk=gone).delete()
    ErrorCluster.objects.filter(pk=old.pk).update(open_count=1)  # what the deltas of the other leaf told
    sign_diagnosis(cluster=old, by=None, kind="permanent", cause="no lease", fix="")
    old.refresh_from_db()
    return old


def test_letters_get_the_leaf_of_their_error_and_the_diagnosis_follows_most_of_them(old) -> None:
    recluster()
    join_new_templates()
    by_text = dict(DeadLetter.objects.values_list("error_text", "cluster"))
    lease, member = (ErrorCluster.objects.get(pk=by_text[text]) for text in sorted(by_text, reverse=True))
    assert {lease.fingerprint_version, member.fingerprint_version} == {VERSION}
    root = ErrorCluster.objects.get(pk=lease.root_id)
    assert current_diagnosis(root).cause == "no lease"
    assert member.root_id == member.pk
    assert counts_of([root.pk])[root.pk].open == 4
    assert counts_of([member.pk])[member.pk].open == 1
    assert not [said for said in audit_books().differences if "count" in said]
    assert ErrorCluster.objects.get(pk=old.pk).root_id == root.pk


def test_it_goes_on_where_it_was_killed(old, monkeypatch) -> None:
    move, moved = module._move_portion, []

    def killed(leaf: ErrorCluster) -> bool:
        if moved:
            raise KeyboardInterrupt
        moved.append(leaf)
        return move(leaf)

    monkeypatch.setattr(module, "_move_portion", killed)
    with pytest.raises(KeyboardInterrupt):
        recluster()
    monkeypatch.setattr(module, "_move_portion", move)
    recluster()
    assert not DeadLetter.objects.filter(cluster=old).exists()
    assert ErrorCluster.objects.filter(keyed_at=None, fingerprint_version__lt=VERSION).count() == 0


def test_a_leaf_without_letters_follows_its_first_error(queue, old) -> None:
    DeadLetter.objects.all().delete()
    recluster()
    successor = ErrorCluster.objects.get(fingerprint_version=VERSION)
    assert successor.template == "the lease of node <int> is gone"
    assert successor.root_id == old.pk
