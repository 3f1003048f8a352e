"""The way of a message through a consumer: claim -> run -> settle."""

import logging
import time
from dataclasses import dataclass, field
from datetime import datetime

from django.db import DatabaseError, InterfaceError, connection, transaction

from dlqadmin.clock import db_now
from dlqadmin.consumers.claim import ClaimedMessage, claim_one
from dlqadmin.consumers.errors import ClaimLost
from dlqadmin.consumers.registry import Handler, find_handler, longest_timeout
from dlqadmin.consumers.run import Failure, Interrupted, prepare, run
from dlqadmin.consumers.settle import Outcome, give_back, settle
from dlqadmin.deadletters.capture import MessageGone
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.failure import ErrorRecord
from dlqadmin.queues.models import SourceQueue

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Round:
    """What one pass over a queue delivered, by outcome."""

    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))

    @property
    def deliveries(self) -> int:
        """How many messages were claimed."""
        return sum(self.outcomes.values())

    @property
    def wasted(self) -> int:
        """How many attempts failed."""
        return self.outcomes[Outcome.RETRY] + self.outcomes[Outcome.DEAD]


def consume_once(queue: SourceQueue, due_before: datetime | None = None) -> Round:
    """One round: deliver every message of `queue` that is due at `due_before` (default: now) once, oldest first.

    A message that fails is due again later than that, so it waits for the next round.
    """
    moment = due_before or db_now()
    done = Round()
    while (outcome := consume_one(queue, due_before=moment)) is not None:
        done.outcomes[outcome] += 1
    return done


def consume_for(queue: SourceQueue, seconds: float) -> bool:
    """Consume what is due for about so long; True if nothing due was left."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if consume_one(queue) is None:
            return True
    return False


def consume_one(queue: SourceQueue, *, due_before: datetime | None = None) -> Outcome | None:
    """Claim, run and settle one message; None if none is due.

    1. The claim and the attempt are committed.
    2. An atomic handler and its settlement commit together; another handler is settled after it ran.
    3. What the database refuses at that commit (a deferred constraint, a broken connection) is the message's failure.
    4. A claim that was lost meanwhile settles nothing.
    """
    message = claim_one(queue, due_before=due_before, timeout=longest_timeout(queue.name, queue.timeout))
    if message is None:
        return None
    handler = find_handler(queue.name, message.type)
    try:
        return _deliver(message, queue, handler)
    except Interrupted as interrupted:
        with transaction.atomic():
            give_back(message)
        raise interrupted.cause from None
    except (ClaimLost, MessageGone):
        return _fenced(message, queue)
    except (DatabaseError, InterfaceError) as error:
        return _settle_refused(message, queue, error)


def _deliver(message: ClaimedMessage, queue: SourceQueue, handler: Handler | None) -> Outcome:
    incoming = prepare(message, handler, queue.name)
    if isinstance(incoming, Failure) or handler is None:
        failure = incoming if isinstance(incoming, Failure) else None
        with transaction.atomic():
            return settle(message, queue, failure)
    timeout = handler.timeout or queue.timeout
    if handler.atomic:
        with transaction.atomic():
            return settle(message, queue, run(handler, incoming, timeout=timeout))
    failure = run(handler, incoming, timeout=timeout)
    with transaction.atomic():
        return settle(message, queue, failure)


def _settle_refused(message: ClaimedMessage, queue: SourceQueue, error: Exception) -> Outcome:
    """The transaction of handler and settlement failed: settle it as a failed attempt, on a connection that works."""
    connection.close_if_unusable_or_obsolete()
    failure = Failure(DeadLetter.Reason.THRESHOLD, ErrorRecord.of_exception(error))
    try:
        with transaction.atomic():
            return settle(message, queue, failure)
    except (ClaimLost, MessageGone):
        return _fenced(message, queue)


def _fenced(message: ClaimedMessage, queue: SourceQueue) -> Outcome:
    logger.warning("Message %s of %s: its claim was lost, so nothing was settled.", message.id, queue)
    return Outcome.FENCED
