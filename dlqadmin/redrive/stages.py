"""How far a cluster is on its way back to work, as the gate judges it."""

from dataclasses import dataclass
from enum import StrEnum

from dlqadmin.redrive.facts import facts_of
from dlqadmin.redrive.gate import Condition, Rule, is_open, judge


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
