"""The gate: may a redrive start? Pure: facts in, conditions in words out. Nothing goes round it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

# A transient cause may still show now and then after it passed; more deaths an hour than this refute the fix.
TRANSIENT_DEATHS_PER_HOUR = 5.0


class Rule(StrEnum):
    """The conditions, by name."""

    DIAGNOSED = "diagnosed"
    FIX_DECLARED = "fix declared"
    FIX_HOLDS = "fix holds"
    DID_NOT_COME_BACK = "did not come back"
    APPROVED = "approved"


@dataclass(frozen=True, slots=True)
class DiagnosisFacts:
    """The newest diagnosis of the cluster, as far as the gate asks."""

    version: int
    transient: bool
    signed_name: str
    fix: str
    fix_effective_at: datetime | None
    refuted_why: str | None  # None: not refuted


@dataclass(frozen=True, slots=True)
class GateFacts:
    """All that the gate judges by.

    `letters`: of this cluster, in the set that is asked about; `set_letters`: of the whole set, if that holds those of
    other clusters too. `started_after_fix`: letters whose last attempt STARTED after the fix took effect; unknown times
    and lost workers never count. `approval_above`: letters of a set above which a second person must approve each of
    its diagnoses; `approved_for`: of this cluster, so many are approved.
    """

    diagnosis: DiagnosisFacts | None
    letters: int
    started_after_fix: int
    now: datetime
    came_back_redrive: int | None = None
    approval_above: int | None = None
    approved_for: int | None = None
    set_letters: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: met or not, said as what is the case, with a detail."""

    rule: Rule
    met: bool
    text: str
    detail: str = ""


def judge(facts: GateFacts) -> list[Condition]:
    """Every condition that applies, met or unmet, in the order in which a person would meet them."""
    conditions = [_diagnosed(facts), _fix_declared(facts), _fix_holds(facts), _did_not_come_back(facts)]
    if facts.approval_above is not None and max(facts.letters, facts.set_letters) > facts.approval_above:
        conditions.append(_approved(facts, facts.approval_above))
    return [condition for condition in conditions if condition is not None]


def unmet_of(conditions: Iterable[Condition]) -> list[Condition]:
    """The conditions that are not met."""
    return [condition for condition in conditions if not condition.met]


def is_open(conditions: Iterable[Condition]) -> bool:
    """Whether every condition is met."""
    return not unmet_of(conditions)


def _diagnosed(facts: GateFacts) -> Condition:
    if facts.diagnosis is None:
        return Condition(
            Rule.DIAGNOSED, False, _("Nobody has diagnosed it"), _("Say below what makes these letters die.")
        )
    return Condition(Rule.DIAGNOSED, True, _("A diagnosis is signed"), facts.diagnosis.signed_name)


def _fix_declared(facts: GateFacts) -> Condition:
    if facts.diagnosis is None or not facts.diagnosis.fix or facts.diagnosis.fix_effective_at is None:
        return Condition(
            Rule.FIX_DECLARED,
            False,
            _("No fix is declared"),
            _("Say what was fixed, and when it took effect."),
        )
    return Condition(Rule.FIX_DECLARED, True, _("A fix is declared"), facts.diagnosis.fix)


def _fix_holds(facts: GateFacts) -> Condition | None:
    """Refuted by letters that were tried after the fix; a transient cause only above a rate."""
    diagnosis = facts.diagnosis
    if diagnosis is None or not diagnosis.fix or diagnosis.fix_effective_at is None:
        return None
    if diagnosis.refuted_why is not None:
        return Condition(
            Rule.FIX_HOLDS, False, _("The fix did not hold"), diagnosis.refuted_why or _("It was refuted.")
        )
    count = facts.started_after_fix
    if count == 0:
        return Condition(Rule.FIX_HOLDS, True, _("No letter died after the fix"))
    hours = max((facts.now - diagnosis.fix_effective_at).total_seconds() / 3600, 1.0)
    if diagnosis.transient and count / hours <= TRANSIENT_DEATHS_PER_HOUR:
        return Condition(
            Rule.FIX_HOLDS, True, _("Few letters died since"), _("%d, as a passed outage may leave") % count
        )
    text = ngettext("%d letter died after the fix", "%d letters died after the fix", count) % count
    return Condition(Rule.FIX_HOLDS, False, text, _("The cause is not gone. Sign a new diagnosis."))


def _did_not_come_back(facts: GateFacts) -> Condition | None:
    if facts.diagnosis is None:
        return None
    if facts.came_back_redrive is None:
        return Condition(Rule.DID_NOT_COME_BACK, True, _("No redrive on this diagnosis came back"))
    return Condition(
        Rule.DID_NOT_COME_BACK,
        False,
        _("Redrive %d on this diagnosis came back") % facts.came_back_redrive,
        _("What was tried did not help. Sign a new diagnosis."),
    )


def _approved(facts: GateFacts, limit: int) -> Condition:
    detail = _("Needed above %d letters.") % limit
    if facts.approved_for is not None and facts.letters <= facts.approved_for:
        return Condition(Rule.APPROVED, True, _("A second person has approved"), detail)
    return Condition(Rule.APPROVED, False, _("No second person has approved"), detail)
