"""`make faults`: consumers, PostgreSQL and the broker are killed and frozen while messages are published all the time.

Two workers with two children each consume five queues, one for each promise (see `workload.py`). At the end every
published message is processed or dead, every effect is there as often as its queue promises, and the books balance,
as they did after each harm.

FAULT_ROUNDS (20) is the number of harms; FAULT_SEED repeats their order and the messages; FAULT_RATE (100) is how
many messages are published in a second.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import wait_for
from tests.faults.consumers import RATE, ConsumerNodes, counted, go_on
from tests.faults.nodes import SEED, prepared, say
from tests.faults.workload import ATTEMPTS, MAX_LOST, QUEUES

ROUNDS = int(os.environ.get("FAULT_ROUNDS") or 20)
REDIS_ROUNDS = min(ROUNDS, 9)
STARTED = 180.0  # seconds; a machine may be busy elsewhere
TAKEN_BACK = 60.0  # seconds in which what a frozen worker holds must be given to others
STUCK = 90.0  # seconds in which at least one more message must be processed or dead, once nothing more is published

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(ROUNDS * 25 + 480)]


@dataclass
class Run:
    """One run: its nodes, its random moments, and what was done."""

    nodes: ConsumerNodes
    chance: random.Random
    harms: list[tuple[str, Any]] = field(default_factory=list)  # what, and when it was over (database time)
    crashes: int = 0  # of the database, by kill -9 or in good order


# --- What is done to them ---------------------------------------------------------------------------------------------


def kill_child(run: Run) -> str:
    """kill -9 of a child in the middle of a claim; its worker starts another."""
    seized = run.nodes.seize(run.chance)
    os.kill(seized.pid, signal.SIGKILL)
    return f"killed child {seized.pid} in claim {seized.token}"


def kill_worker(run: Run) -> str:
    """kill -9 of a worker with its children, one of them in the middle of a claim."""
    seized = run.nodes.seize(run.chance)
    run.nodes.kill(seized.node)
    run.nodes.worker("consumers")
    return f"killed worker {seized.node.process.pid} with its children, one in claim {seized.token}"


def kill_all_workers(run: Run) -> str:
    """kill -9 of all workers, also of the one that would sweep up after the others."""
    workers = run.nodes.of_kind("consumers", "system")
    run.nodes.seize(run.chance)
    for node in workers:
        run.nodes.kill(node)
    time.sleep(run.chance.uniform(0, 3))
    for node in workers:
        run.nodes.worker(node.kind)
    return "killed all workers"


def stop_database(run: Run) -> str:
    """PostgreSQL is away for a while: by turns stopped in good order, and killed."""
    run.crashes += 1
    crash = run.crashes % 2 == 0
    run.nodes.restart_database(crash=crash, away=run.chance.uniform(0, 3))
    return "killed PostgreSQL, which recovered" if crash else "restarted PostgreSQL"


def lose_broker(run: Run) -> str:
    """The broker forgets all that it holds."""
    run.nodes.lose_broker()
    return "emptied the broker"


def kill_redis(run: Run) -> str:
    """kill -9 of the broker; it comes back empty, after longer than a consumer's turn: their ends find it away."""
    assert run.nodes.redis
    run.nodes.redis.kill()
    time.sleep(run.chance.uniform(1.5, 4))
    run.nodes.redis.start()
    back = run.nodes.one("SELECT clock_timestamp()")
    effect = "SELECT EXISTS (SELECT FROM fault_effect WHERE at > %s)"
    wait_for(lambda: run.nodes.one(effect, back), "work to go on after Redis came back", 60)
    return "killed Redis, which came back empty"


def freeze(run: Run) -> str:
    """A child for longer than its claim: what it holds goes to others, and it may settle nothing."""
    seized = run.nodes.seize(run.chance)
    locks = " with locks" if run.nodes.has_locks(seized) else ""
    since = time.monotonic()
    gone = "SELECT NOT EXISTS (SELECT FROM dlqadmin_claim WHERE token = %s)"
    try:
        wait_for(lambda: run.nodes.one(gone, seized.token), "the claim of a frozen child to end", TAKEN_BACK)
    finally:
        go_on(seized)
    seconds = time.monotonic() - since
    fate = wait_for(lambda: run.nodes.fate(seized), "a child that woke up late to be fenced out", 30)
    return f"froze child {seized.pid}{locks}, claim {seized.token} taken back after {seconds:.1f} s, {fate}"


Harm = Callable[[Run], str]
HARMS: list[Harm] = [kill_child, kill_worker, kill_all_workers, stop_database, lose_broker, freeze]
REDIS_HARMS: list[Harm] = [*[kill_redis] * 5, *[kill_child] * 2, kill_worker, kill_all_workers]


def harms_of(rounds: int, chance: random.Random) -> list[Harm]:
    """Each harm twice and others at random, in random order; not more of those that take long."""
    quick = [harm for harm in HARMS if harm is not freeze]
    harms = [*HARMS, *HARMS, *chance.choices(quick, k=max(rounds - 2 * len(HARMS), 0))][:rounds]
    chance.shuffle(harms)
    return harms


# --- The runs ---------------------------------------------------------------------------------------------------------

IN_WORK = "SELECT count(*) FROM dlqadmin_message"
LEFT = """
SELECT name, count(*) FROM dlqadmin_message AS message JOIN dlqadmin_sourcequeue AS queue ON queue.id = queue_id
GROUP BY name ORDER BY name
"""


def test_nothing_is_lost_or_doubled_whatever_happens_to_workers_database_and_broker(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    harms = harms_of(ROUNDS, chance)
    with prepared(ConsumerNodes, tmp_path) as nodes:
        carry_out(Run(nodes, chance), harms)


@pytest.mark.skipif(not shutil.which("redis-server"), reason="there is no redis-server in PATH")
def test_nothing_is_lost_or_doubled_when_redis_is_the_broker_and_loses_everything(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    harms = chance.sample(REDIS_HARMS, REDIS_ROUNDS)
    with prepared(ConsumerNodes, tmp_path) as nodes:
        nodes.use_redis()
        carry_out(Run(nodes, chance), harms)


def carry_out(run: Run, harms: list[Harm]) -> None:
    """Work, harm, wait until all is done, and judge; the report comes whatever happens."""
    say(f"FAULT_SEED={SEED}, {len(harms)} harms, {RATE:g} messages a second, logs in {run.nodes.logs}")
    with ExitStack() as judged:
        judged.callback(report, run)
        start(run.nodes)
        for harm in harms:
            time.sleep(run.chance.uniform(0.5, 4))
            do(harm, run)
        drain(run.nodes)
        judge(run)


def start(nodes: ConsumerNodes) -> None:
    """All is at work before the first harm."""
    for service in ("consumers", "consumers", "system"):
        nodes.worker(service)
    nodes.beat()
    nodes.publisher(SEED)
    at_work = "SELECT count(DISTINCT queue) FROM fault_published JOIN fault_effect USING (n)"
    wait_for(lambda: nodes.one(at_work) == len(QUEUES), "all queues to be at work", STARTED)
    say("all queues are at work")


def do(harm: Harm, run: Run) -> None:
    """One harm, then a look into the books."""
    what = harm(run)
    run.harms.append((what, run.nodes.one("SELECT clock_timestamp()")))
    ledgers = run.nodes.look()
    say(f"{len(run.harms):2}. {what} ({in_work(ledgers)} messages in work)")
    assert differences(ledgers) == {}, f"the books after: {what}"
    assert run.nodes.died() == []


def in_work(ledgers: dict[str, dict[str, int]]) -> int:
    """How many messages are waiting or running."""
    return sum(ledger["waiting"] + ledger["running"] for ledger in ledgers.values())


def differences(ledgers: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """The ledgers that do not account for all that was received, or received anything but what was published."""
    return {
        queue: ledger
        for queue, ledger in ledgers.items()
        if ledger["difference"] or ledger["received"] != ledger["published"]
    }


def drain(nodes: ConsumerNodes) -> None:
    """Publish nothing more; wait until all is done."""
    for node in nodes.of_kind("publisher"):
        nodes.end(node)
        assert node.process.returncode == 0
    since = time.monotonic()
    say(f"published nothing more; messages left: {counted(nodes.rows(LEFT))}")
    while left := nodes.one(IN_WORK):
        fewer = f"SELECT count(*) < {left} FROM dlqadmin_message"
        wait_for(partial(nodes.one, fewer), f"{left} messages to become fewer", STUCK)
    wait_for(lambda: nodes.one("SELECT count(*) FROM dlqadmin_claim") == 0, "the last claims to end", 40)
    say(f"all is done after {time.monotonic() - since:.1f} s")


# --- What came of it --------------------------------------------------------------------------------------------------

# What must not be: the rows that these queries find.
WRONG = {
    "an effect happened more or less than once": """
        SELECT n, queue, type, effects FROM fault_outcome
        WHERE queue IN ('atomic-rep', 'atomic', 'keyed') AND reason IS NULL AND effects <> 1
    """,
    "a dead message has an effect": """
        SELECT n, queue, type, effects FROM fault_outcome WHERE reason IS NOT NULL AND queue <> 'each' AND effects > 0
    """,
    "an effect that was promised at least once is missing": """
        SELECT n FROM fault_outcome WHERE queue = 'each' AND effects = 0
    """,
    "a message id of the ledger has more or less than one effect": """
        SELECT message_id, sum(effects) FROM fault_outcome WHERE queue = 'ledger' GROUP BY message_id
        HAVING sum(effects) <> 1
    """,
    "a key's effects are not in publish order": """
        SELECT key, before, n FROM (
            SELECT key, n, lag(n) OVER (PARTITION BY key ORDER BY effect.id) AS before
            FROM fault_effect AS effect JOIN fault_published USING (n) WHERE queue = 'keyed'
        ) AS effects WHERE before > n
    """,
    "a message that always fails is not dead of its attempts": f"""
        SELECT n, letter.reason, attempts, kept FROM fault_outcome LEFT JOIN fault_letter AS letter USING (n)
        WHERE type = 'fail' AND (letter.reason, attempts) IS DISTINCT FROM ('threshold reached', {ATTEMPTS})
    """,
    "an attempt of a dead message has no record": """
        SELECT n, attempts, lost, kept FROM fault_letter WHERE kept <> attempts + lost
    """,
    "a message that kills its worker is not dead of that": f"""
        SELECT n, letter.reason, lost FROM fault_outcome LEFT JOIN fault_letter AS letter USING (n)
        WHERE type = 'vanish' AND (letter.reason, lost) IS DISTINCT FROM ('worker lost', {MAX_LOST})
    """,
    "a harmless message is dead": """
        SELECT n, queue, type, reason FROM fault_outcome WHERE type IN ('effect', 'once') AND reason IS NOT NULL
    """,
    "a message died twice": "SELECT n, letters FROM fault_outcome WHERE letters > 1",
    "there is an effect or a letter of something that was never published": """
        SELECT n FROM fault_effect WHERE n NOT IN (SELECT n FROM fault_published)
        UNION SELECT n FROM fault_letter WHERE n NOT IN (SELECT n FROM fault_published)
    """,
}


def judge(run: Run) -> None:
    """What must be true after whatever happened."""
    nodes = run.nodes
    wrong = {what: rows[:20] for what, query in WRONG.items() if (rows := nodes.rows(query))}
    assert wrong == {}
    there = {n for (n,) in nodes.rows("SELECT n FROM fault_published")}
    assert [n for n in nodes.acknowledged() if n not in there] == [], "acknowledged, and not there"
    for queue, ledger in nodes.look().items():
        judge_ledger(queue, ledger)
    assert nodes.one("SELECT count(*) FROM fault_published WHERE type = 'vanish'") >= 1


def judge_ledger(queue: str, ledger: dict[str, int]) -> None:
    """All was received that was published, and all is processed, discarded as a duplicate or dead."""
    duplicates = ledger["published"] - ledger["ids"]
    assert ledger["received"] == ledger["published"], queue
    assert ledger["difference"] == ledger["waiting"] == ledger["running"] == 0, (queue, ledger)
    assert ledger["duplicate"] == duplicates, (queue, ledger)
    assert ledger["processed"] == ledger["published"] - duplicates - ledger["dead"], (queue, ledger)


REASONS = """
SELECT reason || coalesce(' as ' || type, ''), count(*) FROM fault_outcome WHERE queue = %s AND reason IS NOT NULL
GROUP BY 1 ORDER BY 1
"""
EFFECTS = """
SELECT coalesce(sum(effects), 0), count(*) FILTER (WHERE effects > 1) FROM fault_outcome WHERE queue = %s
"""
LOST = "SELECT type, count(*) FROM dlqadmin_attempt WHERE outcome = 'lost' GROUP BY type ORDER BY type"
RECOVERED = "SELECT extract(epoch FROM min(at) - %s) FROM fault_effect WHERE at > %s"


def report(run: Run) -> None:
    """The counts, also of a run that failed."""
    nodes = run.nodes
    nodes.ensure_database()
    print(f"\nFAULT_SEED={SEED}, {len(run.harms)} harms")
    for what, at in run.harms:
        seconds = nodes.one(RECOVERED, at, at)
        print(
            f"  {what}: {'no effect after it' if seconds is None else f'next effect after {seconds:.2f} s'}"
        )
    for queue, ledger in nodes.look().items():
        amounts = ", ".join(f"{name} {amount}" for name, amount in ledger.items() if amount)
        effects, doubled = nodes.rows(EFFECTS, queue)[0]
        print(f"  {queue}: {amounts}; effects {effects}, of doubled messages {doubled}")
        if ledger["dead"]:
            print(f"    dead: {counted(nodes.rows(REASONS, queue))}")
    print(f"  starts whose worker was lost: {counted(nodes.rows(LOST))}")
    for what, token, node in nodes.rows("SELECT what, token, node FROM dlqadmin_fencedwrite ORDER BY id"):
        print(f"  fenced: {what} with token {token} on {node}")
