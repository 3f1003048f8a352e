"""The ways of consuming that `bench consume` compares: our runtime, plain Celery, and the bare loop."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from django.db import connection

from bench import bare, effect
from bench.errors import BenchError
from bench.names import peer_queue
from bench.peer import app as peer_app
from bench.sandbox import Processes
from dlqadmin.messages.models import Claim, Message
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.messages.wakeups import wake_now
from dlqadmin.queues.models import AccountDelta, SourceQueue
from dlqadmin.redrive.ledger import read_ledger

AT_ONCE = 5_000  # messages published with one statement
CONTROL_SECONDS = 20.0
CONNECT_SECONDS = 30.0

# What the books call processed, and what died; one statement, because a sweep moves deltas to totals meanwhile.
_FINISHED = """
SELECT coalesce((SELECT sum(total) FROM dlqadmin_account WHERE queue_id = %(queue)s AND kind = 'processed'), 0)
    + coalesce((SELECT sum(delta) FROM dlqadmin_accountdelta WHERE queue_id = %(queue)s AND kind = 'processed'), 0)
    + (SELECT count(*) FROM dlqadmin_deadletter WHERE queue_id = %(queue)s AND state = 'open')
"""


def _expect_effects(name: str, expected: int, *, exactly: bool) -> None:
    rows, messages = effect.effects()
    if messages != expected or (exactly and rows != expected):
        raise BenchError(
            f"Variant {name} left {rows} rows of {messages} messages instead of {expected}: messages were lost or "
            "doubled. That is a defect; its figures mean nothing."
        )


@dataclass
class Ours:
    """Our runtime on a queue of its own, which is paused while messages are heaped up."""

    name: str
    what: str
    warm_up: int
    processes: Processes
    inserts: bool = True
    poisonous: bool = False
    queue: SourceQueue = field(init=False)
    before: int = 0  # finished in earlier rounds

    def __post_init__(self) -> None:
        self.queue = SourceQueue.objects.create(
            name=f"bench-{self.name}",
            concurrency=2,
            paused=True,
            max_attempts=3,
            backoff_base=0.0,
            backoff_jitter=False,
        )

    def prepare(self, number: int) -> None:
        """Publish them, as a user's code would; then tidy up after earlier rounds, as autovacuum would in time."""
        effect.clear()
        self.before = self._finished_ever()
        self.expected = _successes(number, self.poisonous) if self.inserts else 0
        for first in range(0, number, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, number))
            publish_many(self.queue, [Outgoing(type="insert", body={"n": n}) for n in numbers])
        with connection.cursor() as cursor:
            for model in (Message, Claim, AccountDelta):
                cursor.execute(f"VACUUM (ANALYZE) {model._meta.db_table}")

    def start(self) -> None:
        """Unpause and wake, as a publisher would."""
        self._pause(False)
        wake_now(self.queue.pk)

    def finished(self) -> int:
        """Settled: processed or dead."""
        return self._finished_ever() - self.before

    def check(self) -> None:
        """The workers live."""
        self.processes.check()

    def stop(self) -> None:
        """Pause; the books must add up, and every effect must be there once."""
        self._pause(True)
        ledger = read_ledger(self.queue.pk)
        if ledger.difference or ledger.waiting or ledger.running:
            raise BenchError(f"The books of {self.queue} do not add up: {ledger}. That is a defect.")
        _expect_effects(self.name, self.expected, exactly=True)

    def _pause(self, paused: bool) -> None:
        SourceQueue.objects.filter(pk=self.queue.pk).update(paused=paused)

    def _finished_ever(self) -> int:
        with connection.cursor() as cursor:
            cursor.execute(_FINISHED, {"queue": self.queue.pk})
            return int(cursor.fetchone()[0])


@dataclass
class Peer:
    """Plain Celery: a running worker, which is told to read the queue once all tasks are in it."""

    name: str
    what: str
    warm_up: int
    processes: Processes
    prefix: str
    node: str  # the worker's name
    given_up: Path  # one byte for each task that was given up
    poisonous: bool = False
    before: int = 0

    def prepare(self, number: int) -> None:
        """Send the tasks, over one connection."""
        effect.clear()
        self.before = self.given_up.stat().st_size
        self.expected = _successes(number, self.poisonous)
        task = "bench.poison" if self.poisonous else "bench.insert"
        with peer_app.producer_or_acquire() as producer:
            for n in range(number):
                peer_app.send_task(task, args=[n], queue=self._queue, producer=producer)

    def start(self) -> None:
        """Let the worker read the queue."""
        self._tell("add_consumer")

    def finished(self) -> int:
        """Effects that are committed, and tasks that were given up."""
        return effect.count() + self.given_up.stat().st_size - self.before

    def check(self) -> None:
        """The workers live."""
        self.processes.check()

    def stop(self) -> None:
        """The worker reads the queue no more; at least once is all that is asked of it."""
        self._tell("cancel_consumer")
        _expect_effects(self.name, self.expected, exactly=False)

    def wait_until_ready(self) -> None:
        """The worker answers."""
        for _ in range(int(CONTROL_SECONDS)):
            self.processes.check()
            if peer_app.control.ping(destination=[self.node], timeout=1.0, limit=1):
                return
        raise BenchError(
            f"The peer's worker {self.node} did not start within {CONTROL_SECONDS:g} s: try again."
        )

    @property
    def _queue(self) -> str:
        return peer_queue(self.prefix, self.name)

    def _tell(self, command: str) -> None:
        arguments = {"queue": self._queue}
        to: dict[str, Any] = {
            "destination": [self.node],
            "reply": True,
            "timeout": CONTROL_SECONDS,
            "limit": 1,
        }
        if not peer_app.control.broadcast(command, arguments=arguments, **to):
            raise BenchError(f"The peer's worker {self.node} did not answer {command}: try again.")


@dataclass
class Bare:
    """The limit: the bare loop in two processes."""

    name: str
    what: str
    warm_up: int
    conninfo: str
    loops: bare.Loops | None = None

    def prepare(self, number: int) -> None:
        """Fill the table and connect."""
        with psycopg.connect(self.conninfo, autocommit=True) as own:
            bare.fill(own, number)
        self.loops = bare.Loops(self.conninfo, 2)
        if not self.loops.wait_until_connected(CONNECT_SECONDS):
            raise BenchError(
                "The bare loop could not connect to the database: is its max_connections too low?"
            )

    def start(self) -> None:
        """Go."""
        assert self.loops
        self.loops.go()

    def finished(self) -> int:
        """Deleted."""
        assert self.loops
        return self.loops.finished()

    def check(self) -> None:
        """A loop that fails ends, and the rest is done by the other or stands still, which is noticed."""

    def stop(self) -> None:
        """End the loops."""
        if self.loops:
            self.loops.end()
            self.loops = None


def touch(path: Path) -> Path:
    """An empty file."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return path


def _successes(number: int, poisonous: bool) -> int:
    """How many of the messages 0 … number - 1 leave a row."""
    return number - len(range(0, number, effect.POISON_EVERY)) if poisonous else number
