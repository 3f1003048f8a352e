"""The nodes of the run about consumers: workers, beat, a publisher, a broker, and how they are harmed."""

import json
import os
import random
import signal
import socket
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from dlqadmin import embedded
from tests.acceptance.processes import kill_all, wait_for
from tests.faults import workload
from tests.faults.nodes import Node, Nodes

RATE = float(os.environ.get("FAULT_RATE") or 100)  # messages a second

_HELD = """
SELECT token, split_part(worker, ':', 2)::int FROM dlqadmin_claim WHERE until > clock_timestamp() ORDER BY token
"""
# Locked: it is being settled right now, perhaps by a COMMIT that is already on its way.
_STILL_HELD = "SELECT token FROM dlqadmin_claim WHERE token = %s FOR UPDATE SKIP LOCKED"
_UNTOUCHED = "SELECT id FROM dlqadmin_message WHERE claim_id = %s FOR UPDATE SKIP LOCKED"
_HOLDS = "SELECT id FROM dlqadmin_message WHERE claim_id = %s"
_BROKER_TABLES = """
SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'pgmq' AND tablename LIKE 'q\\_%%'
"""

_FENCED = "SELECT id FROM dlqadmin_fencedwrite WHERE token = %s AND split_part(node, ':', 2) = %s"
_STOPPED = {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}  # a zombie ended before the signal came


@dataclass(frozen=True)
class Seized:
    """A consumer's child that was stopped (SIGSTOP) in the middle of the claim `token`."""

    node: Node
    pid: int
    token: int


@dataclass
class Redis:
    """A Redis server that keeps nothing on disk."""

    folder: Path
    stack: ExitStack
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.stack.callback(self.kill)

    @property
    def url(self) -> str:
        """For Celery."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, empty, and wait until it listens."""
        options = {"--port": self.port, "--bind": "127.0.0.1", "--save": "", "--dir": self.folder}
        arguments = [str(word) for option in options.items() for word in option]
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", *arguments], stdout=log, stderr=log, start_new_session=True
            )
        wait_for(self._listens, "Redis to listen", 20)

    def kill(self) -> None:
        """kill -9: all that it held is lost."""
        if self.process:
            kill_all(self.process)
            self.process = None

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class ConsumerNodes(Nodes):
    """Workers as in the Procfile, beat, and a publisher."""

    handlers = "tests.faults.handlers"
    tables = workload.TABLES

    def __init__(self, home: Path, logs: Path, stack: ExitStack) -> None:
        super().__init__(home, logs, stack)
        self.redis: Redis | None = None

    # --- the processes --------------------------------------------------------------------------------------------

    def use_redis(self) -> None:
        """Redis is the broker of all processes that are started from now on."""
        self.redis = Redis(self.logs, self._stack)
        self.redis.start()

    def environment(self) -> dict[str, str]:
        """As everywhere, but for the broker."""
        return super().environment() | ({"CELERY_BROKER_URL": self.redis.url} if self.redis else {})

    def worker(self, service: str) -> Node:
        """Start a worker of the service `consumers` or `system`."""
        return self.start(service, [*self.service(service), "-n", f"{service}{self.started}@%h"])

    def beat(self) -> Node:
        """Start beat."""
        return self.start("beat", [*self.service("beat"), "-s", str(self.logs / "schedule")])

    def publisher(self, seed: int) -> Node:
        """Start to publish."""
        arguments = ["-m", "tests.faults.publisher", str(RATE), str(seed), str(self.journal)]
        return self.start("publisher", arguments, DJANGO_SETTINGS_MODULE="dlqadmin.settings")

    def of_kind(self, *kinds: str) -> list[Node]:
        """The nodes of these kinds."""
        return [node for node in self.all if node.kind in kinds]

    @property
    def journal(self) -> Path:
        """Where the publisher notes what was acknowledged."""
        return self.logs / "acknowledged"

    # --- the harms ------------------------------------------------------------------------------------------------

    def seize(self, chance: random.Random) -> Seized:
        """Stop a consumer's child in the middle of a claim. The caller kills it, or lets it go on."""
        seized: Seized = wait_for(lambda: self._try_to_seize(chance), "a child that holds a claim", 60)
        return seized

    def _try_to_seize(self, chance: random.Random) -> Seized | None:
        """Claims last for milliseconds: nothing slow may happen between finding one and stopping its holder."""
        nodes = {pid: node for node in self.of_kind("consumers") for pid in node.children()}
        for _ in range(50):
            held = [(token, pid) for token, pid in self.rows(_HELD) if pid in nodes]
            if held:
                token, pid = chance.choice(held)
                if self._stop_in_claim(pid, token):
                    return Seized(nodes[pid], pid, token)
        return None

    def _stop_in_claim(self, pid: int, token: int) -> bool:
        """Stop a process; let it go on if it has settled the claim meanwhile."""
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            os.kill(pid, signal.SIGSTOP)
            child = psutil.Process(pid)
            wait_for(lambda: child.status() in _STOPPED, "a child to stop", 5)
            if child.status() == psutil.STATUS_STOPPED and self.rows(_STILL_HELD, token):
                return True
            child.resume()
        return False

    def has_locks(self, seized: Seized) -> bool:
        """Whether it stopped in the middle of its settlement, and keeps others from what it holds."""
        return len(self.rows(_UNTOUCHED, seized.token)) < len(self.rows(_HOLDS, seized.token))

    def fate(self, seized: Seized) -> str:
        """What became of a child that woke up too late; empty: not known yet."""
        if self.rows(_FENCED, seized.token, str(seized.pid)):
            return "fenced out"
        return "" if seized.node.has_child(seized.pid) else "ended itself"

    def lose_broker(self) -> None:
        """All wake-ups are gone."""
        tables = ", ".join(name for (name,) in self.rows(_BROKER_TABLES))
        self.rows(f"TRUNCATE {tables}")

    # --- what came of it ------------------------------------------------------------------------------------------

    def look(self) -> dict[str, dict[str, int]]:
        """The ledgers, and what was published, by queue; see `look.py`."""
        found: dict[str, dict[str, int]] = json.loads(self.call("-m", "tests.faults.look"))
        return found

    def acknowledged(self) -> list[int]:
        """The numbers of the messages whose publisher was told that they are published."""
        return [int(line) for line in self.journal.read_text().splitlines()]

    def answers(self) -> bool:
        """Whether the database answers a query."""
        try:
            return bool(self.one("SELECT true"))
        except psycopg.OperationalError:
            return False

    def ensure_database(self) -> None:
        """Also after a run that failed while it was away."""
        if not self.answers():
            embedded.ensure_running(self.home)


def go_on(seized: Seized) -> None:
    """End the stop; nothing if the child is gone."""
    with suppress(ProcessLookupError):
        os.kill(seized.pid, signal.SIGCONT)


def counted(rows: list[tuple[Any, ...]]) -> str:
    """`key number, key number` of rows with two values."""
    return ", ".join(f"{name} {number}" for name, number in rows) or "none"
