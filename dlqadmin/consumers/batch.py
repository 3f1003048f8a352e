"""Running what was claimed, so that one bad message never harms the others.

Atomic handlers run together in one transaction with their settlement, on the first of these rungs that holds:

1. optimistic, without savepoints, if all of them are repeatable;
2. with a savepoint for each message, so that a failure undoes its own effects only;
3. each message in a transaction of its own, if the transaction as a whole failed: a deadlock, a deferred constraint, a
   lost connection. What fails here is the message's own failure.

A rung that does not hold is rolled back and charges nobody. Other handlers run without a transaction, and each message
is settled right after its handler.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from typing import NamedTuple

from django.db import DatabaseError, InterfaceError, transaction

from dlqadmin.consumers.claim import Claim, ClaimedMessage
from dlqadmin.consumers.errors import ClaimLost, Interrupted
from dlqadmin.consumers.guard import Guard, Plain, guard_of
from dlqadmin.consumers.pace import BATCH_SECONDS, pace_of
from dlqadmin.consumers.registry import Handler, find_handler
from dlqadmin.consumers.run import Failure, failure_of, prepare, run
from dlqadmin.consumers.session import (
    Bare,
    Conflict,
    Mark,
    Savepoint,
    Undone,
    Unmarked,
    let_callbacks_fail,
    limit_transaction,
    limited_session,
    reconnect,
)
from dlqadmin.consumers.settle import SETTLE_SECONDS, Delivery, Outcome, end_now, give_back, hold, settle
from dlqadmin.consumers.timeout import Deadline, deadlines
from dlqadmin.deadletters.capture import MessageGone
from dlqadmin.leases.lease import FencedOut, note_fenced
from dlqadmin.leases.node import node_name

logger = logging.getLogger(__name__)

# One by one, messages may take longer in all before the rest goes back: each transaction is short.
ALONE_SECONDS = 1.0

# How a consumer that was fenced out signs, before the name of its queue; jobs sign with their names.
CONSUMER_OF = "consumer of "

_REFUSED = (DatabaseError, InterfaceError)


class Work(NamedTuple):
    """A claimed message with its handler, None: there is none for its type. `timeout` in seconds."""

    message: ClaimedMessage
    handler: Handler | None
    timeout: float

    @property
    def atomic(self) -> bool:
        """Whether it runs in a transaction; what cannot run at all is settled in one."""
        return self.handler is None or self.handler.atomic


def run_claim(claim: Claim) -> Counter[Outcome]:
    """Run and settle what was claimed; how many messages had each outcome. The claim has ended when this returns.

    What the time of a batch did not suffice for goes back to the queue uncharged, and so does what follows a message
    that is handled in another way (atomic or not).
    """
    work = [_work(claim, message) for message in claim.messages]
    work = list(takewhile(lambda one: one.atomic is work[0].atomic, work))
    try:
        if not work[0].atomic:
            return _run_each(claim, work)
        if claim.single:
            return _run_alone(claim, work)
        return _run_on_rungs(claim, work)
    except Interrupted as interrupted:
        with suppress(ClaimLost):  # somebody else has freed it
            give_back(claim)
        raise interrupted.cause from None
    except (ClaimLost, MessageGone):
        return _fenced(claim)


def _work(claim: Claim, message: ClaimedMessage) -> Work:
    handler = find_handler(claim.queue.name, message.type)
    return Work(message, handler, (handler and handler.timeout) or claim.queue.timeout)


def _fenced(claim: Claim) -> Counter[Outcome]:
    logger.warning("Claim %s of %s was lost, so nothing was settled.", claim.token, claim.queue)
    note_fenced(FencedOut(f"{CONSUMER_OF}{claim.queue}", claim.token, None), node_name())
    return Counter({Outcome.FENCED: len(claim.messages)})


class _InTurn:
    """The messages that may run now: the first, others until the time is over, none of a key of which one failed."""

    def __init__(self, work: list[Work], seconds: float) -> None:
        self._work = work
        self._end = time.monotonic() + seconds
        self._stopped: set[bytes | None] = set()

    def __iter__(self) -> Iterator[Work]:
        for number, one in enumerate(self._work):
            if number and time.monotonic() >= self._end:
                return
            if not one.message.by_key or one.message.key not in self._stopped:
                yield one

    def failed(self, message: ClaimedMessage) -> None:
        """What stands behind this message in its key waits for it."""
        self._stopped.add(message.key)


# --- Atomic handlers --------------------------------------------------------------------------------------------------


def _run_on_rungs(claim: Claim, work: list[Work]) -> Counter[Outcome]:
    pace = pace_of(claim.queue.pk)
    if _is_repeatable(work) and pace.may_be_optimistic():
        try:
            outcomes = _run_together(claim, work, Unmarked())
        except (Undone, *_REFUSED):
            reconnect()
            pace.optimism_failed()
        else:
            pace.optimism_held()
            return outcomes
    try:
        return _run_together(claim, work, Savepoint())
    except (Undone, *_REFUSED) as error:
        logger.info("A batch of %s is run one by one: %s", claim.queue, error)
        reconnect()
    return _run_alone(claim, work)


def _is_repeatable(work: list[Work]) -> bool:
    """A message that failed before is likely to fail again."""
    return all(one.handler and one.handler.repeatable and one.message.attempts == 1 for one in work)


def _run_together(claim: Claim, work: list[Work], mark: Mark) -> Counter[Outcome]:
    longest = max(one.timeout for one in work)
    guard = guard_of(claim.queue, locked=True)
    deliveries = []
    with deadlines(longest + BATCH_SECONDS) as deadline, transaction.atomic():
        limit_transaction(longest)
        guard.enter(one.message for one in work)
        mark.begin()
        for one in (turn := _InTurn(work, BATCH_SECONDS)):
            delivery = _deliver(claim, one, guard, deadline, mark)
            deliveries.append(delivery)
            if delivery.failure:
                turn.failed(one.message)
        guard.leave()
        let_callbacks_fail()
        return settle(claim, deliveries)


def _run_alone(claim: Claim, work: list[Work]) -> Counter[Outcome]:
    """Each message in a transaction of its own; a claim of one ends with it."""
    outcomes: Counter[Outcome] = Counter()
    if not claim.single:
        hold(claim)  # a commit whose answer was lost may have settled everything
    for one in (turn := _InTurn(work, ALONE_SECONDS)):
        settled = _run_one(claim, one)
        outcomes += settled
        if settled[Outcome.RETRY] or settled[Outcome.DEAD]:
            turn.failed(one.message)
    if not claim.single:
        outcomes[Outcome.GIVEN_BACK] += give_back(claim, settled=outcomes.total())
    return outcomes


def _run_one(claim: Claim, one: Work) -> Counter[Outcome]:
    """A transaction that another one got in the way of is tried once more before it counts as a failure."""
    clock = time.monotonic()
    failure = _try_one(claim, one)
    if isinstance(failure, Failure) and failure.conflict:
        failure = _try_one(claim, one)
    if not isinstance(failure, Failure):
        return failure
    with transaction.atomic():
        limit_transaction(SETTLE_SECONDS)
        return settle(claim, [Delivery(one.message, clock, failure)], last=claim.single)


def _try_one(claim: Claim, one: Work) -> Counter[Outcome] | Failure:
    """What was settled; or, with nothing done, why the transaction did not hold."""
    guard = guard_of(claim.queue, locked=True)
    mark = Savepoint()
    try:
        with deadlines(one.timeout) as deadline, transaction.atomic():
            limit_transaction(one.timeout)
            guard.enter([one.message])
            mark.begin()
            delivery = _deliver(claim, one, guard, deadline, mark)
            guard.leave()
            let_callbacks_fail()
            return settle(claim, [delivery], last=claim.single)
    except Conflict as conflict:
        return conflict.failure
    except _REFUSED as error:
        reconnect()
        return failure_of(error, one.handler)


def _deliver(claim: Claim, one: Work, guard: Guard, deadline: Deadline, mark: Mark) -> Delivery:
    """Run one message. Raises Undone if the transaction that it runs in cannot go on."""
    message, clock = one.message, time.monotonic()
    if discard := guard.verdict(message):
        return Delivery(message, clock, discard=discard)
    incoming = prepare(message, one.handler, claim.queue.name)
    if isinstance(incoming, Failure) or one.handler is None:
        return Delivery(message, clock, incoming if isinstance(incoming, Failure) else None)
    failure = run(one.handler, incoming, deadline, one.timeout)
    failure = mark.undo(failure) if failure else mark.keep()
    if failure is None:
        guard.passed(message)
    return Delivery(message, clock, failure)


# --- Other handlers ---------------------------------------------------------------------------------------------------


def _run_each(claim: Claim, work: list[Work]) -> Counter[Outcome]:
    """Each message is settled right after its handler returned. That commit may be lost in a crash of the database,
    and then the message runs again: nobody was promised that it would not."""
    outcomes: Counter[Outcome] = Counter()
    longest = max(one.timeout for one in work)
    guard, mark = guard_of(claim.queue, locked=False), Bare()
    guard.enter(one.message for one in work)
    mark.begin()
    with limited_session(longest):
        with deadlines(longest + BATCH_SECONDS) as deadline:
            for one in (turn := _InTurn(work, BATCH_SECONDS)):
                delivery = _deliver(claim, one, guard, deadline, mark)
                outcomes += _settle_one(claim, delivery, guard)
                if delivery.failure:
                    turn.failed(one.message)
        if not claim.single:
            outcomes[Outcome.GIVEN_BACK] += give_back(claim, settled=outcomes.total())
    return outcomes


def _settle_one(claim: Claim, delivery: Delivery, guard: Guard) -> Counter[Outcome]:
    """The handler has run, so a settlement that the database did not take is tried again."""
    try:
        return _settle_now(claim, delivery, guard)
    except _REFUSED:
        reconnect()
        if delivery.processed:
            guard.passed(delivery.message)  # what it had written down is undone
        return _settle_now(claim, delivery, guard)


def _settle_now(claim: Claim, delivery: Delivery, guard: Guard) -> Counter[Outcome]:
    if delivery.plainly_processed and isinstance(guard, Plain) and not claim.single:
        return end_now(claim, delivery.message)
    with transaction.atomic():
        guard.leave()
        return settle(claim, [delivery], last=claim.single, durable=False)
