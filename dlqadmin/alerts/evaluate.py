"""From the state of the queues to alerts: open once, escalate by steps, close after a calm time."""

from collections import defaultdict
from datetime import timedelta

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection, transaction
from django.utils.translation import gettext

from dlqadmin.alerts.models import Alert, Notification
from dlqadmin.alerts.notify import enqueue
from dlqadmin.alerts.rules import Finding, QueueSnapshot, TroubledRedrive, findings
from dlqadmin.clock import ClockTimestamp
from dlqadmin.leases.run import guarded
from dlqadmin.people.audit import record
from dlqadmin.queues.models import SourceQueue

CALM = timedelta(minutes=10)

_SNAPSHOTS = """
SELECT queue_id, sum(letters)::bigint, (array_agg(letters ORDER BY letters DESC, cluster_id))[1],
    (array_agg(cluster_id ORDER BY letters DESC, cluster_id))[1]
FROM (
    SELECT leaves.queue_id, coalesce(leaf.merged_into_id, leaf.id) AS cluster_id, sum(letters)::bigint AS letters
    FROM (
        SELECT queue_id, cluster_id, count(*) AS letters FROM dlqadmin_deadletter WHERE state = 'open'
        GROUP BY queue_id, cluster_id
    ) AS leaves LEFT JOIN dlqadmin_errorcluster AS leaf ON leaf.id = leaves.cluster_id GROUP BY 1, 2
) AS clusters GROUP BY queue_id
"""


# A stopped redrive needs somebody until one of its causes is diagnosed anew, for a week at most.
_TROUBLED = """
SELECT queue_id, id, state, state_reason FROM dlqadmin_redrive AS redrive
WHERE state IN ('held', 'stalled') OR (
    state = 'stopped' AND finished_at > clock_timestamp() - interval '7 days' AND NOT EXISTS (
        SELECT FROM dlqadmin_redrivepart AS part JOIN dlqadmin_diagnosis AS diagnosis
            ON diagnosis.cluster_id = part.cluster_id AND diagnosis.signed_at > redrive.finished_at
        WHERE part.redrive_id = redrive.id
    )
)
ORDER BY id
"""


def evaluate() -> None:
    """Compare every queue with the rules, and bring the alerts up to date."""
    depths, redrives = _depths(), _redrives()
    open_alerts = {
        (alert.queue_id, alert.rule, alert.subject): alert for alert in Alert.objects.filter(closed_at=None)
    }
    wanted = {queue_id for queue_id, _rule, _subject in open_alerts} | set(depths) | set(redrives)
    queues = SourceQueue.objects.filter(pk__in=wanted, archived_at=None).select_related("owner")
    for queue in queues.order_by("pk"):
        snapshot = _snapshot(queue, *depths.get(queue.pk, (0, 0, "")), redrives[queue.pk])
        found = {(queue.pk, finding.rule, finding.subject): finding for finding in findings(snapshot)}
        for thing, finding in found.items():
            _raise(queue, finding, open_alerts.get(thing))
        for thing, alert in open_alerts.items():
            if alert.queue_id == queue.pk and thing not in found:
                _calm(alert)


def _redrives() -> dict[int, list[TroubledRedrive]]:
    """The redrives that need a person, by queue."""
    found: dict[int, list[TroubledRedrive]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_TROUBLED)
        for queue, number, state, reason in cursor.fetchall():
            found[queue].append(TroubledRedrive(number, state, gettext(reason) if reason else ""))
    return found


def _depths() -> dict[int, tuple[int, int, str]]:
    """For each queue with open letters: their number, the letters of the largest cluster, and its template."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT s.*, coalesce(nullif(c.name, ''), c.template) "  # noqa: S608
            f"FROM ({_SNAPSHOTS}) AS s(queue_id, depth, top, cluster_id) "
            "LEFT JOIN dlqadmin_errorcluster c ON c.id = s.cluster_id"
        )
        return {queue: (depth, top, template or "") for queue, depth, top, _, template in cursor.fetchall()}


def _snapshot(
    queue: SourceQueue, depth: int, top: int, template: str, redrives: list[TroubledRedrive]
) -> QueueSnapshot:
    return QueueSnapshot(queue.name, depth, tuple(queue.alert_levels), template, top, tuple(redrives))


@guarded()
def _raise(queue: SourceQueue, finding: Finding, known: Alert | None) -> None:
    """Open the alert, or bring it up to date; notify when it opens and when it escalates."""
    severity = Alert.Severity.CRITICAL if finding.critical else Alert.Severity.WARNING
    state = {"sentence": finding.sentence, "value": finding.value, "severity": severity}
    if known is None:
        alert, opened = Alert.objects.get_or_create(
            queue=queue,
            rule=finding.rule,
            subject=finding.subject,
            closed_at=None,
            defaults=state | {"step": finding.step},
        )
        if opened:
            enqueue(alert, Notification.Occasion.OPENED)
        return
    changed = Alert.objects.filter(pk=known.pk, step__lt=finding.step, closed_at=None).update(
        step=finding.step
    )
    Alert.objects.filter(pk=known.pk).update(**state, calm_since=None, evaluated_at=ClockTimestamp())
    if changed:
        known.refresh_from_db()
        enqueue(known, Notification.Occasion.ESCALATED)


@guarded()
def _calm(alert: Alert) -> None:
    """Nothing is wrong any more: note since when, and close after CALM."""
    live = Alert.objects.filter(pk=alert.pk, closed_at=None)
    live.filter(calm_since=None).update(calm_since=ClockTimestamp(), value=0, evaluated_at=ClockTimestamp())
    live.filter(calm_since__lte=ClockTimestamp() - CALM).update(
        state=Alert.State.CLOSED, closed_at=ClockTimestamp()
    )


@transaction.atomic
def acknowledge(*, alert: Alert, by: AbstractBaseUser) -> bool:
    """A person has seen it and takes care: no reminders. False if it was not firing (any more)."""
    changed = Alert.objects.filter(state=Alert.State.FIRING, pk=alert.pk).update(
        state=Alert.State.ACKNOWLEDGED, acknowledged_by_id=by.pk, acknowledged_at=ClockTimestamp()
    )
    if changed:
        record(by=by, action="alert.acknowledge", target=alert)
    return changed == 1
