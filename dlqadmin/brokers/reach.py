"""Whether Celery's broker answers."""

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psycopg
from celery import Celery, current_app
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
_asking: "_Question | None" = None


class _Question(threading.Thread):
    """Asks once. A thread, because not every transport can be told to give up waiting for an answer."""

    def __init__(self, app: Celery) -> None:
        super().__init__(name="reach-broker", daemon=True)
        self.app = app
        self.reached = False

    def run(self) -> None:
        """Connect, and let go."""
        try:
            with self.app.connection_for_write(connect_timeout=SECONDS) as asked:
                if asked.transport_cls == "pgmq":  # its channel connects only when it sends
                    psycopg.connect(_conninfo(asked), connect_timeout=SECONDS).close()
                else:
                    asked.ensure_connection(max_retries=1, interval_start=0, timeout=SECONDS)
            self.reached = True
        except Exception as error:  # noqa: BLE001 - every transport raises its own errors
            logger.info("The broker did not answer: %s", type(error).__name__)


def reach_broker() -> Reach:
    """Whether the broker answered, at most KEEP seconds ago. Takes SECONDS at most; one question is open at a time."""
    global _kept, _asking
    if _kept is None or time.monotonic() - _kept[0] > KEEP:
        if _asking is None or not _asking.is_alive():
            _asking = _Question(current_app)
            _asking.start()
        _asking.join(SECONDS)
        _kept = (time.monotonic(), Reach(_name(current_app.conf.broker_url), _asking.reached))
    return _kept[1]


def _name(url: str) -> str:
    """Transport and host of a broker's URL."""
    parts = urlsplit(url)
    return (
        "PostgreSQL (pgmq)" if parts.scheme == "pgmq" else f"{parts.scheme}, {parts.hostname or 'localhost'}"
    )


def _conninfo(asked: Any) -> str:
    """Where pgmq's database is: as its transport option says, else as its URL says."""
    given = asked.transport_options.get("conn_string")
    account = {"user": asked.userid, "password": asked.password, "host": asked.hostname, "port": asked.port}
    return given or make_conninfo(**account, dbname=asked.virtual_host)
