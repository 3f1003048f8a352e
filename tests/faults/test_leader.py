"""`make faults`: three nodes of beat and three workers are frozen, killed and ended, and PostgreSQL restarts.

A job is due every second. At the end each second must have exactly one trigger, and each trigger exactly one effect.
One node of beat and one worker have a clock that is an hour ahead.

FAULT_SECONDS (120) is how long the run lasts at least; FAULT_SEED repeats the random moments of a run.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dlqadmin.leases.scheduler import LEASE_SECONDS
from tests.acceptance.processes import wait_for
from tests.faults.jobs import LIMIT, NAME
from tests.faults.leaders import LeaderNodes
from tests.faults.nodes import SEED, prepared, say

SECONDS = float(os.environ.get("FAULT_SECONDS") or 120)

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(SECONDS + 420)]

TAKE_OVERS = "SELECT token, holder, previous, released, free_since, at FROM dlqadmin_takeover ORDER BY id"
TOKEN = "SELECT token FROM dlqadmin_epoch WHERE name = 'beat'"
UNENDED = """
SELECT job, due_at, state FROM dlqadmin_trigger
WHERE state IN ('due', 'started') AND (job = %s OR due_at < %s) ORDER BY due_at
"""
MOMENTS = """
SELECT trigger.due_at, trigger.state, count(effect.trigger), max(effect.at) - trigger.due_at
FROM dlqadmin_trigger AS trigger LEFT JOIN fault_effect AS effect ON effect.trigger = trigger.id
WHERE trigger.job = %s GROUP BY trigger.id ORDER BY trigger.due_at
"""

# --- What is done to them ---------------------------------------------------------------------------------------------


def freeze(nodes: LeaderNodes) -> None:
    """The leader for longer than its lease, and a worker's child in mid-run for longer than its limit."""
    leader, token = nodes.leader(), nodes.one(TOKEN)
    run = nodes.in_mid_run()
    os.kill(run.pid, signal.SIGSTOP)
    leader.signal(signal.SIGSTOP)
    frozen = time.monotonic()
    say(f"frozen: beat {leader.process.pid}{' (ahead)' if leader.ahead else ''} and worker's child {run.pid}")
    try:
        wait_for(lambda: nodes.one(TOKEN) > token, "another leader", LEASE_SECONDS + 3)
        say(f"  another leads after {time.monotonic() - frozen:.1f} s")
        again = "SELECT run_token > %s FROM dlqadmin_trigger WHERE id = %s"
        wait_for(
            lambda: nodes.one(again, run.token, run.trigger), "the run to be given to another", LIMIT + 10
        )
        say(f"  the run was given to another after {time.monotonic() - frozen:.1f} s")
    finally:
        os.kill(run.pid, signal.SIGCONT)
        leader.signal(signal.SIGCONT)
    fenced = "SELECT count(*) FROM dlqadmin_fencedwrite WHERE what = %s"
    wait_for(lambda: nodes.one(fenced, NAME), "the late run to be fenced out", 10)
    say("  both woke up, and the late run was fenced out")


def kill_leader(nodes: LeaderNodes) -> None:
    """kill -9 of the leader: another one must lead when the lease has run out."""
    leader, token = nodes.leader(), nodes.one(TOKEN)
    killed = nodes.one("SELECT clock_timestamp()")
    nodes.kill(leader)
    nodes.beat(ahead=leader.ahead)
    at = wait_for(lambda: taken_over(nodes, token), "another leader", LEASE_SECONDS + 5)[-1]
    gap = (at - killed).total_seconds()
    say(f"beat {leader.process.pid} killed: another leads after {gap:.2f} s")
    assert gap < LEASE_SECONDS + 1


def end_leader(nodes: LeaderNodes) -> None:
    """SIGTERM to the leader: it hands over."""
    leader, token = nodes.leader(), nodes.one(TOKEN)
    nodes.end(leader)
    *_, released, free_since, at = wait_for(lambda: taken_over(nodes, token), "another leader", 10)
    gap = (at - free_since).total_seconds()
    say(f"beat {leader.process.pid} ended: another leads after {gap:.2f} s")
    assert released
    assert gap < 1
    nodes.beat(ahead=leader.ahead)


def restart_database(nodes: LeaderNodes) -> None:
    """PostgreSQL ends all sessions and comes back."""
    nodes.in_mid_run()
    down = time.monotonic()
    nodes.restart_database()
    say(f"PostgreSQL restarted in {time.monotonic() - down:.1f} s")
    ended = nodes.one("SELECT count(*) FROM fault_effect")
    wait_for(lambda: nodes.one("SELECT count(*) FROM fault_effect") > ended, "the work to go on", 40)
    say(f"  work goes on after {time.monotonic() - down:.1f} s")


def kill_worker(nodes: LeaderNodes) -> None:
    """kill -9 of a worker in mid-run, with its children."""
    run = nodes.in_mid_run()
    worker = nodes.worker_of(run.pid)
    nodes.kill(worker)
    say(f"worker {worker.process.pid} killed in mid-run")
    nodes.worker(ahead=worker.ahead)


STEPS: list[Callable[[LeaderNodes], None]] = [freeze, kill_leader, end_leader, restart_database, kill_worker]


def taken_over(nodes: LeaderNodes, token: int) -> tuple[Any, ...] | None:
    """The take-over after this token: token, holder, previous, released, free_since, at."""
    return next((row for row in nodes.rows(TAKE_OVERS) if row[0] > token), None)


# --- The run ----------------------------------------------------------------------------------------------------------


def test_every_moment_has_its_effect_once_whatever_happens_to_leaders_workers_and_database(
    tmp_path: Path,
) -> None:
    say(f"FAULT_SEED={SEED} FAULT_SECONDS={SECONDS:g}, logs in {tmp_path}")
    chance = random.Random(SEED)
    with prepared(LeaderNodes, tmp_path) as nodes, ExitStack() as judged:
        judged.callback(report, nodes)
        start(nodes)
        harm(nodes, chance)
        assert nodes.died() == []
        close(nodes)
        judge(nodes)


def start(nodes: LeaderNodes) -> None:
    """Beat with the wrong clock leads first, so that the moments begin with it."""
    nodes.beat(ahead=True)
    for number in range(3):
        nodes.worker(ahead=number == 0)
    nodes.leader()
    for _ in range(2):
        nodes.beat()
    wait_for(lambda: nodes.one("SELECT count(DISTINCT node) > 1 FROM fault_effect"), "two workers at work")
    say("three nodes of beat and three workers are at work")


def harm(nodes: LeaderNodes, chance: random.Random) -> None:
    """All steps, spread over the time; at least a few quiet seconds between them."""
    first = time.monotonic()
    for number, step in enumerate(STEPS):
        time.sleep(chance.uniform(1, 3))
        moment = first + number * SECONDS / (len(STEPS) + 1)
        time.sleep(max(moment - time.monotonic(), 0))
        step(nodes)
    time.sleep(max(first + SECONDS - time.monotonic(), 3))


def close(nodes: LeaderNodes) -> None:
    """No new moments of the job; wait until all that was due has ended."""
    for node in [node for node in nodes.all if node.kind == "beat"]:
        nodes.end(node)
    last = nodes.one("SELECT clock_timestamp()")
    say(f"no new moments; {len(nodes.rows(UNENDED, NAME, last))} are still to be run")
    nodes.beat(FAULTS_CLOSING="1")
    wait_for(lambda: not nodes.rows(UNENDED, NAME, last), "all triggers to be ended", 180)
    say("all that was due has ended")


# --- What came of it --------------------------------------------------------------------------------------------------


def report(nodes: LeaderNodes) -> None:
    """The counts, also of a run that failed."""
    moments = nodes.rows(MOMENTS, NAME)
    counts = [count for *_, count, _ in moments]
    print(
        f"\nmoments {len(moments)}, effects {sum(counts)}, doubled {sum(count > 1 for count in counts)}, "
        f"missed {counts.count(0) + len(gaps([due for due, *_ in moments]))}, "
        f"fenced {nodes.one('SELECT count(*) FROM dlqadmin_fencedwrite')}, "
        f"latest {max((late for *_, late in moments if late), default=timedelta()).total_seconds():.1f} s late"
    )
    for token, holder, previous, released, free_since, at in nodes.rows(TAKE_OVERS):
        gap = f"{(at - free_since).total_seconds():.2f} s after it was free" if free_since else "new"
        how = "released" if released else "ran out"
        print(f"  token {token}: {holder}, {gap} ({previous or how})")
    for what, token, current, node in nodes.rows(
        "SELECT what, token, current, node FROM dlqadmin_fencedwrite ORDER BY id"
    ):
        print(f"  fenced: {what} with token {token} on {node}, valid was {current}")


def gaps(moments: list[datetime]) -> list[datetime]:
    """The seconds between the first and the last of these moments that are missing."""
    if not moments:
        return []
    there = set(moments)
    span = int((max(there) - min(there)).total_seconds())
    return [at for second in range(span) if (at := min(there) + timedelta(seconds=second)) not in there]


def judge(nodes: LeaderNodes) -> None:
    """What must be true after whatever happened."""
    moments = nodes.rows(MOMENTS, NAME)
    assert gaps([due for due, *_ in moments]) == [], "moments without a trigger"
    assert [row for row in moments if row[1] != "done"] == [], "triggers that did not end well"
    assert [row for row in moments if row[2] != 1] == [], "triggers without exactly one effect"
    assert nodes.one("SELECT count(*) FROM fault_effect") == len(moments)
    assert nodes.one("SELECT count(*) FROM dlqadmin_fencedwrite") >= 1
    tokens = [token for token, *_ in nodes.rows(TAKE_OVERS)]
    assert tokens == list(range(1, len(tokens) + 1))
    assert len(tokens) >= 4
