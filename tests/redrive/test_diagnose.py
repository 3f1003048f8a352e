"""Signing a diagnosis."""

from datetime import timedelta

import pytest

from dlqadmin.clock import db_now
from dlqadmin.clusters.assign import assign
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.people.models import AuditEntry
from dlqadmin.redrive.diagnose import InvalidDiagnosis, current_diagnosis, refute, sign_diagnosis
from dlqadmin.redrive.models import Diagnosis


@pytest.fixture
def cluster(queue) -> ErrorCluster:
    return ErrorCluster.objects.get(pk=assign(queue_id=queue.pk, error_class="E", error_text="boom"))


def test_each_statement_is_a_new_version_and_the_newest_counts(cluster, make_user) -> None:
    user = make_user()
    first = sign_diagnosis(cluster=cluster, by=user, kind="permanent", cause="a")
    second = sign_diagnosis(cluster=cluster, by=user, kind="transient", cause="b", fix="c")
    assert (first.version, second.version) == (1, 2)
    assert current_diagnosis(cluster) == second
    assert [
        e.after["version"] for e in AuditEntry.objects.filter(action="cluster.diagnose").order_by("pk")
    ] == [1, 2]


def test_a_fix_without_a_time_took_effect_now(cluster, make_user) -> None:
    before = db_now()
    diagnosis = sign_diagnosis(cluster=cluster, by=make_user(), kind="permanent", cause="a", fix="b")
    assert diagnosis.fix_effective_at
    assert before <= diagnosis.fix_effective_at <= db_now()


def test_no_fix_has_no_time(cluster, make_user) -> None:
    assert (
        sign_diagnosis(cluster=cluster, by=make_user(), kind="permanent", cause="a").fix_effective_at is None
    )


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"cause": "  "}, "cause"),
        ({"fix_effective_at": timedelta(hours=-1)}, "fix"),
        ({"fix": "b", "fix_effective_at": timedelta(minutes=1)}, "fix_effective_at"),
    ],
)
def test_what_cannot_be_signed_is_refused_with_its_field(cluster, make_user, values, field) -> None:
    if offset := values.get("fix_effective_at"):
        values = values | {"fix_effective_at": db_now() + offset}
    with pytest.raises(InvalidDiagnosis) as refused:
        sign_diagnosis(cluster=cluster, by=make_user(), **{"kind": "permanent", "cause": "a"} | values)
    assert refused.value.field == field
    assert current_diagnosis(cluster) is None


def test_a_diagnosis_is_refuted_once(cluster, make_user) -> None:
    diagnosis = sign_diagnosis(cluster=cluster, by=make_user(), kind="permanent", cause="a", fix="b")
    assert refute(diagnosis, "2 died again")
    assert not refute(diagnosis, "3 died again")
    diagnosis.refresh_from_db()
    assert diagnosis.refuted_why == "2 died again"


@pytest.mark.parametrize("kind", Diagnosis.Kind)
def test_a_nature_is_of_its_kind(cluster, kind) -> None:
    for nature in Diagnosis.Nature:
        if nature in Diagnosis.NATURES[kind]:
            signed = sign_diagnosis(
                cluster=cluster, by=None, kind=kind, cause="a", nature=nature, evidence=" log "
            )
            assert (signed.nature, signed.evidence) == (nature, "log")
        else:
            with pytest.raises(InvalidDiagnosis, match="other kind"):
                sign_diagnosis(cluster=cluster, by=None, kind=kind, cause="a", nature=nature)
    assert set(Diagnosis.Nature) == {nature for natures in Diagnosis.NATURES.values() for nature in natures}
