"""The runner: real processes, from small Procfiles of the tests' own."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from dlqadmin import embedded, runner
from tests.server import remove_home

CHECKOUT = Path(__file__).parent.parent
PATIENCE = 60  # seconds

RUN = """
import sys
from contextlib import suppress
from pathlib import Path
from dlqadmin import embedded, runner
home, port, stop_seconds, database = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "database"
it = runner.Runner(home / "Procfile", home, port, embedded_database=database, stop_seconds=stop_seconds)
try:
    with it.claim():
        if database:
            embedded.ensure_running(home, fsync=False)
        sys.exit(it.supervise())
except runner.RunnerError as error:
    sys.exit(str(error))
"""

WEB = """
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz/" else 404)
        self.end_headers()
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""

# Like a Celery worker: a main process that is told to stop waits for the task of its child, which must hear nothing.
WORKER = """
import os, signal, sys, time
def heard(number, frame): print("child heard signal", number, flush=True)
def stop(number, frame): open("stop", "w").close()
child = os.fork()
if child == 0:
    for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, heard)
    print("child", os.getpid(), flush=True)
    while not os.path.exists("stop"): time.sleep(0.01)
    print("task finished", flush=True)
    os._exit(0)
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, stop)
os.waitpid(child, 0)
print("worker ended", flush=True)
"""

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
while True: time.sleep(60)
"""


TALKER = """
import pathlib
for number in range(10**9):
    print(number, "x" * 1000)
    pathlib.Path("said").write_text(str(number))
"""

# `where` is put in front.
LAST_WORDS = """
import signal, sys, psycopg
def stop(*_):
    print("at the end", psycopg.connect(**where).execute("SELECT 6 * 7").fetchone())
    sys.exit()
signal.signal(signal.SIGTERM, stop)
print("waiting")
while True: signal.pause()
"""


class Run:
    """A runner in a process of its own, and what it has said."""

    def __init__(self, home: Path, port: int, *, stop_seconds: float, database: bool) -> None:
        arguments = [str(home), str(port), str(stop_seconds), "database" if database else "-"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, *arguments],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def says(self, pattern: str, times: int = 1) -> str:
        """Wait until lines match; the first group of the last match, or all of it."""
        wait_until(
            lambda: len(re.findall(pattern, self.text)) >= times, lambda: f"no {pattern!r} in:\n{self.text}"
        )
        *_, match = re.finditer(pattern, self.text)
        return match.group(match.lastindex or 0)

    def end(self) -> int:
        """Wait for the end of the runner; its exit code."""
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return code

    def kill_all(self) -> None:
        children = []
        if self.process.poll() is None:
            children = psutil.Process(self.process.pid).children(recursive=True)
        for pid in [self.process.pid, *(child.pid for child in children)]:
            kill(pid)
        self.process.wait(PATIENCE)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(
    condition: Callable[[], bool], complaint: Callable[[], str] = lambda: "it did not happen"
) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.01)


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="dlqadmin-home-"))
    yield folder
    remove_home(folder)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


Start = Callable[..., Run]


@pytest.fixture
def start(home: Path, port: int) -> Iterator[Start]:
    """Start a runner of services, given as name=program text."""
    runs: list[Run] = []

    def start(*, stop_seconds: float = 30, database: bool = False, **services: str) -> Run:
        for name, program in services.items():
            (home / f"{name}.py").write_text(program)
        if services:
            lines = [f"{name}: python {name}.py $PORT\n" for name in services]
            (home / "Procfile").write_text("# of a test\n\n" + "".join(lines))
        runs.append(Run(home, port, stop_seconds=stop_seconds, database=database))
        return runs[-1]

    yield start
    for run in runs:
        run.kill_all()


class TestRunning:
    def test_it_says_the_address_once_the_web_service_answers(self, start, port):
        run = start(web=WEB)
        run.says(rf"dlqadmin is ready: http://127.0.0.1:{port}/$")

    def test_lines_carry_the_name_of_their_service_and_no_colour_outside_a_terminal(self, start):
        run = start(one="print('first'); import time; time.sleep(600)")
        run.says(r"one    \| first")
        assert "\x1b" not in run.text

    def test_a_service_that_is_killed_is_reported_and_started_again(self, start):
        run = start(worker=WORKER)
        child = int(run.says(r"child (\d+)"))
        kill(psutil.Process(child).ppid())
        run.says("worker was killed by signal 9; starting it again in 1 s")
        second = int(run.says(r"child (\d+)", times=2))
        assert second != child
        assert not lives(child)  # what the dead one left behind would do its work twice

    def test_a_service_that_cannot_live_is_started_again_later_each_time(self, start):
        run = start(broken="raise SystemExit(3)")
        run.says("broken ended with exit code 3; starting it again in 1 s")
        run.says("broken ended with exit code 3; starting it again in 2 s")

    def test_services_go_on_when_nobody_reads_their_lines_any_more(self, home, port, start):
        run = start(talker=TALKER)
        run.says(r"talker \| 1 x")
        assert run.process.stdout
        os.dup2(
            os.open(os.devnull, os.O_RDONLY), run.process.stdout.fileno()
        )  # closes the pipe's only reading end
        said = int((home / "said").read_text() or 0)
        wait_until(lambda: int((home / "said").read_text() or 0) > said + 100)
        assert run.process.poll() is None


class TestStopping:
    def test_a_stop_reaches_the_main_process_only_and_waits_for_its_work(self, start):
        run = start(worker=WORKER)
        run.says(r"child \d+")
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == 0
        assert "task finished" in run.text
        assert "worker ended" in run.text
        assert "heard" not in run.text

    def test_ctrl_c_in_a_terminal_does_not_reach_the_services(self, start):
        run = start(worker=WORKER)
        run.says(r"child \d+")
        os.killpg(run.process.pid, signal.SIGINT)
        assert run.end() == 0
        assert "heard" not in run.text

    def test_a_second_ctrl_c_is_told_that_it_is_stopping(self, start):
        run = start(stop_seconds=3, stubborn=STUBBORN)
        run.says("deaf")
        run.process.send_signal(signal.SIGINT)
        run.says("Stopping")
        run.process.send_signal(signal.SIGINT)
        run.says("Already stopping")
        assert run.end() == 0

    def test_a_service_that_does_not_stop_is_killed_and_named(self, start):
        run = start(stop_seconds=0.5, stubborn=STUBBORN, worker=WORKER)
        run.says("deaf")
        run.says(r"child \d+")
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == 0
        assert "stubborn did not stop within 0.5 s and is killed" in run.text
        assert "worker did not stop" not in run.text

    def test_postgresql_is_stopped_last(self, home, start):
        run = start(database=True, worker=f"where = {embedded.address(home)!r}\n{LAST_WORDS}")
        run.says("waiting")
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == 0
        assert "at the end (42,)" in run.text
        assert run.lines[-1].endswith("PostgreSQL stopped.")
        assert not embedded.is_running(home)

    def test_a_killed_postgresql_is_started_again(self, home, start):
        run = start(database=True, web=WEB)
        run.says("dlqadmin is ready")
        kill(int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0]))
        run.says("PostgreSQL ended; starting it again")
        where = embedded.address(home)
        wait_until(lambda: can_connect(where))

    def test_make_stop_ends_the_runner_from_outside(self, home, start):
        run = start(worker=WORKER)
        run.says(r"child \d+")
        assert runner.stop(home) is True
        assert run.end() == 0
        assert runner.stop(home) is False


def can_connect(where: dict[str, str]) -> bool:
    try:
        psycopg.connect(**where).close()
    except psycopg.OperationalError:
        return False
    return True


class TestStarting:
    def test_a_second_runner_is_told_the_address_of_the_first(self, start, port):
        first = start(web=WEB)
        first.says("dlqadmin is ready")
        second = start()
        assert second.end() == 1
        assert second.text == (
            f"dlqadmin already runs in this folder: http://127.0.0.1:{port}/ (process {first.process.pid}). "
            "`make stop` ends it."
        )

    def test_a_taken_port_is_named_before_anything_starts(self, start, port, home):
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))
            other.listen()
            run = start(web=WEB, database=True)
            assert run.end() == 1
        assert run.text == (
            f"Port {port} is taken by another program. Choose another: make run PORT={port + 1}"
        )
        assert not (home / "postgres").exists()

    def test_services_of_a_runner_that_was_killed_are_ended_first(self, start):
        first = start(worker=WORKER, stubborn=STUBBORN, web=WEB)
        child = int(first.says(r"child (\d+)"))
        first.says("deaf")
        first.says("dlqadmin is ready")
        services = psutil.Process(first.process.pid).children()
        kill(first.process.pid)
        first.process.wait(PATIENCE)
        second = start(stop_seconds=1)
        second.says(r"Ending worker \(process \d+\), left over from a runner that was killed")
        second.says("dlqadmin is ready")
        assert not any(lives(pid) for pid in [child, *(service.pid for service in services)])

    def test_a_process_id_that_now_belongs_to_another_program_is_left_alone(self, home, start):
        with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
            (home / "services.json").write_text(f'[{{"name": "web", "pid": {other.pid}, "started": 1.0}}]')
            run = start(web=WEB)
            run.says("dlqadmin is ready")
            assert other.poll() is None
            assert "Ending" not in run.text
            other.kill()


class TestProcfile:
    def test_variables_come_from_the_environment_and_no_shell_is_involved(self, tmp_path):
        path = tmp_path / "Procfile"
        path.write_text("# a comment\n\nweb: serve --port $PORT --name 'a b' ${HOME}/x $UNKNOWN ; rm *\n")
        (service,) = runner.read_procfile(path, {"PORT": "80", "HOME": "/h"})
        assert service.name == "web"
        assert service.command == [
            "serve",
            "--port",
            "80",
            "--name",
            "a b",
            "/h/x",
            "$UNKNOWN",
            ";",
            "rm",
            "*",
        ]

    @pytest.mark.parametrize("line", ["web", "web:", ": serve"])
    def test_a_line_that_is_no_service_is_named(self, tmp_path, line):
        path = tmp_path / "Procfile"
        path.write_text(f"# first\n{line}\n")
        with pytest.raises(runner.RunnerError, match="line 2: expected `name: command`"):
            runner.read_procfile(path, {})

    def test_the_programs_of_our_own_procfile_are_installed(self):
        services = runner.read_procfile(CHECKOUT / "Procfile", {"PORT": "8000", "DLQADMIN_HOME": "/home"})
        assert [service.name for service in services] == ["web", "consumers", "system", "beat"]
        programs = str(Path(sys.executable).parent)
        assert all(shutil.which(service.command[0], path=programs) for service in services)
        assert "$" not in str([service.command for service in services])
