"""What the gate judges by, read from the rows: for one cluster or for many, in one statement."""

from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection

from dlqadmin.clusters.counts import counts_of
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.redrive.gate import DiagnosisFacts, GateFacts

# Letters of any state refute a fix: one that was discarded since still shows that the cause was there.
_FACTS = """
SELECT cluster.id, queue.approval_above,
    (SELECT max(letters) FROM dlqadmin_approval WHERE diagnosis_id = diagnosis.id
        AND by_id IS DISTINCT FROM diagnosis.signed_by_id AND (%(starter)s::bigint IS NULL OR by_id <> %(starter)s)),
    clock_timestamp(),
    (SELECT count(*) FROM dlqadmin_errorcluster AS leaf JOIN dlqadmin_deadletter ON cluster_id = leaf.id
        WHERE (leaf.id = cluster.id OR leaf.merged_into_id = cluster.id)
            AND last_attempt_at > diagnosis.fix_effective_at AND reason <> 'worker lost'),
    (SELECT last.redrive_id FROM (
        SELECT id, redrive_id FROM dlqadmin_redrivepart
        WHERE diagnosis_id = diagnosis.id AND left_out = '' ORDER BY redrive_id DESC LIMIT 1
    ) AS last WHERE EXISTS (SELECT FROM dlqadmin_redriveitem AS item
        WHERE item.redrive_id = last.redrive_id AND outcome = 'died again' AND part_id = last.id)),
    diagnosis.version, diagnosis.kind, diagnosis.signed_name, diagnosis.fix, diagnosis.fix_effective_at,
    CASE WHEN diagnosis.refuted_at IS NOT NULL THEN diagnosis.refuted_why END
FROM dlqadmin_errorcluster AS cluster JOIN dlqadmin_sourcequeue AS queue ON queue.id = cluster.queue_id
LEFT JOIN LATERAL (
    SELECT * FROM dlqadmin_diagnosis WHERE cluster_id = cluster.id ORDER BY version DESC LIMIT 1
) AS diagnosis ON true
WHERE cluster.id = ANY(%(clusters)s)
"""


def gate_facts(cluster: ErrorCluster, starter: AbstractBaseUser | None = None) -> GateFacts:
    """The facts about redriving the open letters of a cluster's group now."""
    return facts_of([cluster.root_id], starter)[cluster.root_id]


def facts_of(cluster_ids: list[int], starter: AbstractBaseUser | None = None) -> dict[int, GateFacts]:
    """The facts about redriving all open letters of each of these groups, by the id of its root.

    `starter`: whose own approval does not count.
    """
    with connection.cursor() as cursor:
        cursor.execute(_FACTS, {"clusters": cluster_ids, "starter": starter.pk if starter else None})
        rows = cursor.fetchall()
    counts = counts_of(cluster_ids)
    return {row[0]: _facts(counts[row[0]].open, *row[1:]) for row in rows}


def _facts(
    letters: int,
    approval_above: int | None,
    approved_for: int | None,
    now: datetime,
    started_after_fix: int,
    came_back: int | None,
    version: int | None,
    kind: str,
    *diagnosis: Any,
) -> GateFacts:
    return GateFacts(
        diagnosis=None if version is None else DiagnosisFacts(version, kind == "transient", *diagnosis),
        letters=letters,
        started_after_fix=started_after_fix,
        now=now,
        came_back_redrive=came_back,
        approval_above=approval_above,
        approved_for=approved_for,
    )
