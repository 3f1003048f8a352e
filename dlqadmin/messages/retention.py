"""What idempotency remembers is forgotten after the queue's retention; of the discards, the last ones stay as a sample.

A message id or version that is forgotten too early would let its work run twice, so it is kept for as long as letters.
"""

from django.db import connection

from dlqadmin.leases.run import guarded

BATCH = 5_000
SAMPLE_OF_QUEUE = 1_000

_OLD = """
DELETE FROM {table} WHERE id IN (
    SELECT old.id FROM {table} AS old JOIN dlqadmin_sourcequeue AS queue ON queue.id = old.queue_id
    WHERE old.processed_at < clock_timestamp() - make_interval(days => queue.retention_days)
        AND old.processed_at < (
            SELECT clock_timestamp() - make_interval(days => min(retention_days)) FROM dlqadmin_sourcequeue
        ) -- bounds what is read, by the index
    LIMIT %s
)
"""

_OLD_DISCARDS = """
DELETE FROM dlqadmin_discard WHERE id IN (
    SELECT dropped.id FROM dlqadmin_sourcequeue AS queue CROSS JOIN LATERAL (
        SELECT id FROM dlqadmin_discard WHERE queue_id = queue.id ORDER BY id DESC OFFSET %s LIMIT %s
    ) AS dropped LIMIT %s
)
"""


def prune() -> None:
    """Forget what is past its retention, in small transactions."""
    for table in ("dlqadmin_processedid", "dlqadmin_keyversion"):
        while _delete(_OLD.format(table=table), [BATCH]) == BATCH:
            pass
    while _delete(_OLD_DISCARDS, [SAMPLE_OF_QUEUE, BATCH, BATCH]) == BATCH:
        pass


@guarded()
def _delete(statement: str, values: list[int]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        gone: int = cursor.rowcount
    return gone
