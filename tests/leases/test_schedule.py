"""When a job is due."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlqadmin.leases.schedule import Cron, Every

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def after(**time: float) -> datetime:
    return NOON + timedelta(**time)


def test_every_two_seconds_is_due_on_even_seconds_whoever_looks() -> None:
    due = Every(2).due(after(seconds=1.5), after(seconds=6), most=100)
    assert due.moments == [after(seconds=2), after(seconds=4), after(seconds=6)]
    assert (due.earlier, due.earlier_from) == (0, None)


def test_the_start_is_not_included_and_the_end_is() -> None:
    assert Every(2).due(NOON, after(seconds=2), most=9).moments == [after(seconds=2)]


def test_of_many_missed_moments_the_last_are_named_and_the_rest_is_a_range() -> None:
    due = Every(1).due(NOON, after(days=30), most=100)
    assert len(due.moments) == 100
    assert due.moments[-1] == after(days=30)
    assert due.earlier == 30 * 86_400 - 100
    assert (due.earlier_from, due.earlier_to) == (after(seconds=1), due.moments[0] - timedelta(seconds=1))


def test_a_cron_expression_is_due_at_its_minutes_in_utc() -> None:
    due = Cron("30 4 * * *").due(NOON, after(days=2), most=9)
    assert due.moments == [datetime(2026, 12, 1, 4, 30, tzinfo=UTC), datetime(2026, 12, 2, 4, 30, tzinfo=UTC)]


def test_missed_cron_moments_are_a_range_too() -> None:
    due = Cron("0 * * * *").due(NOON, after(hours=10), most=3)
    assert due.moments == [after(hours=8), after(hours=9), after(hours=10)]
    assert (due.earlier, due.earlier_from, due.earlier_to) == (7, after(hours=1), after(hours=7))


def test_a_cron_moment_that_was_just_taken_is_not_due_again() -> None:
    assert Cron("0 * * * *").due(NOON, after(minutes=59), most=9).moments == []
    assert Cron("0 * * * *").following(NOON) == after(hours=1)


def test_a_wrong_cron_expression_is_refused_when_the_job_is_declared() -> None:
    with pytest.raises(Exception, match="Bad"):
        Cron("61 * * * *")


@given(
    seconds=st.sampled_from([0.5, 1, 2, 7, 60, 3600]),
    start=st.integers(0, 10**6),
    steps=st.lists(st.integers(0, 5000), min_size=1, max_size=6),
)
def test_no_moment_is_lost_or_named_twice_however_often_one_looks(seconds, start, steps) -> None:
    """Whatever the times of looking, the parts make the whole."""
    first = now = NOON + timedelta(seconds=start)
    found: list[datetime] = []
    last = first
    for step in steps:
        now += timedelta(seconds=step)
        moments = Every(seconds).due(last, now, most=10**6).moments
        found += moments
        last = moments[-1] if moments else last
    assert found == Every(seconds).due(first, now, most=10**6).moments
