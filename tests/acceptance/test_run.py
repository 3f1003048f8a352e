"""`make run` stopped in the middle of its work, and started again."""

from pathlib import Path

import psycopg
import pytest

from dlqadmin import embedded
from tests.acceptance.processes import running_dlqadmin, wait_for

pytestmark = pytest.mark.acceptance

MESSAGES = 20_000
# One statement: the consumers have seconds of work when it commits, and this process has nothing to do but look.
PUBLISH = f"""
SELECT count(dlqadmin_publish('late-notices', 'late_notice', convert_to(body, 'UTF8')))
FROM generate_series(1, {MESSAGES}) AS n, format('{{"loanId": %s}}', 20 * n + 1) AS body
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
        assert ask(home, PUBLISH) == MESSAGES
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
