"""A row for each living process. The broker's remote control cannot be relied on, so liveness is a heartbeat."""

import logging
import threading
from typing import Any

from celery import signals
from django.db import DatabaseError, InterfaceError, connection

from dlqadmin.leases.node import node_name

logger = logging.getLogger(__name__)

EVERY = 5.0  # seconds
ALIVE = 15.0  # seconds after its last beat, a process counts as gone

_BEAT = """
INSERT INTO dlqadmin_heartbeat (node, role, seen_at, started_at, detail)
VALUES (%s, %s, clock_timestamp(), clock_timestamp(), '{}')
ON CONFLICT (node) DO UPDATE SET seen_at = clock_timestamp()
"""


def beat(node: str, role: str) -> None:
    """Say that this process lives."""
    with connection.cursor() as cursor:
        cursor.execute(_BEAT, [node, role])


def leave(node: str, using: Any = connection) -> None:
    """Say that this process ends on purpose. `using`: another connection than this thread's."""
    with using.cursor() as cursor:
        cursor.execute("DELETE FROM dlqadmin_heartbeat WHERE node = %s", [node])


class WorkerHeart(threading.Thread):
    """Beats for a Celery worker, from its main process."""

    def __init__(self, node: str, role: str) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self.node, self.role = node, role
        self.ended = threading.Event()

    def run(self) -> None:
        """Beat until the worker ends; a database that is away is tried again at the next beat."""
        while True:
            self._try(lambda: beat(self.node, self.role))
            if self.ended.wait(EVERY):
                self._try(lambda: leave(self.node))
                return

    def _try(self, act: Any) -> None:
        try:
            act()
        except (DatabaseError, InterfaceError):
            logger.info("The heartbeat of %s did not reach the database.", self.node)
        finally:
            connection.close()


_hearts: list[WorkerHeart] = []


@signals.worker_ready.connect
def _start(sender: Any, **_: Any) -> None:
    queues = ", ".join(sorted(queue.name for queue in sender.task_consumer.queues))
    heart = WorkerHeart(node_name(str(sender.hostname).partition("@")[0]), queues)
    heart.start()
    _hearts.append(heart)


@signals.worker_shutting_down.connect
def _stop(**_: Any) -> None:
    for heart in _hearts:
        heart.ended.set()
