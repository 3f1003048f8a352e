"""`manage.py bench claim`: what a claim of 100 costs behind a million messages, and what it reads (bench/README.md)."""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management import call_command
from django.db import connection, transaction

from bench import machine
from bench.errors import BenchError
from bench.report import Figure, Report, Target
from bench.sandbox import scratch_database
from dlqadmin.consumers.claim import Claim, claim_batch
from dlqadmin.consumers.consume import Claims
from dlqadmin.consumers.settle import give_back
from dlqadmin.queues.models import SourceQueue

Say = Callable[[str], None]

SIZE = 100
MOST_MS = 10.0
CLAIMS = 50
CYCLES = 300

_MESSAGES = """
INSERT INTO dlqadmin_message (id, position, queue_id, message_id, key, type, body, content_type, content_encoding,
    headers, lineage, by_key, generation, attempts, lost, suspect, available_at, published_at)
SELECT n, n, %(queue)s, n::text, {key}, 'note', '\\x7b7d', '', '', '[]', gen_random_uuid(), {key} IS NOT NULL, 0, 0, 0,
    false, clock_timestamp() + make_interval(secs => {wait}), clock_timestamp()
FROM (SELECT nextval(pg_get_serial_sequence('dlqadmin_message', 'id')) AS n, k
    FROM generate_series(1, %(number)s) AS k) AS made
"""

# As consumers file them: in the order of arrival, and a key is due when its head is.
_KEYS = """
INSERT INTO dlqadmin_queuekey (queue_id, key, head, due_at, suspect, blocked_at)
SELECT queue_id, key, min(position), min(available_at) + CASE WHEN key = 'k0' THEN interval '1 day' ELSE '0' END, false,
    CASE WHEN key = 'k0' THEN clock_timestamp() END
FROM dlqadmin_message WHERE queue_id = %s GROUP BY queue_id, key ORDER BY 3
"""


def claim(quick: bool, say: Say) -> Report:
    """Measure a claim in each situation; `say` takes lines of progress. Raises BenchError."""
    number = 100_000 if quick else 1_000_000
    with scratch_database(f"dlqadmin_bench_{secrets.token_hex(4)}"):
        call_command("migrate", verbosity=0, interactive=False)
        facts = machine.describe("not used")
        times, rows = [], []
        for name, what, situation, most in _SITUATIONS:
            say(f"{name}: {what}")
            with situation(number) as (queue, by_key):
                times.append(Target(Figure(name, what, "ms", _times(queue, by_key)), "<=", MOST_MS))
                read = Figure(f"{name} rows", f"{what}: rows read", "rows/message", [_rows(queue, by_key)])
                rows.append(Target(read, "<=", most))
            _empty()
        targets = [*times, *rows]
        return Report("claim", facts, [target.figure for target in targets], targets)


# --- The situations ---------------------------------------------------------------------------------------------------


@contextmanager
def _waiting(number: int) -> Iterator[tuple[SourceQueue, bool]]:
    """All of them due."""
    queue = _queue()
    _insert(queue, number)
    yield queue, False


@contextmanager
def _delayed(number: int) -> Iterator[tuple[SourceQueue, bool]]:
    """Most of them not due yet, as after an outage that made them back off."""
    queue = _queue()
    _insert(queue, number, wait="3600")
    _insert(queue, number // 100)
    yield queue, False


@contextmanager
def _ordered(number: int) -> Iterator[tuple[SourceQueue, bool]]:
    """A tenth as many keys; a fifth of the messages stand behind one key that is blocked."""
    queue = _queue(ordered=True)
    fifth, keys = number // 5, number // 10
    _insert(queue, number, key=f"(CASE WHEN k <= {fifth} THEN 'k0' ELSE 'k' || k %% {keys} END)::bytea")
    _execute(_KEYS, [queue.pk])
    _execute("ANALYZE dlqadmin_queuekey")
    yield queue, True


@contextmanager
def _bloated(number: int) -> Iterator[tuple[SourceQueue, bool]]:
    """The first of them were claimed and given back again and again, and nobody vacuumed."""
    with _waiting(number) as (queue, by_key):
        _cycle(queue)
        yield queue, by_key


@contextmanager
def _pinned(number: int) -> Iterator[tuple[SourceQueue, bool]]:
    """The same while another session holds a snapshot of before, so that no vacuum could help."""
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM dlqadmin_sourcequeue")
            with _bloated(number) as found:
                yield found
    finally:
        other.close()


# The last figure: rows that a claim's scans must return for each message that it claims. A message is found and
# updated; in an ordered queue its key is found, updated and found again by its claim, and its head is found. One row of
# the claim itself comes on top.
_SITUATIONS = (
    ("waiting", "all are due", _waiting, 2),
    ("delayed", "99 of 100 are not due yet", _delayed, 2),
    ("ordered", "keys, a fifth of the messages behind a blocked one", _ordered, 4.01),
    ("bloated", f"dead rows of {CYCLES * SIZE:,} claims, not vacuumed", _bloated, 2),
    ("pinned", "the same under an open snapshot", _pinned, 2),
)


def _queue(**policy: Any) -> SourceQueue:
    # Off, so that what is measured does not depend on when it comes.
    for table in ("dlqadmin_message", "dlqadmin_queuekey"):
        _execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    return SourceQueue.objects.create(name=f"bench-{secrets.token_hex(4)}", paused=True, **policy)


def _insert(queue: SourceQueue, number: int, *, key: str = "NULL::bytea", wait: str = "0") -> None:
    _execute(_MESSAGES.format(key=key, wait=wait), {"queue": queue.pk, "number": number})
    _execute("ANALYZE dlqadmin_message")


def _cycle(queue: SourceQueue) -> None:
    for _ in range(CYCLES):
        if taken := claim_batch(queue, SIZE):
            give_back(taken)


def _empty() -> None:
    _execute("TRUNCATE dlqadmin_message, dlqadmin_queuekey, dlqadmin_claim, dlqadmin_keyarrival CASCADE")


def _execute(statement: str, values: Any = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


# --- What is measured -------------------------------------------------------------------------------------------------


def _times(queue: SourceQueue, by_key: bool) -> list[float]:
    """Milliseconds of each claim of a turn, as a consumer makes them, commit included; given back at the end."""
    taken: list[Claim] = []
    times = []
    turn = Claims(queue, size=SIZE)
    for _ in range(CLAIMS):
        began = time.monotonic()
        found = turn.next()
        times.append((time.monotonic() - began) * 1000)
        if found:
            taken.append(found)
    for one in taken:
        give_back(one)
    if len(taken) < CLAIMS or taken[-1].by_key is not by_key:
        raise BenchError("A claim took something else than it should: the situation is not what it says.")
    return times[1:]  # the first asks for suspects, too


def _rows(queue: SourceQueue, by_key: bool) -> float:
    """Rows that the scans of a claim return, for each message that it claims, as EXPLAIN counts them. Rolled back."""
    read = 0.0
    with explained() as plans, transaction.atomic():
        found = claim_batch(queue, SIZE, by_key=by_key)
        transaction.set_rollback(True)
    for plan in plans:
        read += _returned(plan)
    return read / (len(found.messages) if found else 1)


@contextmanager
def explained() -> Iterator[list[dict[str, Any]]]:
    """The plans of the claims' statements, executed with EXPLAIN ANALYZE and then again for their rows."""
    plans: list[dict[str, Any]] = []

    def explain(execute: Any, sql: str, values: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().startswith("WITH") and not sql.lstrip().startswith("WITH arrived"):
            with connection.cursor() as cursor:
                cursor.execute("SAVEPOINT explained")
                cursor.cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", values)
                (found,) = cursor.cursor.fetchone()
                plans.append((json.loads(found) if isinstance(found, str) else found)[0]["Plan"])
                cursor.execute("ROLLBACK TO SAVEPOINT explained")
        return execute(sql, values, many, context)

    with connection.execute_wrapper(explain):
        yield plans


def _returned(plan: dict[str, Any]) -> float:
    """Rows that the scans of tables in this plan returned or threw away."""
    own = 0.0
    if "Relation Name" in plan and "Scan" in plan["Node Type"]:
        removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        own = (plan["Actual Rows"] + removed) * plan["Actual Loops"]
    return own + sum(_returned(child) for child in plan.get("Plans", []))
