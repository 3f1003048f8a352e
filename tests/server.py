"""A PostgreSQL server of the test suite's own: a new one per run, without fsync, removed at the end.

Only one process of a run calls this (under pytest-xdist the controller); the others connect to its address.
"""

import os
import shutil
import tempfile
from pathlib import Path

import psutil

from dlqadmin import embedded

PREFIX = "dlqadmin-tests-"
SETTINGS = {"wal_level": "minimal", "max_wal_senders": "0", "max_wal_size": "4GB", "checkpoint_timeout": "1h"}

_home: Path | None = None


def new_home() -> Path:
    """An empty folder for a server, straight in the temporary folder.

    Not one of pytest's: as root the server's user must pass through all its parents, and every pytest that starts
    closes pytest's own base folder.
    """
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def start_test_server() -> Path:
    """Start the server unless this process has done so; the home folder that it runs in."""
    global _home
    if _home is None:
        _remove_abandoned()
        _home = new_home()
    embedded.ensure_running(_home, fsync=False, extra_settings=SETTINGS)
    return _home


def stop_test_server() -> None:
    """Stop the server and remove its folder; nothing if it was not started."""
    global _home
    if _home is not None:
        remove_home(_home)
        _home = None


def remove_home(home: Path) -> None:
    """Stop the server of a home at once, and remove the home with the socket's folder."""
    embedded.stop(home, mode="immediate")
    shutil.rmtree(embedded.address(home)["host"], ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)


def _remove_abandoned() -> None:
    """Remove what test runs left behind that were killed."""
    for home in Path(tempfile.gettempdir()).glob(f"{PREFIX}[0-9]*-*"):
        process = int(home.name.removeprefix(PREFIX).partition("-")[0])
        if home.stat().st_uid == os.geteuid() and not psutil.pid_exists(process):
            remove_home(home)
