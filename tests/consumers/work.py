"""What tests of consumers have in common: messages, effects, and a second session of the database."""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from django.db import connection, transaction

from dlqadmin.clock import ClockTimestamp
from dlqadmin.consumers.consume import consume_batch
from dlqadmin.consumers.settle import Outcome
from dlqadmin.messages.models import Claim
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.people.models import Owner
from dlqadmin.queues.models import SourceQueue

# A message that failed is not due again within a test.
LONG = 3600.0


def publish_notes(queue: SourceQueue, numbers: Iterable[int], **fields: Any) -> list[int]:
    """Publish messages of type `note` with these numbers as `n`; their ids."""
    return publish_many(queue, [Outgoing(**{"type": "note", "body": {"n": n}} | fields) for n in numbers])


def publish_keyed(queue: SourceQueue, *notes: tuple[str, int], **fields: Any) -> list[int]:
    """Publish messages of these keys and numbers; their ids."""
    return publish_many(
        queue, [Outgoing(**{"type": "note", "body": {"n": n}, "key": key} | fields) for key, n in notes]
    )


def drain(queue: SourceQueue, size: int = 100) -> Counter[Outcome]:
    """Consume batches until nothing is due; what came of it, without what was given back."""
    total: Counter[Outcome] = Counter()
    while outcomes := +consume_batch(queue, size):
        total += outcomes
    del total[Outcome.GIVEN_BACK]
    return total


def leave_effect(what: object) -> None:
    """An effect in the database that can be counted."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO dlqadmin_owner (name, slug, email, channels) VALUES (%s, %s, '', '[]')",
            [f"effect/{what}/{uuid.uuid4().hex}", uuid.uuid4().hex],
        )


def effects() -> list[str]:
    """What was left behind, in the order in which it was."""
    names = Owner.objects.filter(name__startswith="effect/").order_by("id").values_list("name", flat=True)
    return [name.split("/")[1] for name in names]


def effect_counts() -> Counter[int]:
    """How often each number was left behind."""
    return Counter(int(what) for what in effects())


def expire_now() -> None:
    """The time of every claim has run out."""
    Claim.objects.update(until=ClockTimestamp())


class Session:
    """A second session of the database: a thread with a connection of its own, which does what it is told."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._stack = ExitStack()

    def do(self, function: Callable[..., Any], *values: Any, **named: Any) -> Any:
        """Do it there and wait for it."""
        return self.start(function, *values, **named).result(timeout=30)

    def start(self, function: Callable[..., Any], *values: Any, **named: Any) -> Future[Any]:
        """Begin with it there."""
        return self._thread.submit(function, *values, **named)

    def begin(self) -> None:
        """Open a transaction there."""
        self.do(lambda: self._stack.enter_context(transaction.atomic()))

    def commit(self) -> None:
        """Commit it."""
        self.do(self._stack.close)

    def close(self) -> None:
        """End the session."""
        self.do(self._stack.close)
        self.do(lambda: connection.close())  # that thread's, not ours
        self._thread.shutdown()


def wait_until_blocked(working: "Future[Any]", seconds: float = 20.0) -> bool:
    """Wait until some session waits for a lock, or the work is done without that; whether one waits."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not working.done():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # else a transaction sees the same all the time
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if cursor.fetchone()[0]:
                return True
        time.sleep(0.01)
    return False
