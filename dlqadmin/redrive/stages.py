"""Where a cluster stands: what people said of it, and how far it is on its way back to work, as the gate judges it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db import connection

from dlqadmin.redrive.facts import facts_of
from dlqadmin.redrive.gate import Condition, GateFacts, Rule, is_open, judge, unmet_of

# Of a group: what its root says, whether letters of it are on their way, and when the last came.
_MARKS = """
SELECT root.id, root.closed_at, coalesce(root.muted_until > clock_timestamp(), false),
    (SELECT max(newest.died_at) FROM unnest(leaves.ids) AS leaf (id) CROSS JOIN LATERAL (
        SELECT died_at FROM dlqadmin_deadletter
        WHERE queue_id = root.queue_id AND cluster_id = leaf.id AND state = 'open' ORDER BY died_at DESC LIMIT 1
    ) AS newest),
    EXISTS (SELECT FROM dlqadmin_deadletter WHERE state = 'redriving' AND cluster_id = ANY(leaves.ids)),
    root.total_count > 0 OR EXISTS (SELECT FROM dlqadmin_deadletter WHERE cluster_id = ANY(leaves.ids))
FROM dlqadmin_errorcluster AS root CROSS JOIN LATERAL (
    SELECT array_agg(id) AS ids FROM dlqadmin_errorcluster WHERE id = root.id OR merged_into_id = root.id
) AS leaves
WHERE root.id = ANY(%s)
"""


class Stage(StrEnum):
    """Where a cluster stands."""

    NEW = "new"
    DIAGNOSED = "diagnosed"
    FIX_DECLARED = "fix declared"
    CAME_BACK = "came back"
    MUTED = "muted"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Marks:
    """What people said of a cluster, and what its letters are at. `newest`: when the last open letter died, if any."""

    closed_at: datetime | None = None
    muted: bool = False
    newest: datetime | None = None
    in_motion: bool = False
    had_letters: bool = True


@dataclass(frozen=True, slots=True)
class Progress:
    """The stage of a cluster, and whether the gate would let its letters through now."""

    stage: Stage
    gate_open: bool


def progress_of(cluster_ids: list[int]) -> dict[int, Progress]:
    """The progress of each of these clusters, by id."""
    return progress_by(facts_of(cluster_ids))


def progress_by(facts: dict[int, GateFacts]) -> dict[int, Progress]:
    """The progress of the clusters of these facts, by id."""
    marks = _marks(list(facts))
    found = {}
    for cluster, known in facts.items():
        conditions = judge(known)
        found[cluster] = Progress(stage_of(conditions, marks[cluster]), is_open(conditions))
    return found


def stage_of(conditions: list[Condition], marks: Marks) -> Stage:
    """Where a cluster stands. A letter that died after the cluster was closed brings it back; muted says nothing of the
    cause, only that nobody wants to hear of it now."""
    came_back = marks.closed_at is not None and marks.newest is not None and marks.newest > marks.closed_at
    if marks.closed_at is not None and not came_back:
        return Stage.CLOSED
    if marks.had_letters and marks.newest is None and not marks.in_motion:
        return Stage.CLOSED
    if marks.muted:
        return Stage.MUTED
    unmet = {condition.rule for condition in unmet_of(conditions)}
    if unmet & {Rule.FIX_HOLDS, Rule.DID_NOT_COME_BACK} or came_back:
        return Stage.CAME_BACK
    if Rule.DIAGNOSED in unmet:
        return Stage.NEW
    return Stage.DIAGNOSED if Rule.FIX_DECLARED in unmet else Stage.FIX_DECLARED


def _marks(cluster_ids: list[int]) -> dict[int, Marks]:
    with connection.cursor() as cursor:
        cursor.execute(_MARKS, [cluster_ids])
        return {row[0]: Marks(*row[1:]) for row in cursor.fetchall()}
