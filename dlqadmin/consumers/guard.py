"""Which deliveries of a batch are dropped because their work was done before: one guard for each idempotency policy.

`enter` asks about all messages of a batch at once, `verdict` answers for one when its turn comes, `passed` says that
it was processed, and `leave` writes down what passed, before the settlement. With `locked`, the batch is a transaction
and what it asked about is locked until it ends: no other batch works on the same ids or keys meanwhile. Without, each
message is settled by itself, and the row is written then.
"""

from collections.abc import Iterable
from typing import Protocol

from dlqadmin.consumers.claim import ClaimedMessage
from dlqadmin.messages import idempotency
from dlqadmin.messages.models import Discard
from dlqadmin.queues.models import SourceQueue


class Guard(Protocol):
    """See above."""

    def enter(self, messages: Iterable[ClaimedMessage]) -> None: ...

    def verdict(self, message: ClaimedMessage) -> Discard.Kind | None: ...

    def passed(self, message: ClaimedMessage) -> None: ...

    def leave(self) -> None: ...


class Plain:
    """Every delivery runs."""

    def enter(self, messages: Iterable[ClaimedMessage]) -> None:
        """Nothing to ask."""

    def verdict(self, message: ClaimedMessage) -> Discard.Kind | None:
        """Run it."""
        return None

    def passed(self, message: ClaimedMessage) -> None:
        """Nothing to remember."""

    def leave(self) -> None:
        """Nothing to write."""


class Ledger:
    """A message id runs once."""

    def __init__(self, queue_id: int, *, locked: bool) -> None:
        self._queue, self._locked = queue_id, locked
        self._entered: set[str] = set()
        self._done: set[str] = set()
        self._new: set[str] = set()

    def enter(self, messages: Iterable[ClaimedMessage]) -> None:
        """Ask for ids that the ledger has; with a lock, enter the others."""
        ids = {message.message_id for message in messages}
        if self._locked:
            self._entered = idempotency.enter_ids(self._queue, ids)
            self._done = ids - self._entered
        else:
            self._done = idempotency.known_ids(self._queue, ids)

    def verdict(self, message: ClaimedMessage) -> Discard.Kind | None:
        """A second message with the id of one that failed in this batch runs: nothing was done yet."""
        return Discard.Kind.DUPLICATE if message.message_id in self._done else None

    def passed(self, message: ClaimedMessage) -> None:
        """Its id is done."""
        self._done.add(message.message_id)
        self._new.add(message.message_id)

    def leave(self) -> None:
        """The ledger holds what passed and nothing else."""
        if self._locked:
            if failed := self._entered - self._done:
                idempotency.forget_ids(self._queue, failed)
        elif self._new:
            idempotency.enter_ids(self._queue, self._new)
        self._new = set()


class Latest:
    """Only newer versions of a key run. A message without key or version has nothing to compare: it runs."""

    def __init__(self, queue_id: int, *, locked: bool) -> None:
        self._queue, self._locked = queue_id, locked
        self._newest: dict[bytes, int] = {}
        self._raised: dict[bytes, int] = {}

    def enter(self, messages: Iterable[ClaimedMessage]) -> None:
        """Ask for the newest processed version of each key; with a lock, nobody else raises it meanwhile."""
        keys = {
            message.key for message in messages if message.key is not None and message.version is not None
        }
        if keys:
            ask = idempotency.lock_versions if self._locked else idempotency.known_versions
            self._newest = ask(self._queue, keys)

    def verdict(self, message: ClaimedMessage) -> Discard.Kind | None:
        """Compare with the newest version, this batch's own included."""
        if message.key is None or message.version is None:
            return None
        newest = self._newest.get(message.key, idempotency.NO_VERSION)
        return idempotency.judge_version(message.version, newest)

    def passed(self, message: ClaimedMessage) -> None:
        """Its version is the newest of its key."""
        if message.key is not None and message.version is not None:
            self._newest[message.key] = self._raised[message.key] = message.version

    def leave(self) -> None:
        """Write down the versions that passed."""
        if self._raised:
            idempotency.raise_versions(self._queue, self._raised)
        unused = [key for key, version in self._newest.items() if version == idempotency.NO_VERSION]
        if self._locked and unused:
            idempotency.drop_unused_locks(self._queue, unused)
        self._raised = {}


def guard_of(queue: SourceQueue, *, locked: bool) -> Guard:
    """The guard for a batch of this queue."""
    match queue.idempotency:
        case SourceQueue.Idempotency.LEDGER:
            return Ledger(queue.pk, locked=locked)
        case SourceQueue.Idempotency.LATEST:
            return Latest(queue.pk, locked=locked)
    return Plain()
