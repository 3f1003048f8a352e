"""How many consumers of a queue run at once, over all machines: each holds one of the queue's slots, which are rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from dlqadmin.consumers.claim import LEASE
from dlqadmin.leases.node import node_name
from dlqadmin.queues.models import SourceQueue

# A slot that is lost in a crash of the database is free sooner, that is all: nobody waits for the disk.
_TAKE = """
WITH free AS (
    SELECT id FROM dlqadmin_consumerslot WHERE queue_id = %(queue)s AND number <= %(slots)s
        AND until <= clock_timestamp() ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE dlqadmin_consumerslot AS slot SET holder = %(holder)s, token = token + 1,
    until = clock_timestamp() + make_interval(secs => %(lease)s)
FROM free WHERE slot.id = free.id RETURNING slot.id, slot.token, set_config('synchronous_commit', 'off', true)
"""

_MAKE = """
INSERT INTO dlqadmin_consumerslot (queue_id, number, holder, token)
SELECT %(queue)s, number, '', 0 FROM generate_series(1, %(slots)s) AS number ON CONFLICT DO NOTHING
"""

_GIVE_BACK = """
UPDATE dlqadmin_consumerslot SET holder = '', until = clock_timestamp() WHERE id = %s AND token = %s
RETURNING set_config('synchronous_commit', 'off', true)
"""


@contextmanager
def slot_of(queue: SourceQueue) -> Iterator[tuple[int, int] | None]:
    """Hold a slot of the queue for the duration of a with block: its id and token, or None if all are taken."""
    values = {"queue": queue.pk, "slots": queue.concurrency, "holder": node_name(), "lease": LEASE}
    slot = _take(values)
    if slot is None and _make(values):
        slot = _take(values)
    try:
        yield slot
    finally:
        if slot:
            with connection.cursor() as cursor:
                cursor.execute(_GIVE_BACK, slot)


def _take(values: dict[str, Any]) -> tuple[int, int] | None:
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, values)
        row = cursor.fetchone()
    return row[:2] if row else None


def _make(values: dict[str, Any]) -> bool:
    """Make the slots that the queue does not have yet; whether there were any."""
    with connection.cursor() as cursor:
        cursor.execute(_MAKE, values)
        made: bool = cursor.rowcount > 0
    return made
