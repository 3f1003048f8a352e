"""What wake-ups and workers leave behind: queues with due work that nobody was told of, and claims of lost workers."""

from django.db import OperationalError, connection

from dlqadmin.consumers.settle import free_keys
from dlqadmin.deadletters.capture import Death, dead_letters
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.leases.run import guarded
from dlqadmin.messages.attempts import StartRecord, record_starts
from dlqadmin.messages.failure import ErrorRecord
from dlqadmin.messages.models import Attempt, Message
from dlqadmin.messages.wakeups import PENDING, send_wakeup
from dlqadmin.queues.models import SourceQueue

# Loose questions for each queue, so the number of waiting messages does not matter. A queue whose wake-up is still on
# its way gets no second one: consumers that are away would find a heap of them. (No expiry time in the wake-up itself:
# it would be judged by the clock of another machine.)
_HAS_WORK = """
queue.kind = 'native' AND NOT queue.paused AND queue.archived_at IS NULL
    AND coalesce(queue.wake_pending_until <= now, true) AND (
        EXISTS (SELECT FROM dlqadmin_message AS message WHERE message.queue_id = queue.id AND claim_id IS NULL
            AND NOT by_key AND NOT suspect AND available_at <= now)
        OR EXISTS (SELECT FROM dlqadmin_message AS message WHERE message.queue_id = queue.id AND claim_id IS NULL
            AND NOT by_key AND suspect AND available_at <= now)
        OR EXISTS (SELECT FROM dlqadmin_queuekey AS known WHERE known.queue_id = queue.id AND claim_id IS NULL
            AND NOT suspect AND due_at <= now)
        OR EXISTS (SELECT FROM dlqadmin_queuekey AS known WHERE known.queue_id = queue.id AND claim_id IS NULL
            AND suspect AND due_at <= now)
        OR EXISTS (SELECT FROM dlqadmin_keyarrival AS arrival WHERE arrival.queue_id = queue.id)
    )
"""

_WAKE = f"""
UPDATE dlqadmin_sourcequeue AS queue SET wake_pending_until = {PENDING}
FROM (SELECT clock_timestamp() AS now) AS clock WHERE {_HAS_WORK} RETURNING queue.id, queue.celery_queue
"""  # noqa: S608 - made of constants

# Whether the sweep has anything to do: the leader's question, see leases.jobs.
HAS_WORK = f"""
EXISTS (SELECT FROM dlqadmin_claim WHERE until <= (SELECT clock_timestamp()))
OR EXISTS (SELECT FROM dlqadmin_sourcequeue AS queue, (SELECT clock_timestamp() AS now) AS clock WHERE {_HAS_WORK})
"""  # noqa: S608 - made of constants

_EXPIRED = (
    "SELECT token FROM dlqadmin_claim WHERE until <= (SELECT clock_timestamp()) ORDER BY until LIMIT %s"
)

# A worker that was frozen in the middle of its settlement still has rows locked: its session is ended by the server in
# a while, and the claim waits for the next sweep.
_LOCK = """
SELECT worker, single, queue_id, message_ids, set_config('lock_timeout', '500ms', true) FROM dlqadmin_claim
WHERE token = %s AND until <= clock_timestamp() FOR UPDATE SKIP LOCKED
"""

# Nobody knows which of them was running: nothing is counted, and from now on each of them starts alone.
_SUSPECT = "UPDATE dlqadmin_message SET claim_id = NULL, suspect = true WHERE claim_id = %s"
_SUSPECT_OF_KEYS = "UPDATE dlqadmin_message SET suspect = true WHERE id = ANY(%s) AND claim_id IS NULL"

# It was running, and alone: the charge of this start moves from `attempts` to `lost`.
_LOSE = """
UPDATE dlqadmin_message SET attempts = attempts - 1, lost = lost + 1, suspect = true WHERE claim_id = %s RETURNING id
"""
_RELEASE = "UPDATE dlqadmin_message SET claim_id = NULL WHERE claim_id = %s"
_DROP = "DELETE FROM dlqadmin_claim WHERE token = %s"

MOST_CLAIMS = 1000


def wake_queues_with_work() -> int:
    """Send a wake-up to every queue that has due messages and none on its way; the number sent."""
    with guarded(), connection.cursor() as cursor:
        cursor.execute(_WAKE)
        queues = cursor.fetchall()
    for queue_id, celery_queue in queues:
        send_wakeup(queue_id, celery_queue)
    return len(queues)


def expire_claims() -> int:
    """Free what the claims that ran out hold; the number of claims. Each in its own transaction.

    The messages become suspects. One that was claimed singly has lost a start; when it has lost `max_lost` of them it
    becomes a dead letter with the reason `worker lost`, also in a queue without a threshold.
    """
    with connection.cursor() as cursor:
        cursor.execute(_EXPIRED, [MOST_CLAIMS])
        tokens = [row[0] for row in cursor.fetchall()]
    return sum(_expire(token) for token in tokens)


def _expire(token: int) -> bool:
    try:
        return _free(token)
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == "55P03":  # lock_timeout
            return False
        raise


@guarded()
def _free(token: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [token])
        claim = cursor.fetchone()
        if claim is None:
            return False
        worker, single, queue_id, messages, _ = claim
        queue = SourceQueue.objects.get(pk=queue_id)
        if single:
            cursor.execute(_LOSE, [token])
            if row := cursor.fetchone():
                _note_loss(token, Message.objects.defer("body").get(pk=row[0]), queue, worker)
            cursor.execute(_RELEASE, [token])
        else:
            cursor.execute(_SUSPECT, [token])
            if messages:
                cursor.execute(_SUSPECT_OF_KEYS, [messages])
        free_keys(token, queue.on_death)
        cursor.execute(_DROP, [token])
    return True


def _note_loss(token: int, message: Message, queue: SourceQueue, worker: str) -> None:
    """A lost start leaves a row; the last one makes the message a dead letter."""
    error = ErrorRecord.of_text(f"the worker was lost while it ran this message ({worker})", "WorkerLost")
    start = StartRecord.of(
        message,
        Attempt.Outcome.LOST,
        error,
        number=message.lost,
        started_at=message.last_attempt_at or message.published_at,
        worker=worker,
    )
    record_starts(queue.pk, [start])
    if message.lost >= queue.max_lost:
        death = Death(
            message=message.pk,
            reason=DeadLetter.Reason.WORKER_LOST,
            error=ErrorRecord.of_text("the worker was lost while it ran this message", "WorkerLost"),
            attempts=message.attempts,
            lost=message.lost,
        )
        dead_letters(queue=queue.pk, claim=token, worker=worker, deaths=[death])
