"""The published figures come out of the real code paths."""

import pytest
from django.core.management import CommandError, call_command

from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.people.models import AuditEntry
from dlqadmin.queues.models import Account, AccountDelta, SourceQueue
from dlqadmin.reproduce.table import Table


@pytest.mark.parametrize("name", ["thresholds", "redrive", "choice", "leader"])
@pytest.mark.django_db(transaction=True)
def test_the_tables_are_as_published_and_nothing_is_left_behind(name, capsys) -> None:
    call_command("reproduce", name)
    assert "differ" not in capsys.readouterr().out
    for model in (SourceQueue, DeadLetter, AuditEntry, Account, AccountDelta):
        assert not model.objects.exists()


def test_a_difference_is_shown_and_fails(db, monkeypatch, capsys) -> None:
    table = Table("t", ("a", "b"), published=[(1, 2), (3, 4)], measured=[(1, 5)])
    monkeypatch.setattr("dlqadmin.management.commands.reproduce.REPRODUCTIONS", {"t": lambda: [table]})
    with pytest.raises(CommandError, match="3 cells differ"):
        call_command("reproduce")
    assert "5 (published 2)" in capsys.readouterr().out


def test_an_unknown_name_is_refused_with_the_known_ones(db) -> None:
    with pytest.raises(CommandError, match="thresholds"):
        call_command("reproduce", "nonsense")
