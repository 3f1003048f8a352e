"""When an owner must hear of a queue. Pure: a snapshot in, findings out."""

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """What rules look at: `depth` open letters, the `levels` at which the depth alert escalates, the top cause."""

    name: str
    depth: int
    levels: tuple[int, ...] = ()
    top_cause: str = ""
    top_cause_letters: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, in a sentence. `step`: how many levels are passed; a higher one escalates."""

    rule: str
    sentence: str
    value: float
    step: int
    critical: bool


def depth(snapshot: QueueSnapshot) -> Finding | None:
    """Any dead letter alerts: there is no normal depth but zero. Above the queue's last level it is critical."""
    if snapshot.depth == 0:
        return None
    step = sum(snapshot.depth > level for level in snapshot.levels)
    letters = ngettext(
        "%(count)d dead letter in %(queue)s", "%(count)d dead letters in %(queue)s", snapshot.depth
    )
    sentence = letters % {"count": snapshot.depth, "queue": snapshot.name}
    if snapshot.top_cause:
        sentence += _share(snapshot)
    return Finding("depth", sentence, snapshot.depth, step, critical=0 < len(snapshot.levels) == step)


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


RULES = (depth,)


def findings(snapshot: QueueSnapshot) -> list[Finding]:
    """What every rule finds in a snapshot."""
    return [finding for rule in RULES if (finding := rule(snapshot))]
