"""Starting a redrive: the gate is asked under the cluster's lock, and the set of letters is frozen.

1. Lock the cluster's row: two people who start at once are told apart.
2. Ask the gate.
3. Write the redrive, its items, and the letters' new state: one transaction.

The job `redrive.advance` finds the redrive and sends its letters.
"""

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection, transaction

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters import counts
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.people.audit import actor_name, record
from dlqadmin.redrive.diagnose import current_diagnosis
from dlqadmin.redrive.facts import gate_facts
from dlqadmin.redrive.gate import Condition, is_open, judge
from dlqadmin.redrive.models import Redrive

_FREEZE = f"""
WITH chosen AS (
    UPDATE dlqadmin_deadletter SET state = 'redriving', state_changed_at = clock_timestamp(), sent_back_at = NULL
    WHERE cluster_id IN (SELECT id FROM dlqadmin_errorcluster WHERE id = %(cluster)s OR merged_into_id = %(cluster)s)
        AND state = 'open' RETURNING id, cluster_id
), counted AS (
    {counts.POST} SELECT cluster_id, -count(*), 0 FROM chosen GROUP BY cluster_id
), items AS (
    INSERT INTO dlqadmin_redriveitem (redrive_id, letter_id, outcome, is_canary, why)
    SELECT %(redrive)s, id, 'pending', false, '' FROM chosen ORDER BY id RETURNING letter_id
)
SELECT count(*), max(letter_id) FROM items
"""  # noqa: S608 - made of constants


class GateClosed(Exception):
    """The gate refused; `unmet` holds the conditions, each in words."""

    def __init__(self, unmet: list[Condition]) -> None:
        super().__init__("; ".join(condition.text for condition in unmet))
        self.unmet = unmet


class NothingToRedrive(Exception):
    """The cluster has no open letter (any more)."""


@transaction.atomic
def start_redrive(*, cluster: ErrorCluster, by: AbstractBaseUser | None) -> Redrive:
    """Send all open letters of the group of `cluster` back to work.

    Raises GateClosed or NothingToRedrive; nothing changed then.
    """
    # No key: dead letters that arrive meanwhile may still point at the cluster without waiting.
    locked = (
        ErrorCluster.objects.select_for_update(no_key=True, of=("self",))
        .select_related("queue")
        .get(pk=cluster.root_id)
    )
    conditions = judge(gate_facts(locked))
    if not is_open(conditions):
        raise GateClosed([condition for condition in conditions if not condition.met])
    redrive = Redrive.objects.create(
        queue=locked.queue,
        cluster=locked,
        diagnosis=current_diagnosis(locked),
        state=Redrive.State.RUNNING,
        created_by_id=by.pk if by else None,
        created_name=actor_name(by),
        started_at=ClockTimestamp(),
    )
    with connection.cursor() as cursor:
        cursor.execute(_FREEZE, {"cluster": locked.pk, "redrive": redrive.pk})
        letters, newest = cursor.fetchone()
    if letters == 0:
        raise NothingToRedrive
    Redrive.objects.filter(pk=redrive.pk).update(cutoff_letter_id=newest)
    record(by=by, action="redrive.start", target=redrive, after={"cluster": locked.pk, "letters": letters})
    redrive.refresh_from_db()
    return redrive
