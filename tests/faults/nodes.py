"""Real processes and a PostgreSQL of their own, to be harmed: what the fault runs have in common."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import psycopg

from dlqadmin import embedded
from dlqadmin.runner import read_procfile
from tests import server
from tests.acceptance.processes import ROOT, kill_all, running

SEED = int(os.environ.get("FAULT_SEED") or random.randrange(10**6))

_began = time.monotonic()


def say(line: str) -> None:
    """For who watches."""
    print(f"{time.monotonic() - _began:6.1f} s  {line}", flush=True)


@dataclass(frozen=True)
class Node:
    """One process with its children. `ahead`: its clock is an hour ahead."""

    kind: str
    process: subprocess.Popen[bytes]
    ahead: bool = False

    def signal(self, number: int) -> None:
        """Send a signal to its main process."""
        self.process.send_signal(number)

    def has_child(self, pid: int) -> bool:
        """Whether this process is one of its children."""
        return pid in self.children()

    def children(self) -> set[int]:
        """The process ids of its children, and of theirs."""
        return {child.pid for child in psutil.Process(self.process.pid).children(recursive=True)}


class Nodes:
    """All processes of one fault run, and its database."""

    handlers = ""  # the module that every process loads
    tables = ""  # what the run needs besides dlqadmin's tables

    def __init__(self, home: Path, logs: Path, stack: ExitStack) -> None:
        self.home, self.logs = home, logs
        self.all: list[Node] = []
        self.started = 0
        self._stack = stack
        self._connection: psycopg.Connection[Any] | None = None

    # --- the database ---------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """The server with real fsync, dlqadmin's tables, the broker's objects and the run's own tables."""
        embedded.ensure_running(self.home)
        self.call("manage.py", "prepare")
        self.rows(self.tables)

    def restart_database(self, *, crash: bool = False, away: float = 0.0) -> None:
        """As an administrator does it, or by kill -9 of all its processes; it stays away for so many seconds."""
        self._forget_connection()
        if crash:
            self._crash_database()
        else:
            embedded.stop(self.home, mode="fast")
        time.sleep(away)
        embedded.ensure_running(self.home)

    def _crash_database(self) -> None:
        """Nobody is left to write anything; the next start recovers from the WAL."""
        pid = (self.home / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0]
        postmaster = psutil.Process(int(pid))
        postmaster.suspend()  # so that it starts no process that we do not know
        for process in [*postmaster.children(recursive=True), postmaster]:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query answers."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(**embedded.address(self.home), autocommit=True)
        cursor = self._connection.execute(query, values or None)
        return cursor.fetchall() if cursor.description else []

    def one(self, query: str, *values: Any) -> Any:
        """The one value that a query answers with; None without a row."""
        rows = self.rows(query, *values)
        return rows[0][0] if rows else None

    def _forget_connection(self) -> None:
        if self._connection:
            self._connection.close()

    # --- the processes --------------------------------------------------------------------------------------------

    def service(self, name: str) -> list[str]:
        """The arguments of Python for a service of the Procfile."""
        services = read_procfile(ROOT / "Procfile", os.environ)
        return ["-m", *next(service.command for service in services if service.name == name)]

    def call(self, *arguments: str) -> str:
        """Run `python ARGUMENTS` to its end, which must be a good one; what it printed."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | self.environment(),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def start(self, kind: str, arguments: list[str], *, ahead: bool = False, **environment: str) -> Node:
        """Start `python ARGUMENTS`; it is killed at the end of the run."""
        self.started += 1
        log = self.logs / f"{self.started}-{kind}.log"
        process = self._stack.enter_context(running(arguments, self.environment() | environment, log))
        node = Node(kind, process, ahead)
        self.all.append(node)
        return node

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

    def environment(self) -> dict[str, str]:
        """What all processes of the run are started with."""
        return {
            "DLQADMIN_HOME": str(self.home),
            "DLQADMIN_DEMO": "0",
            "DLQADMIN_HANDLERS": self.handlers,
            "DATABASE_URL": "",
            "CELERY_BROKER_URL": "",
        }


Kind = TypeVar("Kind", bound=Nodes)


@contextmanager
def prepared(kind: type[Kind], folder: Path) -> Iterator[Kind]:
    """A prepared database without processes yet; all is ended and removed at the end, but for the logs in `folder`."""
    # Not in pytest's folder: another run of pytest closes that one to PostgreSQL's user in the middle of this run.
    parent = Path(tempfile.mkdtemp(prefix="dlqadmin-faults-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, parent)
        stack.callback(_remove, parent / "home", folder)
        nodes = kind(parent / "home", folder, stack)
        nodes.prepare()
        yield nodes


def _remove(home: Path, logs: Path) -> None:
    if (home / "postgres.log").exists():
        shutil.copy(home / "postgres.log", logs)
    server.remove_home(home)
