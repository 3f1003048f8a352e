"""The embedded PostgreSQL: real servers in temporary homes."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import psycopg
import pytest

from dlqadmin import embedded
from tests.server import remove_home

CHECKOUT = Path(__file__).parent.parent
IS_ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not IS_ROOT, reason="needs root")
as_ordinary_user = pytest.mark.skipif(IS_ROOT, reason="root may do everything")


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home. Not pytest's tmp_path, whose parents are closed to the server's user when we are root."""
    folder = Path(tempfile.mkdtemp(prefix="dlqadmin-home-"))
    yield folder
    remove_home(folder)


def running(home: Path) -> dict[str, str]:
    return embedded.ensure_running(home, fsync=False)


def query(home: Path, statement: str) -> object:
    with psycopg.connect(**embedded.address(home), autocommit=True) as connection:
        cursor = connection.execute(statement)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def postmaster(home: Path) -> int:
    return int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0])


def kill_postmaster(home: Path) -> int:
    pid = postmaster(home)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not embedded.is_running(home))
    return pid


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 30 s"
        time.sleep(0.01)


def error_of(home: Path, **options) -> str:
    """The message of the EmbeddedError that ensure_running raises: one line, and it names a way out."""
    with pytest.raises(embedded.EmbeddedError) as caught:
        embedded.ensure_running(home, fsync=False, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


class TestStarting:
    def test_the_first_call_makes_a_utf8_database_reached_by_a_private_socket_only(self, home):
        assert running(home) == embedded.address(home)
        assert query(home, "SELECT current_database()") == "dlqadmin"
        assert query(home, "SELECT lower('ÄÖ') || current_setting('server_encoding')") == "äöUTF8"
        assert query(home, "SHOW listen_addresses") == ""
        assert Path(embedded.address(home)["host"]).stat().st_mode & 0o777 == 0o700
        assert (home / "postgres").stat().st_mode & 0o777 == 0o700

    def test_a_running_server_is_found_without_starting_any_program(self, home, monkeypatch):
        running(home)
        with monkeypatch.context() as patch:
            patch.setattr(embedded, "_run", None)
            assert running(home) == embedded.address(home)

    def test_the_address_is_known_before_anything_exists(self, tmp_path):
        where = embedded.address(tmp_path / "nowhere")
        assert where["dbname"] == "dlqadmin"
        assert not (tmp_path / "nowhere").exists()

    def test_six_processes_may_start_it_at_once(self, home):
        code = "import sys; from dlqadmin import embedded; embedded.ensure_running(sys.argv[1], fsync=False)"
        command = [sys.executable, "-c", code, str(home)]
        callers = [subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.PIPE) for _ in range(6)]
        assert [(caller.communicate(timeout=60)[1], caller.returncode) for caller in callers] == [
            (b"", 0)
        ] * 6
        assert query(home, "SELECT 1") == 1

    def test_a_database_that_was_dropped_is_made_again(self, home):
        running(home)
        with psycopg.connect(
            **embedded.address(home) | {"dbname": "postgres"}, autocommit=True
        ) as connection:
            connection.execute("DROP DATABASE dlqadmin")
        running(home)
        assert query(home, "SELECT 1") == 1

    def test_settings_of_the_caller_reach_the_server(self, home):
        embedded.ensure_running(
            home, fsync=False, extra_settings={"work_mem": "12MB", "application_name": "it's $HOME"}
        )
        assert query(home, "SHOW work_mem") == "12MB"
        assert query(home, "SHOW fsync") == "off"

    def test_a_folder_with_spaces_quotes_commas_and_dollars_in_its_name_works(self, home):
        odd = home / 'it\'s $HOME, "so" `so`'
        home.chmod(0o711)
        try:
            running(odd)
            assert query(odd, "SELECT 1") == 1
        finally:
            remove_home(odd)

    def test_a_long_path_has_its_socket_in_a_private_folder_elsewhere(self, home):
        home.chmod(0o711)
        deep = home / ("long" * 30) / "home"
        deep.parent.mkdir()
        try:
            socket_folder = Path(running(deep)["host"])
            assert not socket_folder.is_relative_to(deep)
            assert socket_folder.stat().st_mode & 0o777 == 0o700
            assert query(deep, "SELECT 1") == 1
        finally:
            remove_home(deep)

    @pytest.mark.parametrize("trap", ["open folder", "symbolic link"])
    def test_a_socket_folder_that_others_could_have_prepared_is_refused(self, home, trap):
        deep = home / ("long" * 30)
        socket_folder = Path(embedded.address(deep)["host"])
        if trap == "open folder":
            socket_folder.mkdir()
            socket_folder.chmod(0o777)
        else:
            socket_folder.symlink_to(home)
        home.chmod(0o711)
        try:
            assert f"{socket_folder}, the folder of PostgreSQL's socket, is not private" in error_of(deep)
        finally:
            socket_folder.unlink() if socket_folder.is_symlink() else socket_folder.rmdir()

    def test_files_made_under_umask_077_do_not_hinder_it(self, home):
        code = "import sys; from dlqadmin import embedded; embedded.ensure_running(sys.argv[1], fsync=False)"
        command = [sys.executable, "-c", code, str(home / "new")]
        home.chmod(0o711)
        try:
            subprocess.run(command, cwd=CHECKOUT, umask=0o077, check=True, timeout=60)
            assert query(home / "new", "SELECT 1") == 1
        finally:
            remove_home(home / "new")


class TestRecovering:
    def test_committed_rows_survive_the_kill_of_the_server(self, home):
        running(home)
        query(home, "CREATE TABLE kept AS SELECT 42 AS number")
        killed = kill_postmaster(home)
        running(home)
        assert postmaster(home) != killed
        assert query(home, "SELECT number FROM kept") == 42

    def test_an_old_process_id_that_now_belongs_to_another_program_does_not_matter(self, home):
        running(home)
        killed = kill_postmaster(home)
        pid_file = home / "postgres" / "postmaster.pid"
        pid_file.write_text(pid_file.read_text().replace(str(killed), str(os.getpid()), 1))
        lock = Path(embedded.address(home)["host"]) / ".s.PGSQL.5432.lock"
        lock.write_text(lock.read_text().replace(str(killed), str(os.getpid()), 1))
        assert not embedded.is_running(home)
        running(home)
        assert query(home, "SELECT 1") == 1

    def test_a_server_whose_socket_was_removed_is_restarted(self, home, monkeypatch):
        monkeypatch.setattr(embedded, "SOCKET_SECONDS", 0.1)
        running(home)
        before = postmaster(home)
        (Path(embedded.address(home)["host"]) / ".s.PGSQL.5432").unlink()
        running(home)
        assert postmaster(home) != before
        assert query(home, "SELECT 1") == 1

    def test_an_interrupted_initdb_is_done_again(self, home):
        (home / "postgres.new").mkdir()
        (home / "postgres.new" / "half").write_text("a half")
        running(home)
        assert not (home / "postgres.new").exists()

    def test_a_long_log_is_put_aside(self, home, monkeypatch):
        monkeypatch.setattr(embedded, "LONGEST_LOG", 10)
        running(home)
        embedded.stop(home)
        running(home)
        assert (home / "postgres.log.1").exists()


class TestStopping:
    def test_stop_waits_for_the_end_and_tells_whether_one_ran(self, home):
        running(home)
        pid = postmaster(home)
        assert embedded.is_running(home)
        assert embedded.stop(home) is True
        assert not embedded.is_running(home)
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        assert embedded.stop(home) is False

    def test_stopping_a_home_that_does_not_exist_is_no_error(self, tmp_path):
        assert embedded.stop(tmp_path / "nowhere") is False

    def test_the_command_line_starts_tells_and_stops(self, home):
        def call(verb: str) -> str:
            command = [sys.executable, "-m", "dlqadmin.embedded", verb]
            environment = os.environ | {"DLQADMIN_HOME": str(home)}
            return subprocess.check_output(command, cwd=CHECKOUT, env=environment, text=True, timeout=60)

        assert call("start") == f"PostgreSQL answers at {embedded.address(home)['host']}\n"
        assert call("status") == "PostgreSQL is running.\n"
        assert call("stop") == "PostgreSQL stopped.\n"
        assert call("stop") == "PostgreSQL was not running.\n"


class TestErrors:
    def test_a_platform_without_the_programs_is_sent_to_database_url(self, home, monkeypatch):
        monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
        assert "set DATABASE_URL" in error_of(home)

    def test_a_nearly_full_disk_is_named_before_anything_is_written(self, home, monkeypatch):
        monkeypatch.setattr(embedded.shutil, "disk_usage", lambda path: SimpleNamespace(free=2**20))
        assert f"The disk of {home} is full" in error_of(home)
        assert not (home / "postgres.new").exists()

    def test_a_disk_that_becomes_full_is_recognised_in_what_the_server_says(self, home):
        said = 'FATAL:  could not write lock file "postmaster.pid": No space left on device'
        assert embedded._failure("PostgreSQL did not start", said, home).startswith(
            f"The disk of {home} is full"
        )

    def test_a_server_that_refuses_to_start_is_quoted(self, home):
        message = error_of(home, extra_settings={"work_mem": "a lot"})
        assert 'invalid value for parameter "work_mem": "a lot"' in message
        assert str(home / "postgres.log") in message

    def test_a_server_that_does_not_answer_in_time_is_reported_with_its_log(self, home, monkeypatch):
        running(home)
        os.kill(postmaster(home), signal.SIGSTOP)
        monkeypatch.setattr(embedded, "START_SECONDS", 0.1)
        monkeypatch.setattr(embedded, "CONNECT_SECONDS", 2)
        try:
            message = error_of(home)
        finally:
            os.kill(postmaster(home), signal.SIGCONT)
        assert "did not start within 0.1 s" in message
        assert "database system is ready" in message
        assert str(home / "postgres.log") in message

    def test_a_home_that_cannot_be_made_is_named(self, home):
        (home / "file").write_text("")
        assert f"{home / 'file' / 'home'} cannot be used" in error_of(home / "file" / "home")

    def test_a_folder_of_other_things_is_not_overwritten(self, home):
        (home / "postgres").mkdir(mode=0o700)
        (home / "postgres" / "letters").write_text("mine")
        if IS_ROOT:
            shutil.chown(home / "postgres", "nobody")
        assert "holds no PostgreSQL data" in error_of(home)
        assert (home / "postgres" / "letters").read_text() == "mine"

    def test_data_of_another_major_version_is_not_touched(self, home):
        running(home)
        embedded.stop(home)
        (home / "postgres" / "PG_VERSION").write_text("17\n")
        assert "was made by PostgreSQL 17" in error_of(home)

    @as_root
    def test_the_home_of_another_user_is_refused(self, home):
        shutil.chown(home, "nobody")
        assert "belongs to the user nobody" in error_of(home)

    @as_ordinary_user
    def test_the_home_of_root_is_refused(self):
        assert "belongs to the user root" in error_of(Path("/usr"))

    @as_ordinary_user
    def test_a_folder_that_may_not_be_written_to_is_named(self, home):
        home.chmod(0o500)
        assert "cannot be used (Permission denied" in error_of(home / "new")


@as_root
class TestAsRoot:
    def test_the_server_runs_as_an_unprivileged_user(self, home):
        running(home)
        assert psutil.Process(postmaster(home)).uids().real != 0

    def test_a_closed_parent_gets_the_x_bit_and_is_named(self, home, capfd):
        home.chmod(0o700)
        try:
            running(home / "inner")
            assert home.stat().st_mode & 0o777 == 0o701
            assert f"Let other users pass through {home} (o+x)" in capfd.readouterr().err
        finally:
            remove_home(home / "inner")

    def test_an_open_parent_is_left_alone(self, home, capfd):
        home.chmod(0o755)
        try:
            running(home / "inner")
            assert home.stat().st_mode & 0o777 == 0o755
            assert capfd.readouterr().err == ""
        finally:
            remove_home(home / "inner")
