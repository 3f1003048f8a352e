"""A person says what is wrong with a cluster, and what was done about it."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Max
from django.utils.translation import gettext as _

from dlqadmin.clock import ClockTimestamp, db_now
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.people.audit import Actor, actor_name, record
from dlqadmin.redrive.models import Diagnosis


class InvalidDiagnosis(ValueError):
    """The statement cannot be signed; the text says what is wrong, `field` where."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@transaction.atomic
def sign_diagnosis(
    *,
    cluster: ErrorCluster,
    by: Actor,
    kind: str,
    cause: str,
    nature: str = "",
    evidence: str = "",
    fix: str = "",
    fix_effective_at: datetime | None = None,
    ticket_url: str = "",
) -> Diagnosis:
    """Sign the next version of the diagnosis of the cluster's group. With a `fix` and no time, the fix took effect now.

    Raises InvalidDiagnosis: no cause, a nature of the other kind, a time without a fix, a fix that takes effect in the
    future.
    """
    if not cause.strip():
        raise InvalidDiagnosis("cause", _("Say what makes these letters die."))
    if nature and nature not in Diagnosis.NATURES[Diagnosis.Kind(kind)]:
        raise InvalidDiagnosis("nature", _("That is of the other kind: change one of the two."))
    if fix_effective_at and not fix.strip():
        raise InvalidDiagnosis("fix", _("Say what was fixed at that time, or leave the time empty."))
    now = db_now()
    if fix_effective_at and fix_effective_at > now:
        raise InvalidDiagnosis(
            "fix_effective_at", _("A fix is declared when it has taken effect, not before.")
        )
    # Versions of one cluster are given out one after the other.
    cluster = ErrorCluster.objects.select_for_update(no_key=True).get(pk=cluster.root_id)
    ErrorCluster.objects.filter(pk=cluster.pk).update(worked_on_at=ClockTimestamp())
    last = cluster.diagnoses.aggregate(last=Max("version"))["last"] or 0
    diagnosis = Diagnosis.objects.create(
        cluster=cluster,
        version=last + 1,
        kind=kind,
        nature=nature,
        cause=cause.strip(),
        evidence=evidence.strip(),
        fix=fix.strip(),
        fix_effective_at=(fix_effective_at or now) if fix.strip() else None,
        ticket_url=ticket_url,
        signed_by_id=by.pk if by else None,
        signed_name=actor_name(by),
    )
    after = {"version": diagnosis.version, "kind": kind, "cause": diagnosis.cause, "fix": diagnosis.fix}
    record(by=by, action="cluster.diagnose", target=cluster, after=after)
    return diagnosis


def current_diagnosis(cluster: ErrorCluster) -> Diagnosis | None:
    """The newest version of the cluster's diagnosis."""
    return current_diagnoses([cluster.pk]).get(cluster.pk)


def current_diagnoses(cluster_ids: Sequence[int]) -> dict[int, Diagnosis]:
    """The newest version of each of these clusters' diagnoses, by the cluster's id."""
    newest = (
        Diagnosis.objects.filter(cluster__in=cluster_ids).order_by("cluster", "-version").distinct("cluster")
    )
    return {diagnosis.cluster_id: diagnosis for diagnosis in newest}


def refute(diagnosis: Diagnosis, why: str) -> bool:
    """Mark a diagnosis as refuted, once; False if it was already."""
    changed = Diagnosis.objects.filter(pk=diagnosis.pk, refuted_at=None).update(
        refuted_at=ClockTimestamp(), refuted_why=why
    )
    return changed == 1
