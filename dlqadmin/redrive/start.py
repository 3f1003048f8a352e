"""Starting a redrive: the gate is asked under the cluster's lock, and the set of letters is frozen.

1. Lock the queue's groups and the cluster's row: what the gate judges is what is frozen, and two people who start at
   once are told apart.
2. Ask the gate, unless an admin overrides it with a reason.
3. Write the redrive, its items, and the letters' new state: one transaction. Letters that are known to be duplicate or
   stale are left out, and stay open.
4. Choose the canary among the items.

The job `redrive.advance` finds the redrive and sends its letters.
"""

from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.utils.translation import gettext as _

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters import counts
from dlqadmin.clusters.groups import lock_groups
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.people.audit import Actor, actor_name, record
from dlqadmin.redrive.diagnose import current_diagnosis
from dlqadmin.redrive.facts import gate_facts
from dlqadmin.redrive.gate import Condition, judge, unmet_of
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.plan import DROPPED, GROUP

_FREEZE = f"""
WITH chosen AS (
    UPDATE dlqadmin_deadletter AS letter
    SET state = 'redriving', state_changed_at = clock_timestamp(), sent_back_at = NULL
    FROM dlqadmin_sourcequeue AS queue
    WHERE letter.cluster_id IN ({GROUP}) AND letter.state = 'open' AND queue.id = letter.queue_id
        AND (%(cutoff)s::bigint IS NULL OR letter.id <= %(cutoff)s) AND (%(with_dropped)s OR {DROPPED} IS NULL)
    RETURNING letter.id, letter.cluster_id, letter.position
), counted AS (
    {counts.POST} SELECT cluster_id, -count(*), 0 FROM chosen GROUP BY cluster_id
), items AS (
    INSERT INTO dlqadmin_redriveitem (redrive_id, letter_id, outcome, is_canary, why)
    SELECT %(redrive)s, id, 'pending', false, '' FROM chosen ORDER BY position RETURNING letter_id
)
SELECT count(*), max(letter_id) FROM items
"""  # noqa: S608 - made of constants

# One of each type at least, each the first of its key, so that no earlier message of the key stands before it.
_CANARY = """
WITH heads AS (
    SELECT item.id, letter.type, letter.position, row_number() OVER (PARTITION BY letter.type ORDER BY
        EXISTS (SELECT FROM dlqadmin_queuekey AS key WHERE key.queue_id = letter.queue_id AND key.key = letter.key
            AND key.blocked_at IS NOT NULL), letter.position) AS of_type
    FROM dlqadmin_redriveitem AS item JOIN dlqadmin_deadletter AS letter ON letter.id = item.letter_id
    WHERE item.redrive_id = %(redrive)s AND (letter.key IS NULL OR NOT EXISTS (
        SELECT FROM dlqadmin_redriveitem AS other JOIN dlqadmin_deadletter AS before ON before.id = other.letter_id
        WHERE other.redrive_id = %(redrive)s AND before.key = letter.key AND before.position < letter.position
    ))
)
UPDATE dlqadmin_redriveitem SET is_canary = true WHERE id IN (
    SELECT id FROM heads ORDER BY of_type, position
    LIMIT greatest(%(canary)s, (SELECT count(DISTINCT type) FROM heads))
)
"""

MOST_CANARY = 1_000


@dataclass(frozen=True, slots=True)
class Options:
    """How a redrive runs.

    `canary`: letters that go first, at least one of each type; 0: none. `window`: letters on their way at once, None:
    no bound. `rate`: letters a second, None: as fast as the window allows. `stop_percent`: the share that may die
    again. `cutoff`: the newest letter that is included, None: all that are there. `with_dropped`: also letters that a
    consumer would drop as duplicate or stale.
    """

    canary: int = 1
    window: int | None = 1_000
    rate: float | None = None
    stop_percent: float = 5.0
    cutoff: int | None = None
    with_dropped: bool = False


NO_CANARY = Options(canary=0, window=None)


class GateClosed(Exception):
    """The gate refused; `unmet` holds the conditions, each in words."""

    def __init__(self, unmet: list[Condition]) -> None:
        super().__init__("; ".join(condition.text for condition in unmet))
        self.unmet = unmet


class NothingToRedrive(Exception):
    """The cluster has no open letter (any more)."""


class BadOptions(ValueError):
    """The redrive cannot run so; the text says why."""


@transaction.atomic
def start_redrive(
    *,
    cluster: ErrorCluster,
    by: Actor,
    options: Options | None = None,
    override_reason: str = "",
) -> Redrive:
    """Send the open letters of the group of `cluster` back to work.

    `override_reason`: why an admin starts it although the gate is closed; whether `by` may is asked by the caller.
    Raises GateClosed, NothingToRedrive or BadOptions; nothing changed then.
    """
    options = options or Options()
    _check(options)
    lock_groups(cluster.queue_id)
    # It may have been merged meanwhile.
    root = ErrorCluster.objects.only("merged_into").get(pk=cluster.pk).root_id
    # No key: dead letters that arrive meanwhile may still point at the cluster without waiting.
    locked = (
        ErrorCluster.objects.select_for_update(no_key=True, of=("self",)).select_related("queue").get(pk=root)
    )
    unmet = unmet_of(judge(gate_facts(locked, starter=by)))
    if unmet and not override_reason.strip():
        raise GateClosed(unmet)
    redrive = _create(locked, by, options, override_reason.strip() if unmet else "")
    letters = _freeze(redrive, locked, options)
    after: dict[str, Any] = {"cluster": locked.pk, "letters": letters}
    if redrive.override_reason:
        after["overridden"] = [str(condition.rule) for condition in unmet]
    record(by=by, action="redrive.start", target=redrive, reason=redrive.override_reason, after=after)
    redrive.refresh_from_db()
    return redrive


def _check(options: Options) -> None:
    if not 0 <= options.canary <= MOST_CANARY:
        raise BadOptions(_("The canary has 0 to %(most)d letters.") % {"most": MOST_CANARY})
    if options.window is not None and options.window < 1:
        raise BadOptions(_("The window is at least 1."))
    if options.rate is not None and options.rate <= 0:
        raise BadOptions(_("The rate is more than 0 letters a second."))
    if not 0 <= options.stop_percent <= 100:
        raise BadOptions(_("The share that stops it is 0 to 100 per cent."))


def _create(cluster: ErrorCluster, by: Actor, options: Options, override_reason: str) -> Redrive:
    return Redrive.objects.create(
        queue=cluster.queue,
        cluster=cluster,
        diagnosis=current_diagnosis(cluster),
        state=Redrive.State.RUNNING,
        canary=options.canary,
        window=options.window,
        rate=options.rate,
        stop_percent=options.stop_percent,
        override_reason=override_reason,
        created_by_id=by.pk if by else None,
        created_name=actor_name(by),
        started_at=ClockTimestamp(),
        rest_from=None if options.canary else ClockTimestamp(),
    )


def _freeze(redrive: Redrive, cluster: ErrorCluster, options: Options) -> int:
    values = {
        "cluster": cluster.pk,
        "redrive": redrive.pk,
        "cutoff": options.cutoff,
        "canary": options.canary,
        "with_dropped": options.with_dropped,
    }
    with connection.cursor() as cursor:
        cursor.execute(_FREEZE, values)
        letters, newest = cursor.fetchone()
        if letters == 0:
            raise NothingToRedrive
        if options.canary:
            cursor.execute(_CANARY, values)
    Redrive.objects.filter(pk=redrive.pk).update(cutoff_letter_id=newest)
    return int(letters)
