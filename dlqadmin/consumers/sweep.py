"""What wake-ups and workers leave behind: queues with due work that nobody was told of, and claims of lost workers."""

from django.db import connection

from dlqadmin.consumers.claim import ClaimedMessage
from dlqadmin.consumers.settle import record_attempt
from dlqadmin.deadletters.capture import dead_letter
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.leases.run import guarded
from dlqadmin.messages.failure import ErrorRecord
from dlqadmin.messages.models import Attempt
from dlqadmin.messages.wakeups import send_wakeup

# A loose question for each queue, so the number of waiting messages does not matter. A queue whose wake-up is still on
# its way gets no second one: consumers that are away would find a heap of them. (No expiry time in the wake-up itself:
# it would be judged by the clock of another machine.)
_QUEUES_WITH_WORK = """
UPDATE dlqadmin_sourcequeue AS queue SET wake_pending_until = clock_timestamp() + interval '10 seconds'
WHERE queue.kind = 'native' AND NOT queue.paused AND queue.archived_at IS NULL
    AND coalesce(queue.wake_pending_until <= clock_timestamp(), true) AND EXISTS (
        SELECT FROM dlqadmin_message AS message WHERE message.queue_id = queue.id AND message.claim_id IS NULL
        AND message.available_at <= clock_timestamp()
    )
RETURNING queue.id, queue.celery_queue
"""

_EXPIRED = """
SELECT token, worker FROM dlqadmin_claim WHERE until <= clock_timestamp()
ORDER BY until LIMIT 1 FOR UPDATE SKIP LOCKED
"""

_CHARGE_LOSS = """
UPDATE dlqadmin_message AS message SET attempts = message.attempts - 1, lost = message.lost + 1, suspect = true
FROM dlqadmin_sourcequeue AS queue WHERE message.claim_id = %s AND queue.id = message.queue_id
RETURNING queue.id, queue.max_lost, message.id, message.claim_id, message_id, key, version, type, NULL::bytea,
    content_type, content_encoding, headers::text, lineage, generation, position, attempts, lost, published_at,
    last_attempt_at, letter_id
"""


def wake_queues_with_work() -> int:
    """Send a wake-up to every queue that has due messages and none on its way; the number sent."""
    with guarded(), connection.cursor() as cursor:
        cursor.execute(_QUEUES_WITH_WORK)
        queues = cursor.fetchall()
    for queue_id, celery_queue in queues:
        send_wakeup(queue_id, celery_queue)
    return len(queues)


def expire_claims() -> int:
    """Free the messages of every claim that ran out; the number of claims. Each in its own transaction.

    Messages are claimed singly, so the loss can be laid at its message: the charge moves from `attempts` to `lost`,
    and the message that has lost `max_lost` workers becomes a dead letter with the reason `worker lost`.
    """
    expired = 0
    while _expire_one():
        expired += 1
    return expired


@guarded()
def _expire_one() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_EXPIRED)
        claim = cursor.fetchone()
        if claim is None:
            return False
        token, worker = claim
        cursor.execute(_CHARGE_LOSS, [token])
        for queue_id, max_lost, *values in cursor.fetchall():
            _lose(ClaimedMessage(*values), queue_id, max_lost, worker)
        cursor.execute("UPDATE dlqadmin_message SET claim_id = NULL WHERE claim_id = %s", [token])
        cursor.execute("DELETE FROM dlqadmin_claim WHERE token = %s", [token])
    return True


def _lose(message: ClaimedMessage, queue_id: int, max_lost: int, worker: str) -> None:
    error = ErrorRecord.of_text(f"the worker was lost while it ran this message ({worker})", "WorkerLost")
    record_attempt(message, queue_id, Attempt.Outcome.LOST, message.lost, error, worker=worker)
    if message.lost >= max_lost:
        dead_letter(
            message=message.id,
            claim=message.token,
            queue=queue_id,
            reason=DeadLetter.Reason.WORKER_LOST,
            error=ErrorRecord.of_text("the worker was lost while it ran this message", "WorkerLost"),
            attempts=message.attempts,
            lost=message.lost,
            worker=worker,
        )
