"""Whether Celery's broker answers."""

import logging
import time
from dataclasses import dataclass
from typing import Any

import psycopg
from celery import current_app
from psycopg.conninfo import make_conninfo

logger = logging.getLogger(__name__)

SECONDS = 2  # the longest that the question may take
KEEP = 10.0  # seconds for which this process keeps the answer: pages poll


@dataclass(frozen=True, slots=True)
class Reach:
    """`broker`: transport and host, never an account or a password."""

    broker: str
    reached: bool


_kept: tuple[float, Reach] | None = None


def reach_broker() -> Reach:
    """Whether the broker answered, at most KEEP seconds ago."""
    global _kept
    if _kept is None or time.monotonic() - _kept[0] > KEEP:
        _kept = (time.monotonic(), _ask())
    return _kept[1]


def _ask() -> Reach:
    with current_app.connection_for_write(connect_timeout=SECONDS) as asked:
        name = (
            "PostgreSQL (pgmq)"
            if asked.transport_cls == "pgmq"
            else f"{asked.transport_cls}, {asked.hostname}"
        )
        try:
            if asked.transport_cls == "pgmq":  # its channel connects only when it sends
                psycopg.connect(_conninfo(asked), connect_timeout=SECONDS).close()
            else:
                asked.ensure_connection(max_retries=1, interval_start=0, timeout=SECONDS)
            reached = True
        except Exception as error:  # noqa: BLE001 - every transport raises its own errors
            logger.info("The broker did not answer: %s", type(error).__name__)
            reached = False
    return Reach(name, reached)


def _conninfo(asked: Any) -> str:
    """Where pgmq's database is: as its transport option says, else as its URL says."""
    given = asked.transport_options.get("conn_string")
    account = {"user": asked.userid, "password": asked.password, "host": asked.hostname, "port": asked.port}
    return given or make_conninfo(**account, dbname=asked.virtual_host)
