"""Section 3 of the published figures: events that arrive late or twice, and what a version stamp saves and drops.

The disturbed log is published in the order of its delivery and consumed, in that order, by one consumer of the real
runtime. What it processed and discarded is read from the books, what it did from rows that its handler wrote.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection

from dlqadmin.consumers.consume import consume_batch
from dlqadmin.consumers.registry import declared
from dlqadmin.consumers.run import IncomingMessage
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.ledger import Ledger, read_ledger
from dlqadmin.reproduce.scratch import scratch_queue
from dlqadmin.reproduce.table import Row, Table

TYPE = "copy_changed"
ENTITIES, VERSIONS = 10, 300
SEED = 20260731
RELEASE_RATE = 0.10  # of a late event, each time that another event was delivered
PLAIN, LATEST = SourceQueue.Idempotency.PLAIN, SourceQueue.Idempotency.LATEST

# What the queue will deliver: the claim's order must be the order of publishing, or the figures measure another log.
_ARRIVALS = """
SELECT count(*) FILTER (WHERE version < newest), count(*) FILTER (WHERE available_at < due_before) FROM (
    SELECT version, available_at, lag(available_at) OVER (ORDER BY position) AS due_before,
        max(version) OVER (PARTITION BY key ORDER BY position) AS newest
    FROM dlqadmin_message WHERE queue_id = %s
) AS arrival
"""

# Of this session, and gone after the reproduction: what the handler did, and the last state that it knows.
_MAKE_TABLES = """
CREATE TEMPORARY TABLE reproduce_effect (message_id text NOT NULL);
CREATE TEMPORARY TABLE reproduce_state (entity bytea PRIMARY KEY, state text NOT NULL);
"""
_ACT = "INSERT INTO reproduce_effect VALUES (%s)"
_KEEP = """
INSERT INTO reproduce_state VALUES (%s, %s) ON CONFLICT (entity) DO UPDATE SET state = excluded.state
"""


@dataclass(frozen=True, slots=True)
class Event:
    """One change of an entity, 1 to ENTITIES. `number`: its id, from 1 in the order of the log."""

    number: int
    entity: int
    version: int

    @property
    def state(self) -> str:
        """Copies are lent and given back in turn."""
        return "borrowed" if self.version % 2 else "on_shelf"

    def outgoing(self) -> Outgoing:
        """The event as a message."""
        return Outgoing(
            type=TYPE,
            body={"state": self.state},
            key=str(self.entity),
            version=self.version,
            message_id=str(self.number),
        )


class Draws:
    """The published generator: the same draws for the same seed, everywhere."""

    def __init__(self, seed: int = SEED) -> None:
        self._d = seed

    def below(self, rate: float) -> bool:
        """Draw a number from 0 to 1; whether it is below `rate`."""
        self._d = (self._d * 1103515245 + 12345) % 2**32
        return (self._d >> 8) / 16777216 < rate


def event_log() -> list[Event]:
    """What happened, in its order. Pure."""
    pairs = [(version, entity) for version in range(1, VERSIONS + 1) for entity in range(1, ENTITIES + 1)]
    return [Event(number, entity, version) for number, (version, entity) in enumerate(pairs, 1)]


def disturb(log: list[Event], late: float, dup: float) -> list[Event]:
    """The log as it is delivered: shares `late` of its events later, `dup` of the others twice. Pure."""
    draws, waiting, delivered = Draws(), deque[Event](), list[Event]()
    for event in log:
        if draws.below(late):
            waiting.append(event)
            continue
        delivered.append(event)
        if waiting and draws.below(RELEASE_RATE):
            delivered.append(waiting.popleft())
        if draws.below(dup):
            delivered.append(event)
    return [*delivered, *waiting]


def order() -> list[Table]:
    """The table: three plain consumers and one with a version stamp."""
    settings = [(PLAIN, 0, 0.15), (PLAIN, 0.2, 0), (PLAIN, 0.2, 0.15), (LATEST, 0.2, 0.15)]
    return [
        Table(
            "3. Event order and duplicates",
            (
                "consumer",
                "late",
                "dup",
                "log",
                "delivered",
                "out of order",
                "processed",
                "discarded (duplicate + stale)",
                "side effects",
                "entities wrong",
                "queries",
            ),
            published=[
                ("plain", 0, 0.15, 3000, 3452, 0, 3452, "0", 3452, "0/10", 6904),
                ("plain", 0.2, 0, 3000, 3000, 585, 3000, "0", 3000, "4/10", 6000),
                ("plain", 0.2, 0.15, 3000, 3359, 585, 3359, "0", 3359, "4/10", 6718),
                ("version stamp", 0.2, 0.15, 3000, 3359, 585, 2415, "944 (359 + 585)", 2415, "0/10", 8189),
            ],
            measured=[_row(*setting) for setting in settings],
            not_compared=("queries",),  # docs/decisions/0012
        )
    ]


def _row(idempotency: SourceQueue.Idempotency, late: float, dup: float) -> Row:
    log = event_log()
    deliveries = disturb(log, late, dup)
    with (
        _tables(),
        scratch_queue(3, idempotency=idempotency) as queue,
        declared(queue.name, type=TYPE, function=_keep_last_state, repeatable=True),
    ):
        publish_many(queue, [event.outgoing() for event in deliveries])
        out_of_order = _count_out_of_order(queue)
        queries = _consume(queue)
        ledger = read_ledger(queue.pk)
        return (
            "plain" if idempotency is PLAIN else "version stamp",
            late,
            dup,
            len(log),
            ledger.received,
            out_of_order,
            ledger.processed,
            _discarded(ledger),
            _ask("SELECT count(*) FROM reproduce_effect")[0][0],
            f"{_wrong_entities(log)}/{ENTITIES}",
            queries,
        )


def _keep_last_state(message: IncomingMessage) -> None:
    """A consumer that acts on every event, and remembers what it was told last."""
    with connection.cursor() as cursor:
        cursor.execute(_ACT, [message.id])
        cursor.execute(_KEEP, [message.key, message.data["state"]])


def _count_out_of_order(queue: SourceQueue) -> int:
    """How many of the waiting messages come after a newer version of their key."""
    older, misplaced = _ask(_ARRIVALS, queue.pk)[0]
    if misplaced:
        raise AssertionError(f"the clock was set back, so {misplaced} messages would come in another order")
    return int(older)


def _consume(queue: SourceQueue) -> int:
    """Consume until nothing is left; the number of SQL statements that it took."""
    queries = 0

    def count(execute: Any, *arguments: Any) -> Any:
        nonlocal queries
        queries += 1
        return execute(*arguments)

    with connection.execute_wrapper(count):
        while consume_batch(queue):
            pass
    return queries


def _wrong_entities(log: list[Event]) -> int:
    """How many entities are remembered in another state than the log leaves them in."""
    right = {str(event.entity): event.state for event in log}
    known = {bytes(entity).decode(): state for entity, state in _ask("SELECT * FROM reproduce_state")}
    return sum(known.get(entity) != state for entity, state in right.items())


def _discarded(ledger: Ledger) -> str:
    total = ledger.duplicate + ledger.stale
    return f"{total} ({ledger.duplicate} + {ledger.stale})" if total else "0"


def _ask(query: str, *values: int) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


@contextmanager
def _tables() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(_MAKE_TABLES)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE reproduce_effect, reproduce_state")
