"""`python -m tests.faults.publisher RATE SEED JOURNAL`: publish RATE messages a second until SIGTERM.

What the database did not take is not tried again: the row in `fault_published` tells whether it was published. The
numbers whose commit was acknowledged are written to JOURNAL. While MOST messages are in work it waits: on a machine
that is busy elsewhere, consumers could else not catch up in the time of a run.
"""

import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

import django
from django.db import InterfaceError, OperationalError, connection, transaction

django.setup()

from dlqadmin.messages.publish import Outgoing, publish_many  # noqa: E402 - models need the line above
from dlqadmin.queues.models import SourceQueue  # noqa: E402
from tests.faults.workload import QUEUES, Draft, Drafts  # noqa: E402

MOST = 1000
FIRST_KILLER, KILLER_EVERY = 5.0, 25.0  # seconds
AGAIN = 0.1  # seconds after which what could not be published now is tried again


def are_enough() -> bool:
    """Whether MOST messages are in work."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM (SELECT FROM dlqadmin_message LIMIT %s) AS message", [MOST])
        count: int = cursor.fetchone()[0]
    return count >= MOST


def publish(drafts: list[Draft]) -> None:
    """Publish messages of one queue and note them, in one transaction."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO fault_published (n, queue, type, key, message_id) VALUES (%s, %s, %s, %s, %s)",
                [(draft.n, draft.queue, draft.type, draft.key, draft.message_id) for draft in drafts],
            )
        outgoing = [
            Outgoing(type=draft.type, body={"n": draft.n}, key=draft.key, message_id=draft.message_id)
            for draft in drafts
        ]
        publish_many(drafts[0].queue, outgoing)


def publish_steadily(rate: float, drafts: Drafts, journal: TextIO, ended: threading.Event) -> None:
    """Publish until the end. What could not be published for a while is not made up for."""
    due = time.monotonic()
    killer_due = due + FIRST_KILLER
    while not ended.wait(max(due - time.monotonic(), 0)):
        kills = time.monotonic() > killer_due
        batch = drafts.killer() if kills else drafts.batch()
        try:
            if are_enough():
                due = time.monotonic() + AGAIN
                continue
            publish(batch)
        except (OperationalError, InterfaceError):
            connection.close()
            due = time.monotonic() + AGAIN
            continue
        journal.write("".join(f"{draft.n}\n" for draft in batch))
        journal.flush()
        killer_due += KILLER_EVERY if kills else 0
        due = max(due, time.monotonic() - 1) + len(batch) / rate


def main(rate: float, seed: int, journal: Path) -> None:
    """Make the queues, then publish until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    for name, policy in QUEUES.items():
        SourceQueue.objects.get_or_create(name=name, defaults=policy)
    with journal.open("a") as acknowledged:
        publish_steadily(rate, Drafts(random.Random(seed)), acknowledged, ended)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
