"""The published figures come out of the real code paths."""

import pytest
from django.core.management import CommandError, call_command

from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.models import Discard, KeyVersion, Message
from dlqadmin.people.models import AuditEntry
from dlqadmin.queues.models import Account, AccountDelta, SourceQueue
from dlqadmin.reproduce.order import disturb, event_log
from dlqadmin.reproduce.table import Table


@pytest.mark.parametrize("name", ["thresholds", "redrive", "choice", "leader", "order"])
@pytest.mark.django_db(transaction=True)
def test_the_tables_are_as_published_and_nothing_is_left_behind(name, capsys) -> None:
    call_command("reproduce", name)
    assert "differ" not in capsys.readouterr().out
    for model in (SourceQueue, DeadLetter, AuditEntry, Account, AccountDelta, Message, KeyVersion, Discard):
        assert not model.objects.exists()


def test_a_difference_is_shown_and_fails(db, monkeypatch, capsys) -> None:
    table = Table("t", ("a", "b"), published=[(1, 2), (3, 4)], measured=[(1, 5)])
    monkeypatch.setattr("dlqadmin.management.commands.reproduce.REPRODUCTIONS", {"t": lambda: [table]})
    with pytest.raises(CommandError, match="3 cells differ"):
        call_command("reproduce")
    assert "5 (published 2)" in capsys.readouterr().out


def test_a_column_that_is_not_compared_shows_both_figures_and_is_no_difference() -> None:
    table = Table("t", ("a", "b"), published=[(1, 2), (3, 4)], measured=[(1, 5), (3, 4)], not_compared=("b",))
    assert table.differences == 0
    assert [line.split(maxsplit=1)[1] for line in table.lines()[2:]] == ["5 (published 2)", "4 (published 4)"]


def test_rows_that_one_side_lacks_differ_in_all_compared_cells() -> None:
    table = Table("t", ("a", "b", "c"), published=[(1, 2, 3)], measured=[], not_compared=("c",))
    assert table.differences == 2
    assert "missing (published 1)" in table.lines()[2]


def test_disturbing_a_log_loses_no_event_and_repeats_none_that_is_late() -> None:
    log = event_log()
    assert disturb(log, late=0, dup=0) == log
    late = disturb(log, late=0.2, dup=0)
    assert late != log
    assert sorted(event.number for event in late) == [event.number for event in log]
    assert set(disturb(log, late=0.2, dup=0.15)) == set(log)


def test_an_unknown_name_is_refused_with_the_known_ones(db) -> None:
    with pytest.raises(CommandError, match="thresholds"):
        call_command("reproduce", "nonsense")
