"""Running redrives. Every step is rows, so any process can go on where another was killed.

1. What became of the letters that were sent is read from them.
2. The figures of the redrive are counted, and `pace.decide` says what to do.
3. It is done: send a batch, release the rest, hold, stall, stop, finish.
"""

import time
from collections import Counter
from dataclasses import replace
from typing import Any

from django.db import connection
from django.db.models import Count
from django.utils.translation import gettext_noop

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters import counts
from dlqadmin.leases.run import guarded
from dlqadmin.redrive.figures import read_figures, why_silent
from dlqadmin.redrive.models import Redrive, RedriveItem
from dlqadmin.redrive.pace import Act, Decision, Figures, Why, decide
from dlqadmin.redrive.parts import closed_gates, refute_parts
from dlqadmin.redrive.send import send_batch

TURN_SECONDS = 5.0

# What is worked on: also what was ended with letters still on their way.
LIVE = (Redrive.State.RUNNING, Redrive.State.STALLED)

# A letter that died again is compared with the one that it has become: the same group of clusters is the same error.
_COLLECT = """
UPDATE dlqadmin_redriveitem AS item SET settled_at = letter.state_changed_at, outcome = CASE
    WHEN letter.state = 'returned' THEN 'died again'
    WHEN letter.resolution = 'succeeded' THEN 'succeeded' ELSE 'discarded' END,
    why = CASE WHEN letter.state = 'returned' THEN (
        SELECT CASE WHEN coalesce(new.merged_into_id, new.id) = coalesce(old.merged_into_id, old.id)
            THEN %(same)s ELSE %(another)s END
        FROM dlqadmin_deadletter AS next JOIN dlqadmin_errorcluster AS new ON new.id = next.cluster_id
        JOIN dlqadmin_errorcluster AS old ON old.id = letter.cluster_id
        WHERE next.previous_id = letter.id ORDER BY next.id LIMIT 1
    ) WHEN letter.resolution <> 'succeeded' THEN letter.resolution ELSE '' END
FROM dlqadmin_deadletter AS letter
WHERE item.redrive_id = %(redrive)s AND item.outcome = 'sent' AND letter.id = item.letter_id
    AND letter.state IN ('resolved', 'returned')
"""

# What was not sent is open again, as if the redrive had not taken it.
_LET_GO = f"""
WITH items AS (
    UPDATE dlqadmin_redriveitem SET outcome = 'skipped', why = %(why)s, settled_at = clock_timestamp()
    WHERE redrive_id = %(redrive)s AND outcome = 'pending' AND (%(part)s::bigint IS NULL OR part_id = %(part)s)
    RETURNING letter_id
), letters AS (
    UPDATE dlqadmin_deadletter AS letter SET state = 'open', state_changed_at = clock_timestamp()
    FROM items WHERE letter.id = items.letter_id AND letter.state = 'redriving'
    RETURNING letter.cluster_id
)
{counts.POST} SELECT cluster_id, count(*), 0 FROM letters WHERE cluster_id IS NOT NULL GROUP BY cluster_id
"""  # noqa: S608 - made of constants

SAME_ERROR = gettext_noop("the same error")
ANOTHER_ERROR = gettext_noop("another error")
STOPPED_BECAUSE = {
    Why.CANARY_DIED: gettext_noop("A letter of the canary died again: the cause is not gone."),
    Why.SHARE_DIED: gettext_noop("Too many letters died again: the cause is not gone."),
}
HELD_BECAUSE = gettext_noop("The canary failed again with the error that it died of.")
GATE_CLOSED = gettext_noop("The gate closed while the canary was on its way.")
DIED_AGAIN = gettext_noop("Letters died again: the cause is not gone.")


def advance_redrives() -> None:
    """Take every redrive that is under way as far as it goes now."""
    redrives = Redrive.objects.select_related("queue").order_by("id")
    for redrive in redrives.filter(state__in=LIVE):
        advance(redrive)
    for redrive in redrives.filter(state=Redrive.State.HELD):
        look_at_held(redrive)
    ended = redrives.exclude(state__in=(*LIVE, Redrive.State.HELD))
    for redrive in ended.filter(items__outcome=RedriveItem.Outcome.SENT).distinct():
        _collect(redrive)
        keep_outcomes(redrive)


def advance(redrive: Redrive, seconds: float = TURN_SECONDS) -> None:
    """Take a redrive as far as it goes within about so long."""
    end = time.monotonic() + seconds
    _collect(redrive)
    figures = read_figures(redrive)
    decision = decide(figures)
    while decision.act in (Act.SEND, Act.RELEASE) and time.monotonic() < end:
        if decision.act is Act.SEND:
            sent = send_batch(redrive, decision.most, figures.pending_canary > 0)
            figures = _after(figures, sent) if sent else read_figures(redrive)
            if not sent:
                break
        elif not _release(redrive):
            break
        else:
            figures = read_figures(redrive)
        decision = decide(figures)
    _conclude(redrive, decision, figures)
    keep_outcomes(redrive)


def look_at_held(redrive: Redrive) -> None:
    """What was held because its canary failed once ends when that dies, and goes on when it succeeds after all."""
    _collect(redrive)
    figures = read_figures(redrive)
    decision = decide(figures)
    if decision.act in (Act.STOP, Act.FINISH):
        _conclude(redrive, decision, figures)
    elif redrive.state_reason == HELD_BECAUSE and not figures.canary_open:
        _set_state(redrive, Redrive.State.RUNNING, "")
    keep_outcomes(redrive)


def send_pending(redrive: Redrive, seconds: float = TURN_SECONDS) -> int:
    """Send letters of a redrive back to their queue for about so long, as far as its pace allows; the number sent.

    A batch is a transaction. What is left is sent in the next turn.
    """
    total, end, figures = 0, time.monotonic() + seconds, read_figures(redrive)
    while time.monotonic() < end:
        decision = decide(figures)
        if decision.act is not Act.SEND:
            break
        sent = send_batch(redrive, decision.most, figures.pending_canary > 0)
        if not sent:
            break
        total, figures = total + sent, _after(figures, sent)
    return total


def _after(figures: Figures, sent: int) -> Figures:
    """The figures when so many more were sent: counting a million items for each batch would take most of the time."""
    canary = min(sent, figures.pending_canary)
    return replace(
        figures,
        pending_canary=figures.pending_canary - canary,
        pending=figures.pending - sent,
        on_its_way=figures.on_its_way + sent,
        sent_of_rest=figures.sent_of_rest + sent - canary,
    )


def _conclude(redrive: Redrive, decision: Decision, figures: Figures) -> None:
    if decision.act is Act.STOP:
        _stop(redrive, decision, figures)
    elif decision.act is Act.HOLD:
        _set_state(redrive, Redrive.State.HELD, HELD_BECAUSE)
    elif decision.act is Act.STALL:
        _set_state(redrive, Redrive.State.STALLED, why_silent(redrive))
    elif decision.act is Act.FINISH:
        _finish(redrive, figures)


@guarded()
def _release(redrive: Redrive) -> bool:
    """The canary has succeeded: ask the gate again, and let the rest go; whether it may."""
    closed = closed_gates(redrive)
    if closed and len(closed) == redrive.parts.filter(left_out="").count():
        _set_state(redrive, Redrive.State.HELD, f"{GATE_CLOSED} {next(iter(closed.values()))}")
        return False
    for part, why in closed.items():
        let_go(redrive, f"{GATE_CLOSED} {why}", part)
    changed = Redrive.objects.filter(pk=redrive.pk, rest_from=None, state__in=LIVE)
    return changed.update(rest_from=ClockTimestamp()) == 1


@guarded()
def _stop(redrive: Redrive, decision: Decision, figures: Figures) -> None:
    """Letters died again: what was not sent is open again, and the diagnosis is refuted."""
    reason = STOPPED_BECAUSE[decision.why or Why.SHARE_DIED]
    if _set_state(redrive, Redrive.State.STOPPED, reason):
        let_go(redrive, gettext_noop("the redrive stopped"))
        refute_parts(redrive)


@guarded()
def _finish(redrive: Redrive, figures: Figures) -> None:
    if _set_state(redrive, Redrive.State.DONE, DIED_AGAIN if figures.died else "") and figures.died:
        refute_parts(redrive)


def let_go(redrive: Redrive, why: str, part: int | None = None) -> None:
    """Open the letters that were not sent, or those of one part. Inside the transaction that ends it for them."""
    with connection.cursor() as cursor:
        cursor.execute(_LET_GO, {"redrive": redrive.pk, "why": why, "part": part})


@guarded()
def _set_state(redrive: Redrive, state: Redrive.State, reason: str) -> bool:
    """Whether this process changed it: somebody may have paused or cancelled it meanwhile."""
    values: dict[str, Any] = {"state": state, "state_reason": reason}
    if state in (Redrive.State.DONE, Redrive.State.STOPPED):
        values["finished_at"] = ClockTimestamp()
    worked_on = (*LIVE, Redrive.State.HELD)
    return Redrive.objects.filter(pk=redrive.pk, state__in=worked_on).update(**values) == 1


@guarded()
def collect_outcomes(redrive: Redrive) -> Counter[str]:
    """Bring the items up to date with their letters, and end the redrive when none is open; the counts by outcome."""
    _collect(redrive)
    found = count_outcomes(redrive)
    if not found[RedriveItem.Outcome.PENDING] and not found[RedriveItem.Outcome.SENT]:
        figures = read_figures(redrive)
        _conclude(redrive, decide(figures), figures)
    return found


@guarded()
def _collect(redrive: Redrive) -> None:
    """Bring the items up to date with their letters; a redrive that was stalled runs again when some have outcomes."""
    with connection.cursor() as cursor:
        cursor.execute(_COLLECT, {"redrive": redrive.pk, "same": SAME_ERROR, "another": ANOTHER_ERROR})
        if cursor.rowcount:
            Redrive.objects.filter(pk=redrive.pk).update(last_outcome_at=ClockTimestamp())
            Redrive.objects.filter(pk=redrive.pk, state=Redrive.State.STALLED).update(
                state=Redrive.State.RUNNING, state_reason=""
            )


@guarded()
def keep_outcomes(redrive: Redrive) -> None:
    """Keep how many items have each outcome, for whoever looks at a large redrive."""
    Redrive.objects.filter(pk=redrive.pk).update(outcomes=dict(count_outcomes(redrive)))


def count_outcomes(redrive: Redrive) -> Counter[str]:
    """How many items have each outcome."""
    rows = redrive.items.values_list("outcome").annotate(number=Count("id")).order_by()
    return Counter(dict(rows))
