"""`manage.py bench publish`: publishers with long transactions on one queue, who must not wait for each other."""

import secrets
import threading
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
    counts: list[int] = []
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=_publish, args=(queue, end, counts)) for _ in range(PUBLISHERS)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - began)


def _publish(queue: SourceQueue, end: float, counts: list[int]) -> None:
    """Transactions that go on for a while after they have published, as those of a busy program do."""
    message: dict[str, Any] = {"type": "note", "body": {}, "key": "the-same"}
    number = 0
    try:
        while time.monotonic() < end:
            with transaction.atomic():
                publish(queue, **message)
                time.sleep(TRANSACTION_SECONDS)
            number += 1
    finally:
        counts.append(number)
        connection.close()
