"""How the console writes things: ages, error templates, icons, and states as shape, word and tone."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from django.template import Library
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dlqadmin.alerts.models import Alert
from dlqadmin.clusters.masking import KINDS
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.redrive.models import Redrive, RedriveItem
from dlqadmin.redrive.stages import Stage
from dlqadmin.web.body import bytes_text, visible

register = Library()

NBSP = "\u00a0"
SKEW = timedelta(seconds=5)  # the clocks of two machines may differ by that much without a word

# The kinds of masked values. They are matched after escaping.
_MASK = re.compile(rf"&lt;({'|'.join(sorted(KINDS))})&gt;")

Look = tuple[str, str, Any]  # tone, glyph, word

STAGES: dict[str, Look] = {
    Stage.NEW: ("warning", "new", gettext_lazy("New")),
    Stage.DIAGNOSED: ("motion", "half", gettext_lazy("Diagnosed")),
    Stage.FIX_DECLARED: ("motion", "most", gettext_lazy("Fix declared")),
    Stage.CAME_BACK: ("critical", "back", gettext_lazy("Came back")),
    Stage.MUTED: ("quiet", "snoozed", gettext_lazy("Muted")),
    Stage.CLOSED: ("quiet", "ok", gettext_lazy("Closed")),
}
LETTER_STATES: dict[str, Look] = {
    DeadLetter.State.OPEN: ("warning", "new", gettext_lazy("Open")),
    DeadLetter.State.REDRIVING: ("motion", "running", gettext_lazy("Being redriven")),
    DeadLetter.State.RESOLVED: ("ok", "ok", gettext_lazy("Resolved")),
    DeadLetter.State.RETURNED: ("critical", "back", gettext_lazy("Died again")),
    DeadLetter.State.DISCARDED: ("quiet", "muted", gettext_lazy("Discarded")),
}
REDRIVE_STATES: dict[str, Look] = {
    Redrive.State.PLANNED: ("quiet", "quiet", gettext_lazy("Planned")),
    Redrive.State.RUNNING: ("motion", "running", gettext_lazy("Running")),
    Redrive.State.PAUSED: ("motion", "snoozed", gettext_lazy("Paused")),
    Redrive.State.HELD: ("warning", "warning", gettext_lazy("Held")),
    Redrive.State.STALLED: ("warning", "warning", gettext_lazy("Stalled")),
    Redrive.State.STOPPED: ("critical", "unmet", gettext_lazy("Stopped")),
    Redrive.State.CANCELLED: ("quiet", "muted", gettext_lazy("Cancelled")),
    Redrive.State.DONE: ("ok", "ok", gettext_lazy("Done")),
}
OUTCOMES: dict[str, Look] = {
    RedriveItem.Outcome.PENDING: ("quiet", "quiet", gettext_lazy("Not sent yet")),
    RedriveItem.Outcome.SENT: ("motion", "running", gettext_lazy("Sent, outcome awaited")),
    RedriveItem.Outcome.SUCCEEDED: ("ok", "ok", gettext_lazy("Succeeded")),
    RedriveItem.Outcome.DIED_AGAIN: ("critical", "critical", gettext_lazy("Died again")),
    RedriveItem.Outcome.DISCARDED: ("quiet", "muted", gettext_lazy("Discarded")),
    RedriveItem.Outcome.SKIPPED: ("quiet", "muted", gettext_lazy("Skipped")),
    RedriveItem.Outcome.FAILED: ("critical", "unmet", gettext_lazy("Failed to send")),
}
SEVERITIES = {
    Alert.Severity.CRITICAL: gettext_lazy("Critical"),
    Alert.Severity.WARNING: gettext_lazy("Warning"),
}


# --- Text from outside ---------------------------------------------------------------------------------------------


@register.filter
def masked(template: str | None) -> SafeString:
    """An error template with its masked values in <var>. Everything else in it is escaped first."""
    return mark_safe(_MASK.sub(r"<var>\1</var>", escape(visible(template or ""))))  # noqa: S308


@register.filter
def plain(text: object) -> str:
    """Text from outside with control and direction characters made visible; the template escapes it."""
    return visible(str(text))


@register.filter
def as_text(value: bytes | None) -> str:
    """Bytes from outside as text; see `bytes_text`."""
    return "" if value is None else bytes_text(value)


@register.filter
def has_kind(value: dict[str, Any], kind: str) -> Any:
    """`value[kind]`, for keys that are no names."""
    return value.get(kind)


# --- Time and numbers ----------------------------------------------------------------------------------------------


@register.simple_tag
def age(moment: datetime | None, ago: bool = False) -> SafeString | str:
    """How long ago `moment` was, as a <time> with the exact moment beside it; "none" if there is no moment.

    With `ago` the text says so: "3 h 10 min ago".
    """
    if not moment:  # a template hands over "" for what its context lacks
        return _("none")
    passed = timezone.now() - moment
    text = duration(passed)
    if ago and passed >= -SKEW:
        text = _("%(age)s ago") % {"age": text}
    return _time(moment, text)


@register.simple_tag
def utc(moment: datetime | None) -> SafeString | str:
    """The exact moment as text, in UTC: where it is evidence."""
    return _("unknown") if not moment else _time(moment, _exact(moment))


@register.simple_tag
def lasted(start: datetime, end: datetime) -> str:
    """The time between two moments."""
    return duration(end - start)


@register.simple_tag
def milliseconds(start: datetime, end: datetime) -> str:
    """The time between two moments, exact enough for a handler's run."""
    passed = (end - start).total_seconds() * 1000
    return f"{number_format(round(passed), force_grouping=True)}{NBSP}ms"


def duration(passed: timedelta) -> str:
    """A time span in its one or two largest units, never negative: "2 min", "3 h 10 min", "9 d"."""
    if passed < -SKEW:
        return _("clock skew")
    minutes = max(int(passed.total_seconds()) // 60, 0)
    hours, days = minutes // 60, minutes // 1440
    if minutes < 1:
        return _("under 1 min").replace(" ", NBSP)
    if hours < 1:
        text = _("%(minutes)d min") % {"minutes": minutes}
    elif days < 1:
        text = _("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes % 60}
    else:
        text = _("%(days)s d") % {"days": number_format(days, force_grouping=True)}
    return text.replace(" ", NBSP)


@register.filter
def percent(share: float) -> str:
    """A share from 0 to 100: whole, or with one digit below ten; what is not all or nothing is never shown as such."""
    if 0 < share < 0.1:
        return f"<{NBSP}{number_format(0.1)}{NBSP}%"
    if 99 < share < 100:
        return f"{number_format(min(round(share, 1), 99.9))}{NBSP}%"
    rounded = round(share, 1) if share < 10 else round(share)
    return f"{number_format(int(rounded) if rounded == int(rounded) else rounded)}{NBSP}%"


@register.filter
def svg(length: float) -> str:
    """A length for an SVG attribute: two digits, a dot, in every language."""
    return f"{length:.2f}"


def _exact(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _time(moment: datetime, text: str) -> SafeString:
    stamp = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return format_html('<time datetime="{}" title="{}">{}</time>', stamp, _exact(moment), text)


# --- Icons and states ----------------------------------------------------------------------------------------------


@register.simple_tag
def icon(name: str) -> SafeString:
    """A stroke icon, for actions. The word stands beside it."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="#{}"/></svg>', name)


@register.simple_tag
def glyph(name: str) -> SafeString:
    """A filled shape, for states."""
    return format_html('<svg class="glyph" aria-hidden="true"><use href="#{}"/></svg>', name)


@register.simple_tag
def state(tone: str, shape: str, word: object, chip: bool = False, quiet_word: bool = False) -> SafeString:
    """A state: shape, word and tone. `quiet_word`: the word is for screen readers only, the shape stands in a list."""
    return format_html(
        '<span class="{}" data-tone="{}">{}{}</span>',
        "state state-chip" if chip else "state",
        tone,
        glyph(shape),
        format_html('<span class="vh">{}</span>', word) if quiet_word else word,
    )


@register.simple_tag
def stage_state(stage: str, chip: bool = False) -> SafeString:
    """The stage of a cluster."""
    return state(*STAGES[stage], chip=chip)


@register.simple_tag
def letter_state(letter: DeadLetter, chip: bool = False) -> SafeString:
    """The state of a letter; a resolved one says how."""
    tone, shape, word = LETTER_STATES[letter.state]
    if letter.state == DeadLetter.State.RESOLVED and letter.resolution:
        word = f"{word}: {_(letter.resolution)}"
    return state(tone, shape, word, chip=chip)


@register.simple_tag
def redrive_state(redrive: Redrive, died: int = 0, chip: bool = False) -> SafeString:
    """The state of a redrive; one that is done although letters died again is not fine."""
    if redrive.state == Redrive.State.DONE and died:
        return state("critical", "back", _("Done, letters died again"), chip=chip)
    return state(*REDRIVE_STATES[redrive.state], chip=chip)


@register.simple_tag
def outcome_state(outcome: str) -> SafeString:
    """The outcome of one letter of a redrive."""
    return state(*OUTCOMES[outcome])


@register.simple_tag
def severity_state(
    severity: str, alert_state: str, word: object = "", quiet_word: bool = False
) -> SafeString:
    """The severity of an alert: filled while it fires, hollow once somebody cares for it, a clock while it sleeps."""
    said = word or SEVERITIES[Alert.Severity(severity)]
    if alert_state == Alert.State.FIRING:
        return state(severity, severity, said, quiet_word=quiet_word)
    shape = {Alert.State.ACKNOWLEDGED: "critical-seen", Alert.State.SNOOZED: "snoozed"}.get(
        Alert.State(alert_state), "ok"
    )
    return state("quiet", shape, said, quiet_word=quiet_word)


@register.simple_tag
def alert_state(alert_state: str, severity: str) -> SafeString:
    """The state of an alert, in a word."""
    words = {
        Alert.State.FIRING: _("Firing"),
        Alert.State.ACKNOWLEDGED: _("Acknowledged"),
        Alert.State.SNOOZED: _("Snoozed"),
        Alert.State.CLOSED: _("Closed"),
    }
    return severity_state(severity, alert_state, words[Alert.State(alert_state)])
