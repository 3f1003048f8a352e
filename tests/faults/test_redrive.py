"""`make faults`: every process of a redrive is killed at random moments. At the end each item has one outcome, every
message has run once in its second life, and the books balance.

FAULT_ROUNDS (20) is the number of kills; FAULT_SEED repeats their order.
"""

import os
import random
import time
from pathlib import Path

import pytest

from tests.acceptance.processes import wait_for
from tests.faults.consumers import ConsumerNodes
from tests.faults.nodes import SEED, Node, prepared, say

ROUNDS = int(os.environ.get("FAULT_ROUNDS") or 20)
LETTERS = 4_000
DONE = 240.0  # seconds, after the last kill

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(ROUNDS * 20 + 600)]

OPEN = "SELECT count(*) FROM dlqadmin_deadletter WHERE state = 'open'"
STATE = "SELECT state FROM dlqadmin_redrive"
OUTCOMES = "SELECT outcome, count(*) FROM dlqadmin_redriveitem GROUP BY outcome"
EFFECTS = "SELECT count(*), count(DISTINCT n) FROM fault_redriven"


class RedriveNodes(ConsumerNodes):
    """Workers and beat, with a handler that fails in the first life of a message."""

    handlers = "tests.faults.redrive_handlers"
    tables = "CREATE TABLE fault_redriven (n bigint)"


def test_a_redrive_survives_the_kill_of_any_process_at_any_moment(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with prepared(RedriveNodes, tmp_path) as nodes:
        say(f"FAULT_SEED={SEED}, {ROUNDS} kills, logs in {nodes.logs}")
        for service in ("consumers", "consumers", "system"):
            nodes.worker(service)
        nodes.beat()
        nodes.call("-m", "tests.faults.redrive_begin", "publish", str(LETTERS))
        wait_for(lambda: nodes.one(OPEN) == LETTERS, f"{LETTERS} letters", 240)
        nodes.call("-m", "tests.faults.redrive_begin", "start")
        kills = 0
        while kills < ROUNDS and nodes.one(STATE) != "done":
            time.sleep(chance.uniform(0.2, 2.5))
            kill_one(nodes, chance.choice(nodes.all))
            kills += 1
        say(f"{kills} kills, the redrive is {nodes.one(STATE)}: {dict(nodes.rows(OUTCOMES))}")
        wait_for(lambda: nodes.one(STATE) == "done", "the redrive to be done", DONE)
        assert dict(nodes.rows(OUTCOMES)) == {"succeeded": LETTERS}
        assert nodes.rows(EFFECTS) == [(LETTERS, LETTERS)]
        assert nodes.one("SELECT count(*) FROM dlqadmin_message") == 0
        assert "balances" in nodes.call("manage.py", "books", "--check")
        assert kills == ROUNDS, "the redrive was over too soon: it was not harmed enough"


def kill_one(nodes: RedriveNodes, node: Node) -> None:
    """kill -9 of a process with its children, in the middle of whatever; another one of its kind is started."""
    nodes.kill(node)
    say(f"killed {node.kind} {node.process.pid}: {dict(nodes.rows(OUTCOMES))}")
    if node.kind == "beat":
        nodes.beat()
    else:
        nodes.worker(node.kind)
