"""How far each of many clusters is on its way back to work, read in one statement and judged by the gate."""

from dataclasses import dataclass
from enum import StrEnum

from django.db import connection

from dlqadmin.redrive.gate import Condition, DiagnosisFacts, GateFacts, Rule, is_open, judge

_FACTS = """
SELECT cluster.id, queue.approval_above, clock_timestamp(),
    (SELECT count(*) FROM dlqadmin_deadletter WHERE cluster_id = cluster.id AND state = 'open'),
    (SELECT count(*) FROM dlqadmin_deadletter WHERE cluster_id = cluster.id
        AND last_attempt_at > diagnosis.fix_effective_at AND reason <> 'worker lost'),
    (SELECT id FROM (SELECT id FROM dlqadmin_redrive WHERE diagnosis_id = diagnosis.id ORDER BY id DESC LIMIT 1) AS last
        WHERE EXISTS (SELECT FROM dlqadmin_redriveitem WHERE redrive_id = last.id AND outcome = 'died again')),
    diagnosis.version, diagnosis.kind, diagnosis.signed_name, diagnosis.fix, diagnosis.fix_effective_at,
    CASE WHEN diagnosis.refuted_at IS NOT NULL THEN diagnosis.refuted_why END
FROM dlqadmin_errorcluster AS cluster JOIN dlqadmin_sourcequeue AS queue ON queue.id = cluster.queue_id
LEFT JOIN LATERAL (
    SELECT * FROM dlqadmin_diagnosis WHERE cluster_id = cluster.id ORDER BY version DESC LIMIT 1
) AS diagnosis ON true
WHERE cluster.id = ANY(%s)
"""


class Stage(StrEnum):
    """Where a cluster stands."""

    NEW = "new"
    DIAGNOSED = "diagnosed"
    FIX_DECLARED = "fix declared"
    CAME_BACK = "came back"


@dataclass(frozen=True, slots=True)
class Progress:
    """The stage of a cluster, and whether the gate would let its letters through now."""

    stage: Stage
    gate_open: bool


def progress_of(cluster_ids: list[int]) -> dict[int, Progress]:
    """The progress of each of these clusters, by id."""
    return {cluster: _progress(judge(facts)) for cluster, facts in facts_of(cluster_ids).items()}


def facts_of(cluster_ids: list[int]) -> dict[int, GateFacts]:
    """The gate's facts about each of these clusters: for many what `redrive.facts.gate_facts` says about one."""
    with connection.cursor() as cursor:
        cursor.execute(_FACTS, [cluster_ids])
        return {row[0]: _facts(*row[1:]) for row in cursor.fetchall()}


def _facts(approval_above, now, letters, after_fix, came_back, version, kind, *diagnosis) -> GateFacts:  # type: ignore[no-untyped-def]
    return GateFacts(
        diagnosis=None if version is None else DiagnosisFacts(version, kind == "transient", *diagnosis),
        letters=letters,
        started_after_fix=after_fix,
        now=now,
        came_back_redrive=came_back,
        approval_above=approval_above,
    )


def _progress(conditions: list[Condition]) -> Progress:
    unmet = {condition.rule for condition in conditions if not condition.met}
    if Rule.DIAGNOSED in unmet:
        stage = Stage.NEW
    elif unmet & {Rule.FIX_HOLDS, Rule.DID_NOT_COME_BACK}:
        stage = Stage.CAME_BACK
    elif Rule.FIX_DECLARED in unmet:
        stage = Stage.DIAGNOSED
    else:
        stage = Stage.FIX_DECLARED
    return Progress(stage, is_open(conditions))
