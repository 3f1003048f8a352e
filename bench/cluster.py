"""`manage.py bench cluster`: what the grouping of error texts costs (bench/README.md).

1. Texts a second of the fingerprint alone, and of drain3 with masks, on the same texts in the same round.
2. Eight writers that capture dead letters, in batches of 100, into a queue of a million letters of 5,000 fingerprints:
   letters a second as fast as they can; and in a storm of 4,000 letters a second (a batch of each writer every 200 ms)
   the time of an assignment. Of both, the longest time that a session waited for a lock.
3. Whether the counts are right afterwards.
"""

import multiprocessing
import secrets
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from django.core.management import call_command
from django.db import connection

from bench import drain, machine
from bench.errors import BenchError
from bench.report import Figure, Report, Target, ratio
from bench.sandbox import scratch_database
from bench.texts import texts
from dlqadmin.clusters import atoms, fingerprint
from dlqadmin.clusters.assign import Told, assign_all
from dlqadmin.clusters.counts import fold
from dlqadmin.deadletters import capture
from dlqadmin.deadletters.capture import Death
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.embedded import HOME
from dlqadmin.messages.failure import ErrorRecord
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.audit import audit_books

Say = Callable[[str], None]

LEAST_TEXTS = 12_000.0
MOST_ASSIGN_MS = 20.0
MOST_WAIT_MS = 100.0
FINGERPRINTS = 5_000
WRITERS = 8
BATCH = 100
PACE = 0.2  # seconds from batch to batch of a writer in the storm


def cluster(quick: bool, say: Say) -> Report:
    """Measure all of it; `say` takes lines of progress. Raises BenchError."""
    drain.ready(HOME / "bench-peer")
    drained, targets = _fingerprints(quick, say)
    with scratch_database(f"dlqadmin_bench_{secrets.token_hex(4)}"):
        call_command("migrate", verbosity=0, interactive=False)
        facts = machine.describe("not used")
        captured, more = _capture(quick, say)
    targets += more
    return Report("cluster", facts, [drained, *captured, *(target.figure for target in targets)], targets)


# --- The fingerprint alone --------------------------------------------------------------------------------------------


def _fingerprints(quick: bool, say: Say) -> tuple[Figure, list[Target]]:
    rounds, number = (3, 20_000) if quick else (5, 50_000)
    ours: list[float] = []
    peer: list[float] = []
    for at in range(rounds):
        say(f"fingerprints: round {at + 1} of {rounds}")
        given = texts(number, seed=at)
        ours.append(_rate(_fingerprint_all, given))
        peer.append(_rate(drain.mine, given))
    alone = Figure("f", "the fingerprint alone", "texts/s", ours)
    drained = Figure("drain3", "drain3 with masks", "texts/s", peer)
    against = ratio(alone, drained)
    return drained, [Target(alone, ">=", LEAST_TEXTS), Target(against, ">=", 1.0)]


def _fingerprint_all(given: Sequence[str]) -> None:
    for remembered in (fingerprint.line_of, fingerprint.of_line, atoms.kind_of):
        remembered.cache_clear()
    for text in given:
        fingerprint.fingerprint(text)


def _rate(work: Callable[[Sequence[str]], Any], given: Sequence[str]) -> float:
    began = time.perf_counter()
    work(given)
    return len(given) / (time.perf_counter() - began)


# --- Capture with clusters --------------------------------------------------------------------------------------------

# Letters that are there already: of the leaves in turn.
_LETTERS = """
INSERT INTO dlqadmin_deadletter (message_id, type, body, content_type, content_encoding, headers, lineage, generation,
    position, queue_id, cluster_id, state, resolution, reason, attempts, attempts_counter, lost, error_class,
    error_text, error_raw, traceback, worker, body_size, last_attempt_at)
SELECT n::text, 'note', '\\x7b7d', '', '', '[]', gen_random_uuid(), 1, n, %(queue)s,
    (%(leaves)s::bigint[])[1 + n %% cardinality(%(leaves)s::bigint[])], 'open', '', 'threshold reached', 3, 'dlqadmin',
    0, '', 'no such thing', '', '', '', 2, clock_timestamp() FROM generate_series(1, %(number)s) AS n
"""
_COUNTED = """
INSERT INTO dlqadmin_clusterdelta (cluster_id, opened, total)
SELECT cluster_id, count(*), count(*) FROM dlqadmin_deadletter WHERE queue_id = %s GROUP BY 1
"""
_MESSAGES = """
INSERT INTO dlqadmin_message (id, position, queue_id, message_id, type, body, content_type, content_encoding, headers,
    lineage, by_key, generation, attempts, lost, suspect, available_at, published_at)
SELECT n, n, %(queue)s, n::text, 'note', '\\x7b7d', '', '', '[]', gen_random_uuid(), false, 0, 0, 0, false,
    clock_timestamp(), clock_timestamp()
FROM (SELECT nextval(pg_get_serial_sequence('dlqadmin_message', 'id')) AS n FROM generate_series(1, %(number)s)) AS made
RETURNING id
"""
_WAITING = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0) * 1000 FROM pg_locks WHERE NOT granted
"""


def _error(number: int, dice: Random) -> ErrorRecord:
    """One of FINGERPRINTS causes, told with values of its own."""
    where = "".join("bcdfghjkmn"[int(digit)] + "a" for digit in f"{number:04}")
    text = f'no column "{where}" in relation "loans" (request {dice.getrandbits(64):016x}, {dice.randrange(9999)} ms)'
    return ErrorRecord.of_text(text, "LookupError")


def _capture(quick: bool, say: Say) -> tuple[list[Figure], list[Target]]:
    number, batches = (100_000, 12) if quick else (1_000_000, 50)
    queue = SourceQueue.objects.create(name="bench-cluster", paused=True)
    say(f"{number:,} letters of {FINGERPRINTS:,} fingerprints")
    leaves = _leaves(queue)
    put_letters(queue, leaves, number)
    with connection.cursor() as cursor:
        cursor.execute(_MESSAGES, {"queue": queue.pk, "number": 2 * WRITERS * batches * BATCH})
        messages = [row[0] for row in cursor.fetchall()]
    half = len(messages) // 2
    say(f"{WRITERS} writers with {batches} batches of {BATCH}, as fast as they can")
    rate, pressed, waited_pressed = _written(queue, messages[:half], 0.0)
    say(f"{WRITERS} writers with {batches} batches of {BATCH}, one every {PACE:g} s")
    _, paced, waited = _written(queue, messages[half:], PACE)
    while fold():
        pass
    say("recount")
    _check(queue, number + len(messages))
    longest = max(waited, waited_pressed)
    figures = [
        Figure(
            "capture", f"capture with clusters, {WRITERS} writers as fast as they can", "letters/s", [rate]
        ),
        Figure("pressed", "assignment of a batch meanwhile, 95 of 100", "ms", [_p95(pressed)]),
    ]
    return figures, [
        Target(
            Figure("assign", "assignment of a batch in the storm, 95 of 100", "ms", [_p95(paced)]),
            "<=",
            MOST_ASSIGN_MS,
        ),
        Target(Figure("lock wait", "the longest wait for a lock", "ms", [longest]), "<=", MOST_WAIT_MS),
    ]


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]


def put_letters(queue: SourceQueue, leaves: list[int], number: int) -> None:
    """So many open letters of these leaves, in turn."""
    with connection.cursor() as cursor:
        cursor.execute(_LETTERS, {"queue": queue.pk, "leaves": leaves, "number": number})
        cursor.execute(_COUNTED, [queue.pk])
        cursor.execute("ANALYZE dlqadmin_deadletter")
        cursor.execute("ANALYZE dlqadmin_errorcluster")


def _leaves(queue: SourceQueue) -> list[int]:
    dice = Random(0)  # values for made-up errors
    errors = [_error(number, dice) for number in range(FINGERPRINTS)]
    leaves = assign_all(queue_id=queue.pk, errors=[Told(error.error_class, error.text) for error in errors])
    if len(set(leaves)) != FINGERPRINTS:
        raise BenchError(f"{FINGERPRINTS} causes were told, {len(set(leaves))} found.")
    return leaves


def _written(queue: SourceQueue, messages: list[int], pace: float) -> tuple[float, list[float], float]:
    """Letters a second, the times of the assignments, and the longest wait for a lock (ms)."""
    connection.close()  # no child may use it
    forked = multiprocessing.get_context("fork")
    results: Any = forked.Queue()
    together = forked.Barrier(WRITERS + 1)
    share = len(messages) // WRITERS
    writers = [
        forked.Process(
            target=_write, args=(queue, messages[at * share : (at + 1) * share], pace, at, together, results)
        )
        for at in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    together.wait()
    began, waited = time.monotonic(), 0.0
    while any(writer.is_alive() for writer in writers) and results.qsize() < WRITERS:
        with connection.cursor() as cursor:
            cursor.execute(_WAITING)
            waited = max(waited, float(cursor.fetchone()[0]))
        time.sleep(0.02)
    took = time.monotonic() - began
    times = [results.get(timeout=60) for _ in writers]
    for writer in writers:
        writer.join()
    return len(messages) / took, [one for some in times for one in some], waited


def _write(
    queue: SourceQueue, messages: list[int], pace: float, seed: int, together: Any, results: Any
) -> None:
    """Capture these messages, batch by batch; puts the time of each assignment (ms) into `results`."""
    dice = Random(seed)
    connection.ensure_connection()
    together.wait()
    began = time.monotonic() + pace * seed / WRITERS
    times: list[float] = []
    capture.assign_all = _timed(capture.assign_all, times)
    for start in range(0, len(messages), BATCH):
        errors = [_error(dice.randrange(FINGERPRINTS), dice) for _ in range(BATCH)]
        deaths = [
            Death(message, DeadLetter.Reason.THRESHOLD, error, 3, 0)
            for message, error in zip(messages[start : start + BATCH], errors, strict=True)
        ]
        time.sleep(max(0.0, began + pace * (start // BATCH) - time.monotonic()))
        capture.dead_letters(queue=queue.pk, claim=None, worker="bench", deaths=deaths)
    results.put(times)
    connection.close()


def _timed(work: Callable[..., list[int]], times: list[float]) -> Callable[..., list[int]]:
    def timed(**arguments: Any) -> list[int]:
        began = time.perf_counter()
        found = work(**arguments)
        times.append(1000 * (time.perf_counter() - began))
        return found

    return timed


def _check(queue: SourceQueue, expected: int) -> None:
    found = DeadLetter.objects.filter(queue=queue).count()
    if found != expected:
        raise BenchError(f"{expected} letters were captured, {found} are there.")
    if said := [line for line in audit_books().differences if "another count" in line]:
        raise BenchError(f"The counts are wrong: {said[0]}")
