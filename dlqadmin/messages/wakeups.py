"""Waking consumers. A wake-up is only a hint: the rows are the truth, and a sweep finds what a lost hint left.

At most one wake-up of a queue is on its way: who wants another first marks the queue, and finds the mark of whoever
was before. The consumer that receives the wake-up removes the mark.
"""

import logging

from celery import current_app
from django.db import DatabaseError, InterfaceError, connection, transaction

from dlqadmin.leases.run import current_run

logger = logging.getLogger(__name__)

CONSUME_TASK = "dlqadmin.consumers.consume"

# Until when a wake-up that is sent now counts as on its way: in SQL, by the database's clock.
PENDING = "clock_timestamp() + interval '10 seconds'"

# Who finds the mark reads only, so publishers do not queue up for this row. The mark may be lost in a crash: it is a
# hint about a hint, so nobody waits for the disk.
_MARK = f"""
UPDATE dlqadmin_sourcequeue SET wake_pending_until = {PENDING}
WHERE id = %s AND coalesce(wake_pending_until <= clock_timestamp(), true) AND NOT paused AND archived_at IS NULL
RETURNING celery_queue, set_config('synchronous_commit', 'off', true)
"""  # noqa: S608 - made of constants

# A singleton job compares its run in each transaction that writes, and a wake-up follows the last of them. So it only
# asks where the wake-up goes; at worst there are two on their way.
_TARGET = "SELECT celery_queue FROM dlqadmin_sourcequeue WHERE id = %s AND NOT paused AND archived_at IS NULL"

_UNMARK = """
UPDATE dlqadmin_sourcequeue SET wake_pending_until = NULL WHERE id = %s AND wake_pending_until IS NOT NULL
RETURNING set_config('synchronous_commit', 'off', true)
"""


def wake(queue_id: int) -> None:
    """Tell a consumer, when the caller's transaction commits, that the queue has work."""
    transaction.on_commit(lambda: wake_now(queue_id), robust=True)


def wake_now(queue_id: int) -> bool:
    """Send a wake-up unless one is on its way; whether one was sent. Outside of a transaction.

    What the database does not take is left to the sweep.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute(_TARGET if current_run() else _MARK, [queue_id])
            row = cursor.fetchone()
    except (DatabaseError, InterfaceError):
        logger.warning("Queue %s could not be marked for a wake-up; the sweep will wake it.", queue_id)
        return False
    if row:
        send_wakeup(queue_id, row[0])
    return row is not None


def wakeup_arrived(queue_id: int) -> None:
    """From now on the queue may be sent another wake-up."""
    with connection.cursor() as cursor:
        cursor.execute(_UNMARK, [queue_id])


def send_wakeup(queue_id: int, celery_queue: str) -> None:
    """Send the hint now. A broker that is away is logged, never raised: no message depends on it."""
    try:
        current_app.send_task(CONSUME_TASK, args=[queue_id], queue=celery_queue, retry=False)
    except Exception:
        logger.warning(
            "The broker did not take a wake-up for queue %s; the sweep will.", queue_id, exc_info=True
        )
