"""What the gate judges by, read from the rows."""

from dlqadmin.clock import db_now
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.redrive.diagnose import current_diagnosis
from dlqadmin.redrive.gate import DiagnosisFacts, GateFacts
from dlqadmin.redrive.models import Diagnosis, RedriveItem


def gate_facts(cluster: ErrorCluster) -> GateFacts:
    """The facts about redriving the open letters of a cluster now."""
    diagnosis = current_diagnosis(cluster)
    return GateFacts(
        diagnosis=_facts_of(diagnosis) if diagnosis else None,
        letters=DeadLetter.objects.open().filter(cluster=cluster).count(),
        started_after_fix=_started_after_fix(cluster, diagnosis),
        now=db_now(),
        came_back_redrive=_came_back(diagnosis),
        approval_above=cluster.queue.approval_above,
    )


def _facts_of(diagnosis: Diagnosis) -> DiagnosisFacts:
    return DiagnosisFacts(
        version=diagnosis.version,
        transient=diagnosis.kind == Diagnosis.Kind.TRANSIENT,
        signed_name=diagnosis.signed_name,
        fix=diagnosis.fix,
        fix_effective_at=diagnosis.fix_effective_at,
        refuted_why=diagnosis.refuted_why if diagnosis.refuted_at else None,
    )


def _started_after_fix(cluster: ErrorCluster, diagnosis: Diagnosis | None) -> int:
    """Letters of any state count: one that was discarded since still shows that the cause was there."""
    if diagnosis is None or diagnosis.fix_effective_at is None:
        return 0
    letters = DeadLetter.objects.filter(cluster=cluster, last_attempt_at__gt=diagnosis.fix_effective_at)
    return letters.exclude(reason=DeadLetter.Reason.WORKER_LOST).count()


def _came_back(diagnosis: Diagnosis | None) -> int | None:
    """The last redrive on this version of the diagnosis, if a letter of it died again."""
    last = diagnosis.redrives.order_by("-id").first() if diagnosis else None
    if last and last.items.filter(outcome=RedriveItem.Outcome.DIED_AGAIN).exists():
        return last.pk
    return None
