"""What the consumers of a queue are at, and what holds them up: for its page."""

from dataclasses import dataclass

from django.db import connection

from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.models import Discard
from dlqadmin.messages.ordering import BlockedKey, blocked_keys
from dlqadmin.queues.models import SourceQueue

MOST_KEYS = 25
MOST_DISCARDS = 8
BOUND = 10_000  # nothing is counted further

# Every count has an index and a bound. The suspects of a key stand at its head: they were of one batch.
_READ = """
SELECT (
    SELECT count(*) FROM dlqadmin_consumerslot WHERE queue_id = %(queue)s AND until > clock_timestamp()
), (
    SELECT count(*) FROM (
        (SELECT id FROM dlqadmin_message
        WHERE queue_id = %(queue)s AND claim_id IS NULL AND NOT by_key AND suspect LIMIT %(bound)s)
        UNION ALL
        (SELECT id FROM dlqadmin_message
        WHERE queue_id = %(queue)s AND claim_id IS NOT NULL AND suspect LIMIT %(bound)s)
        UNION ALL
        (SELECT first.id FROM dlqadmin_queuekey AS known CROSS JOIN LATERAL (
            SELECT id, suspect FROM dlqadmin_message AS message
            WHERE message.queue_id = known.queue_id AND message.key = known.key AND by_key ORDER BY position LIMIT 100
        ) AS first
        WHERE known.queue_id = %(queue)s AND known.claim_id IS NULL AND known.suspect AND first.suspect LIMIT %(bound)s)
        LIMIT %(bound)s
    ) AS counted
), (
    SELECT count(*) FROM (
        SELECT FROM dlqadmin_queuekey WHERE queue_id = %(queue)s AND blocked_at IS NOT NULL LIMIT %(bound)s
    ) AS counted
)
"""


@dataclass(frozen=True, slots=True)
class AtWork:
    """`consumers`: slots that are held now; `suspects` (messages whose worker was lost) and `blocked` (keys) are
    counted up to BOUND."""

    consumers: int
    suspects: int
    blocked: int


@dataclass(frozen=True, slots=True)
class BlockedRow:
    """A blocked key, and the letter that it waits for, if it is parked."""

    blocked: BlockedKey
    letter: DeadLetter | None


def at_work(queue: SourceQueue) -> AtWork:
    """What the consumers of the queue are at now."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, {"queue": queue.pk, "bound": BOUND})
        return AtWork(*cursor.fetchone())


def blocked_rows(queue: SourceQueue) -> list[BlockedRow]:
    """The keys that have been blocked the longest, at most MOST_KEYS."""
    blocked = blocked_keys(queue.pk, most=MOST_KEYS, bound=BOUND)
    holding = (
        DeadLetter.objects.filter(queue=queue, key__in=[one.key for one in blocked if one.parked])
        .filter(state__in=(DeadLetter.State.OPEN, DeadLetter.State.REDRIVING))
        .order_by("key", "position")
        .distinct("key")
        .only("key", "state", "position", "queue")
    )
    letters = {bytes(letter.key or b""): letter for letter in holding}
    return [BlockedRow(one, letters.get(bytes(one.key)) if one.parked else None) for one in blocked]


def last_discards(queue: SourceQueue) -> list[Discard]:
    """The last of the deliveries of which a sample is kept."""
    return list(Discard.objects.filter(queue=queue).order_by("-pk")[:MOST_DISCARDS])
