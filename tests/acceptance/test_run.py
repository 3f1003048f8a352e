"""`make run` stopped in the middle of its work, and started again."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from dlqadmin import embedded
from tests.acceptance.processes import ROOT, home_environment, running_dlqadmin, wait_for

pytestmark = pytest.mark.acceptance

MESSAGES = 5_000
PUBLISH = f"""
from dlqadmin.messages.publish import Outgoing, publish_many
bodies = [{{"loanId": 20 * n + 1}} for n in range(1, {MESSAGES + 1})]
publish_many("late-notices", [Outgoing(type="late_notice", body=body) for body in bodies])
"""


def ask(home: Path, question: str) -> int:
    """The one number that a query answers with."""
    with psycopg.connect(**embedded.address(home)) as connection:
        row = connection.execute(question).fetchone()
    assert row
    return int(row[0])


def letters(home: Path) -> int:
    """How many there are; more than the demo makes are said at once, not after a wait."""
    found = ask(home, "SELECT count(*) FROM dlqadmin_deadletter")
    assert found <= 10, f"{found} letters: the demo makes 10"
    return found


def test_ctrl_c_in_the_middle_loses_and_repeats_nothing(home: Path) -> None:
    with running_dlqadmin(home):
        wait_for(lambda: letters(home) == 10, "the demo's 10 letters")
        subprocess.run(
            [sys.executable, "manage.py", "shell", "-c", PUBLISH],
            cwd=ROOT,
            env=os.environ | home_environment(home),
            check=True,
        )
        wait_for(lambda: ask(home, "SELECT count(*) FROM demo_notice") > 18 + 20, "some of the messages")
    embedded.ensure_running(home)
    assert ask(home, "SELECT count(*) FROM dlqadmin_claim") == 0, "a consumer was cut off in the middle"
    done = ask(home, "SELECT count(*) FROM demo_notice")
    left = ask(home, "SELECT count(*) FROM dlqadmin_message")
    assert left > 0, "nothing was left: it was not in the middle"
    assert done + left == 18 + MESSAGES
    with running_dlqadmin(home):
        wait_for(lambda: ask(home, "SELECT count(*) FROM dlqadmin_message") == 0, "the rest of the messages")
        assert ask(home, "SELECT count(*) FROM demo_notice") == 18 + MESSAGES
        assert ask(home, "SELECT count(DISTINCT loan_number) FROM demo_notice") == 18 + MESSAGES
        assert ask(home, "SELECT count(*) FROM dlqadmin_deadletter") == 10
        assert ask(home, "SELECT count(*) FROM auth_user WHERE is_superuser") == 1
