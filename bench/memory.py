"""`manage.py bench memory`: whether a worker's memory grows with the messages that it has run."""

import gc
import secrets
from collections.abc import Callable

import psutil
from django.core.management import call_command

from bench import machine
from bench.report import Figure, Report, Target
from bench.sandbox import scratch_database
from dlqadmin.consumers.consume import take_turn
from dlqadmin.consumers.registry import declared
from dlqadmin.messages.models import Message
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.queues.models import SourceQueue

Say = Callable[[str], None]

MOST_MB = 20.0
CHUNK = 10_000


def memory(quick: bool, say: Say) -> Report:
    """Resident memory of this process, which consumes as a worker's child does: 1 message in 10 fails once. MB, after
    each tenth of the messages, less what it was after the first tenth."""
    number = 50_000 if quick else 200_000
    with scratch_database(f"dlqadmin_bench_{secrets.token_hex(4)}"):
        call_command("migrate", verbosity=0, interactive=False)
        facts = machine.describe("not used")
        queue = SourceQueue.objects.create(name="bench-memory", paused=True, backoff_base=0)
        with declared(queue.name, type="note", function=_handle, repeatable=True):
            sizes = [_after(queue, number // 10, say) for _ in range(10)]
    grown = Figure("growth", "memory since the first tenth", "MB", [max(sizes) - sizes[0]])
    size = Figure("size", "memory of the process", "MB", sizes)
    return Report("memory", facts, [grown, size], [Target(grown, "<=", MOST_MB)])


def _handle(message: object) -> None:
    if message.data["n"] % 10 == 0 and message.attempt == 1:  # type: ignore[attr-defined]
        raise ValueError(f"no such account {message.data['n']}")  # type: ignore[attr-defined]


def _after(queue: SourceQueue, number: int, say: Say) -> float:
    for begin in range(0, number, CHUNK):
        rows = range(begin, min(begin + CHUNK, number))
        publish_many(queue, [Outgoing(type="note", body={"n": n}) for n in rows])
    while Message.objects.filter(queue=queue).exists():
        take_turn(queue)
    gc.collect()
    size = psutil.Process().memory_info().rss / 1e6
    say(f"{number:,} more: {size:.1f} MB")
    return size
