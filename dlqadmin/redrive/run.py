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
from dlqadmin.messages.wakeups import wake
from dlqadmin.redrive.diagnose import refute
from dlqadmin.redrive.facts import gate_facts
from dlqadmin.redrive.figures import read_figures, why_silent
from dlqadmin.redrive.gate import judge, unmet_of
from dlqadmin.redrive.models import Redrive, RedriveItem
from dlqadmin.redrive.pace import Act, Decision, Figures, Why, decide, refutes

BATCH = 2_000
TURN_SECONDS = 5.0

# What is worked on: also what was ended with letters still on their way.
LIVE = (Redrive.State.RUNNING, Redrive.State.STALLED)

# Send and mark are one statement: a message exists exactly if its item says so. The message keeps id, key, version,
# lineage and position; its attempts start at 0. Items were made in publish order and are taken so: a key keeps its
# order. They are read as they were before this statement waited for the redrive's row: `sent_back_at` tells what was
# sent meanwhile. Rows are found by arrays of ids and by nothing else (`|| ''`, `+ 0`): statistics of before a redrive
# say that hardly a letter is being redriven, so a planner would read all of them for each batch.
_SEND = """
WITH live AS (
    SELECT id, queue_id FROM dlqadmin_redrive
    WHERE id = %(redrive)s AND state IN ('running', 'stalled') FOR UPDATE
), batch AS (
    SELECT item.id, item.letter_id FROM dlqadmin_redriveitem AS item JOIN live ON live.id = item.redrive_id
    WHERE item.redrive_id = %(redrive)s AND item.outcome = 'pending' AND {which} ORDER BY item.id LIMIT {most}
), marked AS (
    UPDATE dlqadmin_deadletter AS letter SET sent_back_at = clock_timestamp()
    WHERE letter.id = ANY(ARRAY(SELECT letter_id FROM batch)) AND letter.state || '' = 'redriving'
        AND letter.sent_back_at IS NULL RETURNING letter.*
), sent AS (
    INSERT INTO dlqadmin_message (position, queue_id, message_id, key, version, type, body, content_type,
        content_encoding, headers, lineage, by_key, generation, attempts, lost, suspect, available_at, published_at,
        letter_id)
    SELECT position, queue_id, message_id, marked.key, version, type, body, content_type, content_encoding,
        headers, lineage, queue.ordered AND marked.key IS NOT NULL, generation, 0, 0, false, clock_timestamp(),
        coalesce(sent_at, clock_timestamp()), marked.id
    FROM marked JOIN dlqadmin_sourcequeue AS queue ON queue.id = marked.queue_id
    ORDER BY position RETURNING queue_id, key, by_key, letter_id
), announced AS (
    INSERT INTO dlqadmin_keyarrival (queue_id, key) SELECT DISTINCT queue_id, key FROM sent WHERE by_key
)
UPDATE dlqadmin_redriveitem AS item SET outcome = 'sent', sent_at = clock_timestamp()
WHERE item.id = ANY(ARRAY(SELECT id FROM batch)) AND item.letter_id + 0 = ANY(ARRAY(SELECT letter_id FROM sent))
"""

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
    WHERE redrive_id = %(redrive)s AND outcome = 'pending' RETURNING letter_id
), letters AS (
    UPDATE dlqadmin_deadletter AS letter SET state = 'open', state_changed_at = clock_timestamp()
    FROM items WHERE letter.id = items.letter_id AND letter.state = 'redriving' AND letter.sent_back_at IS NULL
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
    redrives = Redrive.objects.select_related("queue", "diagnosis").order_by("id")
    for redrive in redrives.filter(state__in=LIVE):
        advance(redrive)
    for redrive in redrives.filter(state=Redrive.State.HELD):
        look_at_held(redrive)
    ended = redrives.exclude(state__in=(*LIVE, Redrive.State.HELD))
    for redrive in ended.filter(items__outcome=RedriveItem.Outcome.SENT).distinct():
        _collect(redrive)


def advance(redrive: Redrive, seconds: float = TURN_SECONDS) -> None:
    """Take a redrive as far as it goes within about so long."""
    end = time.monotonic() + seconds
    _collect(redrive)
    figures = read_figures(redrive)
    decision = decide(figures)
    while decision.act in (Act.SEND, Act.RELEASE) and time.monotonic() < end:
        if decision.act is Act.SEND:
            sent = _send_batch(redrive, decision.most, figures.pending_canary > 0)
            figures = _after(figures, sent) if sent else read_figures(redrive)
            if not sent:
                break
        elif not _release(redrive):
            break
        else:
            figures = read_figures(redrive)
        decision = decide(figures)
    _conclude(redrive, decision, figures)
    with guarded():
        Redrive.objects.filter(pk=redrive.pk).update(outcomes=dict(count_outcomes(redrive)))


def look_at_held(redrive: Redrive) -> None:
    """What was held because its canary failed once ends when that dies, and goes on when it succeeds after all."""
    _collect(redrive)
    figures = read_figures(redrive)
    decision = decide(figures)
    if decision.act in (Act.STOP, Act.FINISH):
        _conclude(redrive, decision, figures)
    elif redrive.state_reason == HELD_BECAUSE and not figures.canary_open:
        _set_state(redrive, Redrive.State.RUNNING, "")


def send_pending(redrive: Redrive, seconds: float = TURN_SECONDS) -> int:
    """Send letters of a redrive back to their queue for about so long, as far as its pace allows; the number sent.

    A batch is a transaction. What is left is sent in the next turn.
    """
    total, end, figures = 0, time.monotonic() + seconds, read_figures(redrive)
    while time.monotonic() < end:
        decision = decide(figures)
        if decision.act is not Act.SEND:
            break
        sent = _send_batch(redrive, decision.most, figures.pending_canary > 0)
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


def _send_batch(redrive: Redrive, most: int, canary: bool) -> int:
    # The number stands in the text: the plan depends on it.
    statement = _SEND.format(which="item.is_canary" if canary else "true", most=int(min(most, BATCH)))
    with guarded(), connection.cursor() as cursor:
        cursor.execute(statement, {"redrive": redrive.pk})
        sent = cursor.rowcount
        if sent:
            wake(redrive.queue_id)
    return sent


@guarded()
def _release(redrive: Redrive) -> bool:
    """The canary has succeeded: ask the gate again, and let the rest go; whether it may."""
    if redrive.cluster and not redrive.override_reason:
        # What is being redriven is not open any more: how many there are was judged at the start.
        facts = replace(gate_facts(redrive.cluster), approval_above=None)
        if unmet := unmet_of(judge(facts)):
            _set_state(redrive, Redrive.State.HELD, f"{GATE_CLOSED} {unmet[0].text}")
            return False
    changed = Redrive.objects.filter(pk=redrive.pk, rest_from=None, state__in=LIVE)
    return changed.update(rest_from=ClockTimestamp()) == 1


@guarded()
def _stop(redrive: Redrive, decision: Decision, figures: Figures) -> None:
    """Letters died again: what was not sent is open again, and the diagnosis is refuted."""
    reason = STOPPED_BECAUSE[decision.why or Why.SHARE_DIED]
    if _set_state(redrive, Redrive.State.STOPPED, reason):
        let_go(redrive, gettext_noop("the redrive stopped"))
        _refute(redrive, figures.died)


@guarded()
def _finish(redrive: Redrive, figures: Figures) -> None:
    refuted = refutes(figures.died, figures.settled, figures.stop_percent)
    if _set_state(redrive, Redrive.State.DONE, DIED_AGAIN if figures.died else "") and refuted:
        _refute(redrive, figures.died)


def _refute(redrive: Redrive, died: int) -> None:
    if redrive.diagnosis:
        refute(redrive.diagnosis, f"{died} of the letters of redrive {redrive.pk} died again")


def let_go(redrive: Redrive, why: str) -> None:
    """Open the letters that were not sent. Inside the transaction that ends the redrive."""
    with connection.cursor() as cursor:
        cursor.execute(_LET_GO, {"redrive": redrive.pk, "why": why})


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


def count_outcomes(redrive: Redrive) -> Counter[str]:
    """How many items have each outcome."""
    rows = redrive.items.values_list("outcome").annotate(number=Count("id")).order_by()
    return Counter(dict(rows))
