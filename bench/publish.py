"""`manage.py bench publish`: publishers with long transactions on one queue, who must not wait for each other."""

import multiprocessing
import secrets
import time
from collections.abc import Callable
from typing import Any

from django.core.management import call_command
from django.db import connection, transaction

from bench import machine
from bench.report import Figure, Report, Target
from bench.sandbox import scratch_database
from dlqadmin.messages.publish import publish
from dlqadmin.queues.models import SourceQueue

Say = Callable[[str], None]

PUBLISHERS = 8
TRANSACTION_SECONDS = 0.02
LEAST = 300.0


def publishing(quick: bool, say: Say) -> Report:
    """Messages a second of eight publishers, without a key and all with the same one. Raises BenchError."""
    rounds, seconds = (3, 1.5) if quick else (5, 4.0)
    with scratch_database(f"dlqadmin_bench_{secrets.token_hex(4)}"):
        call_command("migrate", verbosity=0, interactive=False)
        facts = machine.describe("not used")
        # Paused, so that nobody is woken: this is about the transactions.
        queues = {
            "plain": SourceQueue.objects.create(name="bench-plain", paused=True),
            "keyed": SourceQueue.objects.create(name="bench-keyed", paused=True, ordered=True),
        }
        rates: dict[str, list[float]] = {name: [] for name in queues}
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for name, queue in queues.items():
                rates[name].append(_rate(queue, seconds))
        figures = [
            Figure("plain", "no key", "messages/s", rates["plain"]),
            Figure("keyed", "all of one key, in an ordered queue", "messages/s", rates["keyed"]),
        ]
        return Report("publish", facts, figures, [Target(figure, ">=", LEAST) for figure in figures])


def _rate(queue: SourceQueue, seconds: float) -> float:
    connection.close()  # no child may use it
    forked = multiprocessing.get_context("fork")
    counts: Any = forked.Queue()
    together = forked.Barrier(PUBLISHERS)
    arguments = (queue, seconds, together, counts)
    publishers = [forked.Process(target=_publish, args=arguments) for _ in range(PUBLISHERS)]
    for publisher in publishers:
        publisher.start()
    for publisher in publishers:
        publisher.join()
    rows = [counts.get() for _ in publishers]
    return sum(number for number, _ in rows) / max(took for _, took in rows)


def _publish(queue: SourceQueue, seconds: float, together: Any, counts: Any) -> None:
    """Transactions that go on for a while after they have published, as those of a busy program do."""
    message: dict[str, Any] = {"type": "note", "body": {}, "key": "the-same"}
    number = 0
    connection.ensure_connection()
    together.wait()
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        with transaction.atomic():
            publish(queue, **message)
            time.sleep(TRANSACTION_SECONDS)
        number += 1
    counts.put((number, time.monotonic() - began))
    connection.close()
