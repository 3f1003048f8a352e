"""Runs the services of a Procfile on one machine, and the embedded PostgreSQL beneath them. No Django here.

What other runners get wrong is how services end. A Celery worker that is told to stop finishes its running tasks,
but only if the signal reaches its main process alone: one that is sent to the process group, as a terminal's Ctrl-C
is, kills its children in mid-task. So every service gets a session of its own, and we pass the word on.
"""

import errno
import fcntl
import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from types import FrameType
from typing import IO

import psutil

from dlqadmin import embedded

STOP_SECONDS = 30  # what running work gets to finish
FIRST_DELAY, LONGEST_DELAY = 1, 30  # seconds before a service that died is started again; doubled each time
STEADY_SECONDS = 60  # a service that lived that long starts again with the first delay
LATE_SECONDS = 60  # after that we say that the web service does not answer yet
DATABASE_CHECK_SECONDS = 2
TICK_SECONDS = 0.1

# Celery warns of root because of pickle, which we do not accept.
ROOT_WARNING = "ignore:You're running the worker with superuser privileges"

COLOURS = (36, 33, 32, 35, 34, 31)  # ANSI, in the order of the Procfile
OURS = "runner"  # the prefix of our own lines


class RunnerError(Exception):
    """The services cannot be run. The message is one line for the user."""


@dataclass
class Service:
    """One line of the Procfile, and its process while it has one."""

    name: str
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    reader: threading.Thread | None = None
    started: float = 0.0  # monotonic time
    due: float = 0.0  # monotonic time at which it is to be started
    delay: int = FIRST_DELAY  # seconds before its next restart


def read_procfile(path: Path, environment: Mapping[str, str]) -> list[Service]:
    """The services of a Procfile: lines `name: command`; `#` comments. `$NAME` is taken from the environment."""
    services = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, command = line.partition(":")
        words = [Template(word).safe_substitute(environment) for word in shlex.split(command)]
        if not colon or not name.strip() or not words:
            raise RunnerError(f"{path}, line {number}: expected `name: command`.")
        services.append(Service(name.strip(), words))
    return services


# --- What a service leaves behind ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leftover:
    """A service of a runner that was killed: its process id, and when that process was started (epoch seconds)."""

    name: str
    pid: int
    started: float

    def group(self) -> list[psutil.Process]:
        """Its living processes. A process id that now belongs to somebody else has none of ours."""
        with suppress(psutil.Error):
            if abs(psutil.Process(self.pid).create_time() - self.started) > 1:
                return []
        return _group(self.pid)


def _group(pid: int) -> list[psutil.Process]:
    """The living processes of the group that the process led; it may be dead itself."""
    members = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getpgid(process.pid) == pid and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


# --- The runner ---------------------------------------------------------------------------------------------------


@dataclass
class Runner:
    """Supervises the services of one Procfile; there is at most one runner per home.

    `with runner.claim():` makes sure of that and of the port, `runner.supervise()` inside it runs the services until
    SIGINT, SIGTERM or SIGHUP. At the end of `claim` the embedded PostgreSQL is stopped if it is ours.
    """

    procfile: Path
    home: Path
    port: int
    embedded_database: bool
    stop_seconds: float = STOP_SECONDS
    out: IO[bytes] = field(default_factory=lambda: sys.stdout.buffer)
    services: list[Service] = field(default_factory=list, init=False)
    _signals: int = field(default=0, init=False)
    _passive: bool = field(default=False, init=False)  # signals are counted, and no longer interrupt
    _writing: threading.Lock = field(default_factory=threading.Lock, init=False)
    _database_due: float = field(default=0.0, init=False)

    @property
    def url(self) -> str:
        """Where the web service is to be found."""
        return f"http://127.0.0.1:{self.port}/"

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Be the only runner of this home, on a free port. Raises RunnerError before anything was started."""
        if self.embedded_database:
            embedded.prepare_home(self.home)
        self.home.mkdir(parents=True, exist_ok=True)
        self.services = read_procfile(self.procfile, self._environment())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        with self._locked():
            self._end_leftovers()
            self._check_port()
            try:
                yield
            finally:
                self._passive = True
                if self.embedded_database and embedded.stop(self.home):
                    self.say("PostgreSQL stopped.")

    def supervise(self) -> int:
        """Run the services until a signal asks for the end; the exit code."""
        self._passive = True
        if any(service.name == "web" for service in self.services):
            threading.Thread(target=self._announce, daemon=True).start()
        try:
            while not self._signals:
                for service in self.services:
                    self._tend(service)
                self._tend_database()
                time.sleep(TICK_SECONDS)
        finally:
            self._stop_services()
        return 0

    def say(self, line: str, name: str = OURS) -> None:
        """Write one line with the coloured name of the service in front."""
        self._write(name, line.encode(errors="replace"))

    # Before the start

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = self.home / "runner.lock"
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                other = read_lock(self.home) or {"url": "an unknown address", "pid": "?"}
                raise RunnerError(
                    f"dlqadmin already runs in this folder: {other['url']} (process {other['pid']}). "
                    "`make stop` ends it."
                ) from None
            file.truncate(0)
            file.write(json.dumps({"pid": os.getpid(), "url": self.url}))
            file.flush()
            yield

    def _check_port(self) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
            except OSError as error:
                why = (
                    "is taken by another program"
                    if error.errno == errno.EADDRINUSE
                    else f"cannot be used ({error})"
                )
                raise RunnerError(
                    f"Port {self.port} {why}. Choose another: make run PORT={self.port + 1}"
                ) from None

    def _end_leftovers(self) -> None:
        """End the services of a runner that was killed: they would do the work of ours, and hold the port."""
        leftovers = [leftover for leftover in self._recorded() if leftover.group()]
        for leftover in leftovers:
            self.say(
                f"Ending {leftover.name} (process {leftover.pid}), left over from a runner that was killed."
            )
            with suppress(ProcessLookupError):
                os.kill(leftover.pid, signal.SIGTERM)
        deadline = time.monotonic() + self.stop_seconds
        while time.monotonic() < deadline and any(psutil.pid_exists(left.pid) for left in leftovers):
            leftovers = [leftover for leftover in leftovers if leftover.group()]
            time.sleep(TICK_SECONDS)
        for leftover in leftovers:
            if leftover.group():
                _kill_group(leftover.pid)
        self._record([])

    def _recorded(self) -> list[Leftover]:
        try:
            return [Leftover(**entry) for entry in json.loads((self.home / "services.json").read_text())]
        except (OSError, ValueError, TypeError):
            return []

    def _record(self, services: list[Service]) -> None:
        """Keep which processes are ours, for the runner after us in case we are killed."""
        entries = []
        for service in services:
            with suppress(psutil.Error):
                if service.process:
                    started = psutil.Process(service.process.pid).create_time()
                    entries.append({"name": service.name, "pid": service.process.pid, "started": started})
        new = self.home / "services.json.new"
        new.write_text(json.dumps(entries))
        new.replace(self.home / "services.json")

    # While it runs

    def _environment(self) -> dict[str, str]:
        programs = str(Path(sys.executable).parent)  # of the virtual environment, which need not be activated
        return {
            **os.environ,
            "PATH": os.pathsep.join([programs, os.environ.get("PATH", os.defpath)]),
            "PORT": str(self.port),
            "DLQADMIN_HOME": str(self.home),
            "PYTHONUNBUFFERED": "1",
            "PYTHONWARNINGS": ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), ROOT_WARNING])),
        }

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Only count: a handler runs in the middle of anything. Before the services run it interrupts."""
        self._signals += 1
        if not self._passive:
            raise KeyboardInterrupt

    def _tend(self, service: Service) -> None:
        """Start a service that is due; when it has died say so, clear up behind it, and set its next start."""
        if service.process is None:
            if time.monotonic() >= service.due:
                self._start(service)
            return
        code = service.process.poll()
        if code is not None:
            _kill_group(service.process.pid)
            service.process = None
            self._start_later(
                service, f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            )

    def _start(self, service: Service) -> None:
        try:
            service.process = subprocess.Popen(
                service.command,
                cwd=self.procfile.parent,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._start_later(service, f"cannot be started ({error})")
            return
        service.started = time.monotonic()
        service.reader = threading.Thread(
            target=self._read, args=(service.name, service.process.stdout), daemon=True
        )
        service.reader.start()
        self._record(self.services)

    def _start_later(self, service: Service, what: str) -> None:
        if service.started and time.monotonic() - service.started >= STEADY_SECONDS:
            service.delay = FIRST_DELAY
        self.say(f"{service.name} {what}; starting it again in {service.delay} s")
        service.due = time.monotonic() + service.delay
        service.delay = min(2 * service.delay, LONGEST_DELAY)

    def _tend_database(self) -> None:
        """Start the embedded PostgreSQL again if somebody killed it."""
        if not self.embedded_database or time.monotonic() < self._database_due:
            return
        self._database_due = time.monotonic() + DATABASE_CHECK_SECONDS
        if embedded.is_running(self.home):
            return
        self.say("PostgreSQL ended; starting it again")
        try:
            embedded.ensure_running(self.home)
        except embedded.EmbeddedError as error:
            self.say(str(error))

    def _announce(self) -> None:
        """Say the address as soon as the web service answers there."""
        late = time.monotonic() + LATE_SECONDS
        while not self._signals:
            if self._web_answers():
                self.say(f"dlqadmin is ready: {self.url}")
                return
            if time.monotonic() > late:
                self.say(f"The web service does not answer yet at {self.url}; its lines above may tell why.")
                late = float("inf")
            time.sleep(TICK_SECONDS)

    def _web_answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/healthz/")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    # At the end

    def _stop_services(self) -> None:
        """Ask each main process to end, wait for its running work, kill what remains."""
        running = [service for service in self.services if service.process]
        self.say(f"Stopping. Running work gets up to {self.stop_seconds:g} s to finish.")
        for service in running:
            if service.process:
                service.process.terminate()
        self._wait_for([service.process for service in running if service.process])
        for service in running:
            if service.process:
                if service.process.poll() is None:
                    self.say(f"{service.name} did not stop within {self.stop_seconds:g} s and is killed")
                _kill_group(service.process.pid)
                service.process.wait()
            if service.reader:
                service.reader.join(timeout=1)  # its last lines
        self._record([])

    def _wait_for(self, processes: list[subprocess.Popen[bytes]]) -> None:
        deadline = time.monotonic() + self.stop_seconds
        heard = max(self._signals, 1)
        while time.monotonic() < deadline and any(process.poll() is None for process in processes):
            if self._signals > heard:
                heard = self._signals
                self.say(f"Already stopping, for at most {deadline - time.monotonic():.0f} s more.")
            time.sleep(TICK_SECONDS)

    # Output

    def _read(self, name: str, lines: IO[bytes]) -> None:
        with lines:
            for line in lines:
                if line.strip():
                    self._write(name, line.rstrip())

    def _write(self, name: str, line: bytes) -> None:
        width = max((len(service.name) for service in self.services), default=0)
        prefix = f"{name:<{max(width, len(OURS))}} | "
        if self._coloured():
            names = [service.name for service in self.services]
            colour = COLOURS[names.index(name) % len(COLOURS)] if name in names else 1  # ours: bold
            prefix = f"\x1b[{colour}m{prefix}\x1b[0m"
        # A reader that went away (`make run | head`) must not stop the services, which wait for us to read.
        with self._writing, suppress(OSError, ValueError):
            self.out.write(prefix.encode() + line + b"\n")
            self.out.flush()

    def _coloured(self) -> bool:
        return self.out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


# --- python -m dlqadmin.runner stop -------------------------------------------------------------------------------


def read_lock(home: Path) -> dict[str, str | int] | None:
    """Process id and address of the runner that last held the lock of this home; None if there was none."""
    try:
        content: dict[str, str | int] = json.loads((home / "runner.lock").read_text())
    except (OSError, ValueError):
        return None
    return content


def stop(home: Path | None = None) -> bool:
    """Ask the runner of this home (embedded.HOME) to end, and wait until it has. False: none runs."""
    home = home or embedded.HOME
    try:
        with (home / "runner.lock").open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return False
            except BlockingIOError:
                other = read_lock(home)
            if other:
                os.kill(int(other["pid"]), signal.SIGTERM)
            fcntl.flock(file, fcntl.LOCK_EX)
            return True
    except FileNotFoundError:
        return False
    except (PermissionError, ProcessLookupError) as error:
        raise RunnerError(f"The runner of {home} cannot be stopped: {error}.") from error


def main(arguments: list[str]) -> int:
    """`stop` the runner of HOME; the exit code."""
    if arguments != ["stop"]:
        print("Usage: python -m dlqadmin.runner stop   (`make run` starts it)", file=sys.stderr)
        return 2
    try:
        print("dlqadmin stopped." if stop() else "dlqadmin was not running.")
    except RunnerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
