"""Real processes for whole journeys, and waiting for what they do."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

ROOT = Path(__file__).parent.parent.parent


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Ask until the answer is true; the answer. Says what was waited for when the time is over."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
    return answer


def database_url(database: Mapping[str, Any]) -> str:
    """The URL of a Django database setting, for the environment of another process."""
    query = {"host": database["HOST"]} | ({"port": database["PORT"]} if database["PORT"] else {})
    account = quote(database["USER"], safe="")
    if database["PASSWORD"]:
        account += ":" + quote(database["PASSWORD"], safe="")
    return f"postgres://{account}@/{quote(database['NAME'])}?{urlencode(query)}"


@contextmanager
def running(
    arguments: list[str], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """`python ARGUMENTS` in a session of its own; killed with all its children at the end, if it still lives."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_all(process)


@contextmanager
def running_dlqadmin(home: Path) -> Iterator[str]:
    """`manage.py run` with the demo in this home, on a free port: its address. At the end it is stopped as by Ctrl-C,
    and must have ended cleanly, with PostgreSQL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = home / "run.log"
    log.unlink(missing_ok=True)
    url = f"http://127.0.0.1:{port}/"
    with running(["manage.py", "run"], home_environment(home) | {"PORT": str(port)}, log) as process:
        wait_for(lambda: f"ready: {url}" in log.read_text() or process.poll() is not None, "the address")
        assert process.poll() is None, log.read_text()
        yield url
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=45) == 0, log.read_text()
        assert not (home / "postgres" / "postmaster.pid").exists()


def home_environment(home: Path) -> dict[str, str]:
    """The environment of a process that uses the embedded server of this home; the demo publishes nothing new."""
    return {
        "DLQADMIN_HOME": str(home),
        "DLQADMIN_DEMO": "1",
        "DLQADMIN_DEMO_EVERY": "3600",
        "DATABASE_URL": "",
        "CELERY_BROKER_URL": "",
    }


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of a process and of everything that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
