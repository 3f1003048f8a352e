"""When an owner must hear of a queue. Pure: a snapshot in, findings out."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext


@dataclass(frozen=True, slots=True)
class TroubledRedrive:
    """A redrive that needs a person: stopped, held or stalled, and why, in words."""

    number: int
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """What rules look at: `depth` open letters, the `levels` at which the depth alert escalates, the top cause."""

    name: str
    depth: int
    levels: tuple[int, ...] = ()
    top_cause: str = ""
    top_cause_letters: int = 0
    redrives: tuple[TroubledRedrive, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, in a sentence. `step`: how many levels are passed; a higher one escalates. `subject`: what inside
    the queue it is about, if a rule can find several things."""

    rule: str
    sentence: str
    value: float
    step: int
    critical: bool
    subject: str = ""


def depth(snapshot: QueueSnapshot) -> Iterator[Finding]:
    """Any dead letter alerts: there is no normal depth but zero. Above the queue's last level it is critical."""
    if snapshot.depth == 0:
        return
    step = sum(snapshot.depth > level for level in snapshot.levels)
    letters = ngettext(
        "%(count)d dead letter in %(queue)s", "%(count)d dead letters in %(queue)s", snapshot.depth
    )
    sentence = letters % {"count": snapshot.depth, "queue": snapshot.name}
    if snapshot.top_cause:
        sentence += _share(snapshot)
    yield Finding("depth", sentence, snapshot.depth, step, critical=0 < len(snapshot.levels) == step)


def redrive_in_trouble(snapshot: QueueSnapshot) -> Iterator[Finding]:
    """A redrive that stopped says that a fix did not hold: critical. One that is held or stalled waits for a person."""
    sentences = {
        "stopped": _("Redrive %(number)d in %(queue)s stopped: %(reason)s"),
        "held": _("Redrive %(number)d in %(queue)s is held: %(reason)s"),
        "stalled": _("Redrive %(number)d in %(queue)s is stalled: %(reason)s"),
    }
    for redrive in snapshot.redrives:
        values = {"number": redrive.number, "queue": snapshot.name, "reason": redrive.reason}
        stopped = redrive.state == "stopped"
        sentence = sentences[redrive.state] % values
        yield Finding("redrive", sentence, 1, int(stopped), critical=stopped, subject=str(redrive.number))


def _share(snapshot: QueueSnapshot) -> str:
    """How much of it is the top cause, and which that is."""
    values = {"number": snapshot.top_cause_letters, "cause": snapshot.top_cause}
    if snapshot.depth == 1:
        return _(": %(cause)s") % values
    if snapshot.depth == snapshot.top_cause_letters:
        return _(", all of one cause: %(cause)s") % values
    if snapshot.top_cause_letters == 1:
        return _(", each of another cause, such as: %(cause)s") % values
    return _(", %(number)d of them of one cause: %(cause)s") % values


RULES = (depth, redrive_in_trouble)


def findings(snapshot: QueueSnapshot) -> list[Finding]:
    """What every rule finds in a snapshot."""
    return [finding for rule in RULES for finding in rule(snapshot)]
