"""When an owner must hear of a queue."""

import pytest

from dlqadmin.alerts.rules import QueueSnapshot, TroubledRedrive, depth, findings


def test_an_empty_queue_is_no_finding() -> None:
    assert findings(QueueSnapshot("q", 0)) == []


def test_any_dead_letter_is_a_finding() -> None:
    (found,) = depth(QueueSnapshot("late-notices", 1))
    assert (found.sentence, found.step, found.critical) == ("1 dead letter in late-notices", 0, False)


@pytest.mark.parametrize(
    ("letters", "step", "critical"), [(1, 0, False), (5, 0, False), (6, 1, False), (21, 2, True)]
)
def test_levels_are_steps_and_the_last_is_critical(letters, step, critical) -> None:
    (found,) = depth(QueueSnapshot("q", letters, levels=(5, 20)))
    assert (found.step, found.critical) == (step, critical)


@pytest.mark.parametrize(
    ("letters", "top", "sentence"),
    [
        (1, 1, "1 dead letter in q: boom"),
        (3, 3, "3 dead letters in q, all of one cause: boom"),
        (3, 2, "3 dead letters in q, 2 of them of one cause: boom"),
        (3, 1, "3 dead letters in q, each of another cause, such as: boom"),
    ],
)
def test_the_sentence_names_the_top_cause(letters, top, sentence) -> None:
    (found,) = depth(QueueSnapshot("q", letters, top_cause="boom", top_cause_letters=top))
    assert found.sentence == sentence


@pytest.mark.parametrize(
    ("state", "sentence", "critical"),
    [
        ("stopped", "Redrive 5 in q stopped: the cause is there", True),
        ("held", "Redrive 5 in q is held: the cause is there", False),
        ("stalled", "Redrive 5 in q is stalled: the cause is there", False),
    ],
)
def test_each_redrive_that_needs_a_person_is_a_finding_of_its_own(state, sentence, critical) -> None:
    troubled = (TroubledRedrive(5, state, "the cause is there"), TroubledRedrive(6, state, "x"))
    found = findings(QueueSnapshot("q", 0, redrives=troubled))
    assert [(one.rule, one.subject) for one in found] == [("redrive", "5"), ("redrive", "6")]
    assert (found[0].sentence, found[0].critical) == (sentence, critical)
