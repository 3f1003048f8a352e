"""The way of messages through a consumer: slot -> claim -> run -> settle, for a turn of about a second."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from dlqadmin.clock import db_now
from dlqadmin.consumers.batch import run_claim
from dlqadmin.consumers.claim import EVER, Claim, claim_batch, claim_single
from dlqadmin.consumers.pace import pace_of
from dlqadmin.consumers.registry import longest_timeout
from dlqadmin.consumers.renewal import Renewal
from dlqadmin.consumers.session import limited_session
from dlqadmin.consumers.settle import Outcome
from dlqadmin.consumers.slots import slot_of
from dlqadmin.consumers.timeout import deadlines
from dlqadmin.messages.wakeups import wake_now
from dlqadmin.queues.models import SourceQueue

# Short, so that a warm shutdown is quick, a change of the queue's settings is noticed, and queues take turns.
TURN_SECONDS = 1.0


@dataclass(slots=True)
class Round:
    """What one pass over a queue delivered, by outcome."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)

    @property
    def deliveries(self) -> int:
        """How many messages were claimed."""
        return self.outcomes.total()

    @property
    def wasted(self) -> int:
        """How many attempts failed."""
        return self.outcomes[Outcome.RETRY] + self.outcomes[Outcome.DEAD]


def take_turn(queue: SourceQueue, seconds: float = TURN_SECONDS) -> bool:
    """Consume what is due for about so long, if a slot of the queue is free; whether work was left.

    1. A consumer that finds more than one batch wakes another one: up to the queue's concurrency they share the work.
    2. Suspects come first, each singly; then batches, of messages that have a key and that have none in turn.
    3. A batch that has begun is finished; what it was too long for goes back.
    """
    with slot_of(queue) as slot:
        if slot is None:
            return False
        return _consume(queue, slot, seconds)


def _consume(queue: SourceQueue, slot: tuple[int, int], seconds: float) -> bool:
    pace, claims = pace_of(queue.pk), Claims(queue)
    end, batches = time.monotonic() + seconds, 0
    longest = longest_timeout(queue.name, queue.timeout)
    with Renewal(slot) as renewal, deadlines(longest), limited_session(longest):
        while time.monotonic() < end:
            claim = claims.next()
            if claim is None:
                return False
            batches += 1
            if batches == 2:
                wake_now(queue.pk)
            began, renewal.claim = time.monotonic(), claim.token
            outcomes = run_claim(claim)
            renewal.claim = None
            pace.ran(outcomes.total() - outcomes[Outcome.GIVEN_BACK], time.monotonic() - began)
    return True


class Claims:
    """The claims of one turn: each source is asked until it is empty.

    After its first claim a source is asked for what became due since that one; only when this is empty, for all again,
    which also finds what was published earlier and committed later.
    """

    def __init__(self, queue: SourceQueue, size: int | None = None) -> None:
        """`size`: of every batch; None: as the queue's pace says."""
        self._queue, self._size = queue, size
        normal = [(False, False), (True, False)]
        if queue.ordered and random.random() < 0.5:
            normal.reverse()
        self._sources = [(False, True), (True, True), *normal]
        self._singly = _charges_first(queue)
        self._since = EVER

    def next(self) -> Claim | None:
        """The next claim, or None when nothing is due."""
        while self._sources:
            by_key, suspect = self._sources[0]
            claim = self._ask(by_key=by_key, suspect=suspect)
            if claim:
                self._since = claim.since
                return claim
            if self._since == EVER:
                self._sources.pop(0)
            self._since = EVER
        return None

    def _ask(self, *, by_key: bool, suspect: bool) -> Claim | None:
        if suspect:
            return claim_single(self._queue, by_key=by_key, suspect=True)
        size = 1 if self._singly else self._size or pace_of(self._queue.pk).size
        return claim_batch(self._queue, size, by_key=by_key, since=self._since)


def _charges_first(queue: SourceQueue) -> bool:
    """Whether starts are charged before: where one attempt is all there is, one in vain would be one too many."""
    thresholds = [own.get("max_attempts") for own in queue.retry_overrides.values()]
    return 1 in [queue.max_attempts, *thresholds]


# --- One by one, as `reproduce` and tests do --------------------------------------------------------------------------


def consume_once(queue: SourceQueue, due_before: datetime | None = None) -> Round:
    """One round: deliver every message of `queue` that is due at `due_before` (default: now) once, oldest first.

    Claimed singly. A message that fails is due again later than that, so it waits for the next round.
    """
    moment = due_before or db_now()
    done = Round()
    while (outcome := consume_one(queue, due_before=moment)) is not None:
        done.outcomes[outcome] += 1
    return done


def consume_one(queue: SourceQueue, *, due_before: datetime | None = None) -> Outcome | None:
    """Claim one message singly, run and settle it; None if none is due."""
    for by_key, suspect in ((False, False), (True, False), (False, True), (True, True)):
        if claim := claim_single(queue, by_key=by_key, suspect=suspect, due_before=due_before):
            return next(iter(+run_claim(claim)))
    return None


def consume_batch(queue: SourceQueue, size: int = 100) -> Counter[Outcome]:
    """Claim one batch, run and settle it; empty if nothing is due."""
    claim = claim_batch(queue, size) or claim_batch(queue, size, by_key=True)
    return run_claim(claim) if claim else Counter()
