"""A database, names on RabbitMQ and processes that exist for one run only, and are gone after it, also after Ctrl-C."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import psycopg
from amqp.exceptions import AMQPError
from celery import current_app
from django.db import connection
from kombu import Connection
from kombu.exceptions import KombuError
from psycopg import sql

from bench.errors import BenchError
from bench.machine import setting
from bench.names import everything, queue_settings
from dlqadmin.brokers.pgmq import conninfo

ROOT = Path(__file__).resolve().parent.parent
BROKER_VARIABLE = "BENCH_AMQP_URL"
DEFAULT_BROKER = "amqp://guest:guest@127.0.0.1:5672//"
ANSWER_SECONDS = 5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def unbroken() -> Iterator[None]:
    """Finish the block whatever signal comes: a second Ctrl-C must not leave a database behind."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- The database -------------------------------------------------------------------------------------------------


@contextmanager
def scratch_database(name: str) -> Iterator[dict[str, Any]]:
    """Make a database on Django's server and let Django use it; its settings. Dropped at the end.

    BenchError if that is not allowed, or if the server does not wait for its disk.
    """
    home = dict(connection.settings_dict)
    connection.close()
    identifier = sql.Identifier(name)
    with psycopg.connect(conninfo(home), autocommit=True) as admin:
        try:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(identifier))
            connection.settings_dict["NAME"] = name
            _check_durable()
            yield dict(connection.settings_dict)
        except psycopg.errors.InsufficientPrivilege:
            raise BenchError(
                "The database's role may not create databases, and a measurement needs one of its own: "
                "ALTER ROLE … CREATEDB, or unset DATABASE_URL to use the embedded server."
            ) from None
        finally:
            with unbroken():
                connection.close()
                connection.settings_dict["NAME"] = home["NAME"]
                admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(identifier))


def _check_durable() -> None:
    for name in ("fsync", "synchronous_commit"):
        if setting(name) == "off":
            raise BenchError(
                f"The database server has {name}=off: it does not wait for its disk, so its figures say nothing about "
                f"one that loses nothing. Set {name}=on, or measure on another server (DATABASE_URL)."
            )


def database_url(database: Mapping[str, Any]) -> str:
    """The URL of a Django database setting, for the environment of another process."""
    account = quote(database["USER"], safe="")
    if database["PASSWORD"]:
        account += ":" + quote(database["PASSWORD"], safe="")
    place = {"host": database["HOST"], "port": database["PORT"]}
    query = {key: value for key, value in place.items() if value} | dict(database.get("OPTIONS") or {})
    return f"postgres://{account}@/{quote(database['NAME'])}?{urlencode(query)}"


# --- The broker ---------------------------------------------------------------------------------------------------


@contextmanager
def scratch_broker(prefix: str) -> Iterator[tuple[str, str]]:
    """Let Celery in this process use RabbitMQ with queues of this prefix; the broker's URL and what it calls itself.

    The queues and exchanges of the prefix are deleted at the end. BenchError if there is no RabbitMQ.
    """
    url = os.environ.get(BROKER_VARIABLE) or DEFAULT_BROKER
    product = _ask(url)
    before = os.environ.get("CELERY_BROKER_URL")
    os.environ["CELERY_BROKER_URL"] = url  # Celery prefers it to its settings
    current_app.conf.update(broker_url=url, broker_transport_options={}, **queue_settings(prefix))
    try:
        yield url, product
    finally:
        with unbroken():
            os.environ.pop("CELERY_BROKER_URL")
            if before is not None:
                os.environ["CELERY_BROKER_URL"] = before
            _delete(url, everything(prefix))


def _ask(url: str) -> str:
    """Product and version of the broker."""
    if urlsplit(url).scheme not in ("amqp", "amqps", "pyamqp"):
        raise BenchError(f"{BROKER_VARIABLE} must be an amqp:// URL: the peer is Celery on RabbitMQ.")
    broker: Any = Connection(url, connect_timeout=ANSWER_SECONDS)
    errors: tuple[type[Exception], ...] = (AMQPError, KombuError, OSError)
    try:
        with broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=ANSWER_SECONDS)
            properties = broker.connection.server_properties
    except errors as error:
        place = urlsplit(url)
        raise BenchError(
            f"RabbitMQ does not answer at {place.hostname}:{place.port or 5672} ({error}). Start it (Debian: "
            f"`apt install rabbitmq-server`), or set {BROKER_VARIABLE}=amqp://user:password@host:5672//."
        ) from error
    return f"{properties.get('product', 'unknown')} {properties.get('version', '')}".strip()


def _delete(url: str, names: list[str]) -> None:
    with Connection(url, connect_timeout=ANSWER_SECONDS) as broker:
        channel: Any = broker.channel()
        for name in names:
            channel.queue_delete(name)
            for exchange in (name, f"{name}.pidbox", f"reply.{name}.pidbox"):
                channel.exchange_delete(exchange)


# --- Processes ----------------------------------------------------------------------------------------------------


class Processes:
    """Python processes with sessions and logs of their own; the end of the with block kills them all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *error: object) -> None:
        with unbroken():
            for process in self._processes.values():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def start(self, name: str, arguments: list[str], environment: Mapping[str, str]) -> None:
        """`python ARGUMENTS` in the checkout, with these variables added to our own."""
        with self._log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is for us; we end them
            )

    def check(self) -> None:
        """BenchError if one of them has ended by itself."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise BenchError(
                    f"The process {name!r} ended by itself (exit {process.returncode}): the lines above are the end of "
                    "its log. Mend that, then measure again."
                )

    def tail(self, lines: int = 15) -> str:
        """The last lines of every log that has some."""
        texts = {name: self._log(name).read_text(errors="replace").splitlines() for name in self._processes}
        return "\n".join(f"{name}: {line}" for name, text in texts.items() for line in text[-lines:])

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"
