"""Which queue needs a person first: depth, causes, alert and redrives of every queue, in one statement."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from dlqadmin.clusters.counts import OPEN_LEAVES

# Letters are not counted: the clusters' own counts are summed, since a page should not read a million rows. The first
# open letter of a queue is taken for its oldest. Materialized: else the planner may do it once for each queue.
_READ = f"""
WITH clusters AS (
    SELECT queue_id, root AS cluster_id, sum(letters)::bigint AS letters FROM ({OPEN_LEAVES}) AS leaves GROUP BY 1, 2
), depths AS MATERIALIZED (
    SELECT summed.*, (
        SELECT died_at FROM dlqadmin_deadletter AS letter
        WHERE letter.queue_id = summed.queue_id AND letter.state = 'open' ORDER BY letter.id * -1 DESC LIMIT 1
    ) AS oldest
    FROM (
        SELECT queue_id, sum(letters)::bigint AS letters, count(*) AS causes, max(letters) AS top_letters,
            -(max(ARRAY[letters, -cluster_id]))[2] AS top_cluster -- most letters, then the lowest id; without a sort
        FROM clusters WHERE letters > 0 GROUP BY queue_id
    ) AS summed
), alerts AS MATERIALIZED (
    SELECT DISTINCT ON (queue_id) queue_id, state, severity, opened_at FROM dlqadmin_alert WHERE closed_at IS NULL
    ORDER BY queue_id, state = 'firing' DESC, severity = 'critical' DESC, opened_at
), redrives AS MATERIALIZED (
    SELECT queue_id, count(*) AS running FROM dlqadmin_redrive
    WHERE state IN ('running', 'paused', 'held', 'stalled') GROUP BY queue_id
)
SELECT queue.id, queue.name, queue.kind, owner.name, queue.max_attempts, coalesce(depths.letters, 0),
    coalesce(depths.causes, 0), depths.oldest, depths.top_cluster, coalesce(nullif(top.name, ''), top.template),
    coalesce(depths.top_letters, 0),
    coalesce(alerts.state, ''), coalesce(alerts.severity, ''), alerts.opened_at, coalesce(redrives.running, 0)
FROM dlqadmin_sourcequeue AS queue
LEFT JOIN dlqadmin_owner AS owner ON owner.id = queue.owner_id
LEFT JOIN depths ON depths.queue_id = queue.id
LEFT JOIN dlqadmin_errorcluster AS top ON top.id = depths.top_cluster
LEFT JOIN alerts ON alerts.queue_id = queue.id
LEFT JOIN redrives ON redrives.queue_id = queue.id
WHERE queue.archived_at IS NULL AND (%(owners)s::bigint[] IS NULL OR queue.owner_id = ANY(%(owners)s))
ORDER BY alerts.state = 'firing' AND depths.letters > 0 DESC NULLS LAST, alerts.severity = 'critical' DESC NULLS LAST,
    depths.letters DESC NULLS LAST, queue.name
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True)
class QueueUrgency:
    """What a person must know of a queue at a glance. `causes`: clusters with open letters; `alert_state` may be ''."""

    queue_id: int
    name: str
    kind: str
    owner: str | None
    max_attempts: int
    letters: int
    causes: int
    oldest: datetime | None
    top_cluster: int | None
    top_cause: str | None
    top_letters: int
    alert_state: str
    alert_severity: str
    alert_opened_at: datetime | None
    redrives: int

    @property
    def top_percent(self) -> float:
        """The share of the largest cluster in the open letters, 0 to 100."""
        return 100 * self.top_letters / self.letters if self.letters else 0.0


def urgencies(owners: list[int] | None) -> list[QueueUrgency]:
    """All queues of these owners (None: of everybody), the most urgent first."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, {"owners": owners})
        return [QueueUrgency(*row) for row in cursor.fetchall()]
