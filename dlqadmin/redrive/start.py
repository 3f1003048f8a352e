"""Starting a redrive: the gate is asked under the clusters' locks, and the set of letters is frozen.

1. Lock the queue's groups and the rows of the clusters that the letters are of: what the gate judges is what is frozen,
   and two people who start at once are told apart.
2. Ask the gate for each cluster. Letters of closed gates are left out and named; if every gate is closed nothing
   starts. An admin may override that with a reason.
3. Write the redrive, its parts, its items, and the letters' new state: one transaction. Letters that are known to be
   duplicate or stale are left out, and stay open.
4. Choose the canary among the items.

The job `redrive.advance` finds the redrive and sends its letters.
"""

from dataclasses import dataclass

from django.db import connection, transaction
from django.utils.translation import gettext as _

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters import counts
from dlqadmin.clusters.groups import lock_groups
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.sets import LetterSet, sql_of
from dlqadmin.people.audit import Actor, actor_name, record
from dlqadmin.redrive.diagnose import current_diagnoses
from dlqadmin.redrive.gate import Condition
from dlqadmin.redrive.models import Redrive, RedriveItem, RedrivePart
from dlqadmin.redrive.plan import DROPPED, Judged, judge_plan, plan_redrive

_FREEZE = f"""
WITH chosen AS (
    UPDATE dlqadmin_deadletter AS letter
    SET state = 'redriving', state_changed_at = clock_timestamp()
    FROM dlqadmin_sourcequeue AS queue, dlqadmin_errorcluster AS leaf, dlqadmin_redrivepart AS part
    WHERE letter.id IN ({{letters}}) AND letter.state = 'open' AND queue.id = letter.queue_id
        AND leaf.id = letter.cluster_id AND part.cluster_id = coalesce(leaf.merged_into_id, leaf.id)
        AND part.redrive_id = %(redrive)s AND part.left_out = '' AND (%(with_dropped)s OR {DROPPED} IS NULL)
    RETURNING letter.id, letter.cluster_id, letter.position, part.id AS part_id
), counted AS (
    {counts.POST} SELECT cluster_id, -count(*), 0 FROM chosen GROUP BY cluster_id
), items AS (
    INSERT INTO dlqadmin_redriveitem (redrive_id, part_id, letter_id, outcome, is_canary, why)
    SELECT %(redrive)s, part_id, id, 'pending', false, '' FROM chosen ORDER BY position RETURNING part_id
), sums AS (
    SELECT part_id, count(*) AS letters FROM items GROUP BY part_id
)
UPDATE dlqadmin_redrivepart AS part SET letters = sums.letters FROM sums WHERE part.id = sums.part_id
RETURNING part.letters
"""  # noqa: S608 - made of constants

# One at least of each type in each cluster, whose diagnosis is a claim of its own; each the first of its key, so that
# no earlier message of the key stands before it.
_CANARY = """
WITH heads AS (
    SELECT item.id, letter.type, letter.position, item.part_id,
        row_number() OVER (PARTITION BY item.part_id, letter.type ORDER BY
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
    LIMIT greatest(%(canary)s, (SELECT count(DISTINCT (part_id, type)) FROM heads))
)
"""

MOST_CANARY = 1_000


@dataclass(frozen=True, slots=True)
class Options:
    """How a redrive runs.

    `canary`: letters that go first, at least one of each type in each cluster; 0: none. `window`: letters on their way
    at once, None: no bound. `rate`: letters a second, None: as fast as the window allows. `stop_percent`: the share
    that may die again. `with_dropped`: also letters that a consumer would drop as duplicate or stale.
    """

    canary: int = 1
    window: int | None = 1_000
    rate: float | None = None
    stop_percent: float = 5.0
    with_dropped: bool = False


NO_CANARY = Options(canary=0, window=None)


class GateClosed(Exception):
    """The gate refused; `unmet` holds the conditions, each in words."""

    def __init__(self, unmet: list[Condition]) -> None:
        super().__init__("; ".join(condition.text for condition in unmet))
        self.unmet = unmet


class NothingToRedrive(Exception):
    """The set has no open letter (any more); the text says whether somebody else redrives its letters."""

    def __init__(self, redriving: int) -> None:
        if redriving:
            said = _("Somebody has started it already: %d letters are being redriven.") % redriving
        else:
            said = _("No open letter is left.")
        super().__init__(said)


class BadOptions(ValueError):
    """The redrive cannot run so; the text says why."""


@transaction.atomic
def start_redrive(
    *,
    letters: LetterSet,
    by: Actor,
    options: Options | None = None,
    override_reason: str = "",
) -> Redrive:
    """Send the open letters of a set back to work.

    `override_reason`: why an admin starts it although gates are closed; whether `by` may is asked by the caller.
    Raises GateClosed, NothingToRedrive, BadOptions or BadQuery; nothing changed then.
    """
    options = options or Options()
    _check(options)
    lock_groups(letters.queue.pk)
    plan = plan_redrive(letters)
    _lock_clusters(list(plan.by_cluster))
    judged = judge_plan(plan, starter=by)
    if not judged.parts:
        raise NothingToRedrive(plan.redriving)
    overridden = judged.unmet if override_reason.strip() else []
    if not judged.is_open and not overridden:
        raise GateClosed(judged.unmet)
    redrive = _create(letters, by, options, override_reason.strip() if overridden else "")
    _part(redrive, judged)
    frozen = _freeze(redrive, letters.up_to(plan.cutoff), options)
    after: dict[str, object] = {"filter": letters.text, "letters": frozen}
    if overridden:
        after["overridden"] = sorted({str(condition.rule) for condition in overridden})
    record(by=by, action="redrive.start", target=redrive, reason=redrive.override_reason, after=after)
    redrive.refresh_from_db()
    return redrive


def _lock_clusters(roots: list[int]) -> None:
    """No key: dead letters that arrive meanwhile may still point at the clusters without waiting."""
    list(
        ErrorCluster.objects.select_for_update(no_key=True)
        .filter(pk__in=roots)
        .order_by("pk")
        .values_list("pk")
    )


def _check(options: Options) -> None:
    if not 0 <= options.canary <= MOST_CANARY:
        raise BadOptions(_("The canary has 0 to %(most)d letters.") % {"most": MOST_CANARY})
    if options.window is not None and options.window < 1:
        raise BadOptions(_("The window is at least 1."))
    if options.rate is not None and options.rate <= 0:
        raise BadOptions(_("The rate is more than 0 letters a second."))
    if not 0 <= options.stop_percent <= 100:
        raise BadOptions(_("The share that stops it is 0 to 100 per cent."))


def _create(letters: LetterSet, by: Actor, options: Options, override_reason: str) -> Redrive:
    return Redrive.objects.create(
        queue=letters.queue,
        filter_text=letters.text,
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


def _part(redrive: Redrive, judged: Judged) -> None:
    """What goes, and what is left out because its own gate is closed; an override leaves nothing out."""
    diagnoses = current_diagnoses([part.cluster.pk for part in judged.parts])
    RedrivePart.objects.bulk_create(
        RedrivePart(
            redrive=redrive,
            cluster=part.cluster,
            diagnosis=diagnoses.get(part.cluster.pk),
            letters=part.letters.open,
            left_out="" if redrive.override_reason else "; ".join(condition.text for condition in part.unmet),
        )
        for part in judged.parts
    )


def _freeze(redrive: Redrive, letters: LetterSet, options: Options) -> int:
    query, values = sql_of(letters.letters())
    values |= {"redrive": redrive.pk, "canary": options.canary, "with_dropped": options.with_dropped}
    with connection.cursor() as cursor:
        cursor.execute(_FREEZE.format(letters=query), values)
        frozen = sum(row[0] for row in cursor.fetchall())
        if frozen == 0:
            raise NothingToRedrive(0)
        if options.canary:
            cursor.execute(_CANARY, values)
    Redrive.objects.filter(pk=redrive.pk).update(
        cutoff_letter_id=letters.cutoff, outcomes={RedriveItem.Outcome.PENDING.value: frozen}
    )
    return int(frozen)
