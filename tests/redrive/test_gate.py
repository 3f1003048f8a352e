"""The gate: may a redrive start?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from dlqadmin.redrive.gate import DiagnosisFacts, GateFacts, Rule, is_open, judge

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
FIXED = NOW - timedelta(hours=2)
DIAGNOSIS = DiagnosisFacts(
    version=1,
    transient=False,
    signed_name="op",
    fix="members added",
    fix_effective_at=FIXED,
    refuted_why=None,
)
FACTS = GateFacts(diagnosis=DIAGNOSIS, letters=2, started_after_fix=0, now=NOW)


def unmet(facts: GateFacts) -> list[Rule]:
    return [condition.rule for condition in judge(facts) if not condition.met]


def test_a_diagnosis_with_a_fix_that_holds_opens_the_gate() -> None:
    assert is_open(judge(FACTS))


def test_without_a_diagnosis_it_is_closed() -> None:
    assert unmet(replace(FACTS, diagnosis=None)) == [Rule.DIAGNOSED, Rule.FIX_DECLARED]


@pytest.mark.parametrize("fix", [{"fix": ""}, {"fix_effective_at": None}])
def test_without_a_declared_fix_it_is_closed(fix) -> None:
    assert unmet(replace(FACTS, diagnosis=replace(DIAGNOSIS, **fix))) == [Rule.FIX_DECLARED]


def test_one_letter_that_was_tried_after_the_fix_refutes_a_permanent_cause() -> None:
    assert unmet(replace(FACTS, started_after_fix=1)) == [Rule.FIX_HOLDS]


@pytest.mark.parametrize(("deaths", "closed"), [(1, False), (10, False), (11, True)])
def test_a_transient_cause_is_refuted_only_above_five_deaths_an_hour(deaths, closed) -> None:
    facts = replace(FACTS, diagnosis=replace(DIAGNOSIS, transient=True), started_after_fix=deaths)
    assert (unmet(facts) == [Rule.FIX_HOLDS]) is closed


def test_deaths_right_after_the_fix_of_a_transient_cause_are_counted_over_an_hour_at_least() -> None:
    diagnosis = replace(DIAGNOSIS, transient=True, fix_effective_at=NOW - timedelta(seconds=1))
    assert is_open(judge(replace(FACTS, diagnosis=diagnosis, started_after_fix=5)))
    assert not is_open(judge(replace(FACTS, diagnosis=diagnosis, started_after_fix=6)))


def test_a_refuted_diagnosis_stays_refuted() -> None:
    assert unmet(replace(FACTS, diagnosis=replace(DIAGNOSIS, refuted_why="2 died again"))) == [Rule.FIX_HOLDS]


def test_a_redrive_that_came_back_closes_it_until_the_next_diagnosis() -> None:
    assert unmet(replace(FACTS, came_back_redrive=4)) == [Rule.DID_NOT_COME_BACK]


@pytest.mark.parametrize(("letters", "asked"), [(500, False), (501, True)])
def test_a_second_person_is_asked_above_the_queues_limit(letters, asked) -> None:
    facts = replace(FACTS, letters=letters, approval_above=500)
    assert (unmet(facts) == [Rule.APPROVED]) is asked
    assert is_open(judge(replace(facts, approved_for=letters)))


def test_in_a_large_set_of_many_causes_each_diagnosis_is_approved_for_its_own_letters() -> None:
    facts = replace(FACTS, letters=30, set_letters=501, approval_above=500)
    assert unmet(facts) == [Rule.APPROVED]
    assert unmet(replace(facts, approved_for=29)) == [Rule.APPROVED]
    assert is_open(judge(replace(facts, approved_for=30)))


def test_it_is_open_exactly_when_no_condition_is_unmet() -> None:
    diagnoses = [
        None,
        DIAGNOSIS,
        replace(DIAGNOSIS, fix=""),
        replace(DIAGNOSIS, refuted_why="x"),
        replace(DIAGNOSIS, transient=True),
    ]
    for diagnosis, started, back, limit, approved in product(
        diagnoses, (0, 1), (None, 1), (None, 1), (None, 1, 2)
    ):
        facts = GateFacts(diagnosis, 2, started, NOW, back, limit, approved)
        good = (diagnosis is DIAGNOSIS and not started) or (diagnosis is not None and diagnosis.transient)
        good = good and back is None and (limit is None or approved == 2)
        assert is_open(judge(facts)) is good, facts


def test_every_unmet_condition_says_what_is_wrong_and_what_to_do() -> None:
    cases = [
        replace(FACTS, diagnosis=None),
        replace(FACTS, started_after_fix=38),
        replace(FACTS, came_back_redrive=4),
        replace(FACTS, approval_above=1),
    ]
    for facts in cases:
        assert all(condition.text and condition.detail for condition in judge(facts) if not condition.met)
    assert "38 letters died after the fix" in [condition.text for condition in judge(cases[1])]
