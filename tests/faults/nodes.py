"""Three nodes of beat, three workers and a PostgreSQL of their own, to be harmed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from dlqadmin import embedded
from tests import server
from tests.acceptance.processes import ROOT, kill_all, running, wait_for
from tests.faults import jobs

_MID_RUN = """
SELECT id, run_token, split_part(node, ':', 2)::int FROM dlqadmin_trigger
WHERE job = %s AND state = 'started' AND started_at > clock_timestamp() - interval '0.2 s'
"""
_AS_IN_PROCFILE = ["-l", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat"]


@dataclass(frozen=True)
class Node:
    """One process of Celery with its children. `ahead`: its clock is an hour ahead."""

    kind: str
    process: subprocess.Popen[bytes]
    ahead: bool

    def signal(self, number: int) -> None:
        """Send a signal to its main process."""
        self.process.send_signal(number)

    def has_child(self, pid: int) -> bool:
        """Whether this process is one of its children."""
        return pid in {child.pid for child in psutil.Process(self.process.pid).children(recursive=True)}


@dataclass(frozen=True)
class MidRun:
    """A run that began just now, in the child `pid` of a worker."""

    trigger: int
    token: int
    pid: int


class Nodes:
    """All processes of one fault run, and its database."""

    def __init__(self, home: Path, logs: Path, stack: ExitStack) -> None:
        self.home, self.logs = home, logs
        self.all: list[Node] = []
        self.started = 0
        self._stack = stack
        self._connection: psycopg.Connection[Any] | None = None

    # --- the database ---------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """The server with real fsync, dlqadmin's tables, the broker's objects and the table of the job."""
        embedded.ensure_running(self.home)
        environment = os.environ | self._environment(ahead=False)
        subprocess.run([sys.executable, "manage.py", "prepare"], cwd=ROOT, env=environment, check=True)
        self.rows(jobs.EFFECTS)

    def restart_database(self) -> None:
        """As an administrator does it."""
        if self._connection:
            self._connection.close()
        embedded.stop(self.home, mode="fast")
        embedded.ensure_running(self.home)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query answers."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(**embedded.address(self.home), autocommit=True)
        cursor = self._connection.execute(query, values)
        return cursor.fetchall() if cursor.description else []

    def one(self, query: str, *values: Any) -> Any:
        """The one value that a query answers with; None without a row."""
        rows = self.rows(query, *values)
        return rows[0][0] if rows else None

    # --- the processes --------------------------------------------------------------------------------------------

    def beat(self, *, ahead: bool = False, **environment: str) -> Node:
        """Start a node of beat."""
        schedule = str(self.logs / f"schedule-{self.started}")
        return self._start("beat", ["beat", "-s", schedule], ahead, environment)

    def worker(self, *, ahead: bool = False) -> Node:
        """Start a worker for the singleton jobs."""
        arguments = ["worker", "-Q", "system", "-c", "1", "-n", f"system{self.started}@%h", *_AS_IN_PROCFILE]
        return self._start("worker", arguments, ahead, {})

    def _start(self, kind: str, arguments: list[str], ahead: bool, environment: dict[str, str]) -> Node:
        self.started += 1
        log = self.logs / f"{self.started}-{kind}.log"
        process = self._stack.enter_context(
            running(
                ["-m", "celery", "-A", "dlqadmin", *arguments], self._environment(ahead) | environment, log
            )
        )
        node = Node(kind, process, ahead)
        self.all.append(node)
        return node

    def leader(self) -> Node:
        """The node of beat that leads now."""

        def find() -> Node | None:
            holder = self.one("SELECT holder FROM dlqadmin_lease WHERE name = 'beat' AND until > now()")
            pid = int(holder.rpartition(":")[2]) if holder else 0
            return next((node for node in self.all if node.process.pid == pid), None)

        found: Node = wait_for(find, "a node to lead")
        return found

    def in_mid_run(self) -> MidRun:
        """A run of the job that began a moment ago."""
        rows = wait_for(lambda: self.rows(_MID_RUN, jobs.NAME), "a run of the job")
        return MidRun(*rows[0])

    def worker_of(self, pid: int) -> Node:
        """The worker whose child this process is."""
        return next(node for node in self.all if node.kind == "worker" and node.has_child(pid))

    def kill(self, node: Node) -> None:
        """kill -9 of a node with all its children."""
        kill_all(node.process)
        self.all.remove(node)

    def end(self, node: Node) -> None:
        """End a node as a process manager does; it must end by itself."""
        node.signal(signal.SIGTERM)
        assert node.process.wait(timeout=30) is not None
        self.all.remove(node)

    def died(self) -> list[str]:
        """The nodes that ended without being told to."""
        return [
            f"{node.kind} {node.process.pid}: {node.process.returncode}"
            for node in self.all
            if node.process.poll() is not None
        ]

    def _environment(self, ahead: bool) -> dict[str, str]:
        return {
            "DLQADMIN_HOME": str(self.home),
            "DLQADMIN_DEMO": "0",
            "DLQADMIN_HANDLERS": "tests.faults.jobs",
            "DATABASE_URL": "",
            "CELERY_BROKER_URL": "",
            "PYTHONPATH": str(Path(__file__).parent / "ahead") if ahead else "",
        }


@contextmanager
def prepared(folder: Path) -> Iterator[Nodes]:
    """A prepared database without processes yet; all is ended and removed at the end, but for the logs in `folder`."""
    # Not in pytest's folder: another run of pytest closes that one to PostgreSQL's user in the middle of this run.
    parent = Path(tempfile.mkdtemp(prefix="dlqadmin-faults-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, parent)
        stack.callback(_remove, parent / "home", folder)
        nodes = Nodes(parent / "home", folder, stack)
        nodes.prepare()
        yield nodes


def _remove(home: Path, logs: Path) -> None:
    if (home / "postgres.log").exists():
        shutil.copy(home / "postgres.log", logs)
    server.remove_home(home)
