"""What a consumer does to its database session around handlers: time limits, undoing what one did, reconnecting."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, Protocol

from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    InterfaceError,
    InternalError,
    OperationalError,
    connection,
    connections,
)
from django.db.transaction import TransactionManagementError
from psycopg.pq import TransactionStatus

from dlqadmin.consumers.run import Failure, failure_of

# Seconds that the server grants beyond the handler's time-out, so that the consumer's own comes first.
STATEMENT_GRACE = 1.0
# A worker that was frozen in the middle of a transaction keeps its locks no longer than so many seconds more.
IDLE_GRACE = 10.0

# Seconds that a worker waits for a database that restarts, while what it has claimed is still its own.
PATIENCE = 10.0
_PAUSE = 0.25


class Undone(Exception):
    """What this transaction has done must be undone as a whole."""


class Conflict(Undone):
    """Another transaction got in the way of this one. `failure`: what its message has failed with, if it counts."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error.text)
        self.failure = failure


class Mark(Protocol):
    """What becomes of a handler's effects. `begin` once, before the first message; after each, one of the others.

    `keep` answers with a failure if the effects cannot stay although the handler returned, `undo` with what the message
    has failed with. Both raise Undone if the transaction cannot go on.
    """

    def begin(self) -> None: ...

    def keep(self) -> Failure | None: ...

    def undo(self, failure: Failure) -> Failure: ...


class Unmarked:
    """No way back: any failure undoes the whole transaction."""

    def begin(self) -> None:
        """Before the first message."""
        self._connection = connections[
            DEFAULT_DB_ALIAS
        ]  # not through the proxy: it is asked for every message
        self._depth = _depth(self._connection)

    def keep(self) -> Failure | None:
        """The handler's effects stay, unless it asked to have them rolled back."""
        if self._connection.needs_rollback or _depth(self._connection) != self._depth:
            self._give_up()
        return None

    def undo(self, failure: Failure) -> Failure:
        """Not possible for one message alone."""
        self._give_up()

    def _give_up(self) -> NoReturn:
        _close_blocks(self._connection, self._depth)
        raise Undone


class Savepoint:
    """One savepoint that moves on after each message, in one round trip.

    Django's own would take two, and a dozen of Python calls; what it does beyond that is done here: callbacks that a
    handler registered for the commit go with its effects, and so do `atomic` blocks that it left open.
    """

    def begin(self) -> None:
        """Before the first message."""
        self._connection = connections[DEFAULT_DB_ALIAS]
        self._depth = _depth(self._connection)
        _execute("SAVEPOINT message")
        self._start()

    def keep(self) -> Failure | None:
        """The handler's effects stay, unless it asked to have them rolled back.

        A failure, if it went on after an error of the database: they cannot stay.
        """
        if self._connection.needs_rollback and not _is_aborted():
            self._go_back()
            return None
        # What the ORM has noted is the cause only if it is why the transaction is broken: it may be an older error.
        noted = self._connection.rollback_exc if self._connection.needs_rollback else None  # type: ignore[attr-defined]
        self._connection.needs_rollback = False  # Django would refuse the next statement
        _close_blocks(self._connection, self._depth)
        try:
            _execute("RELEASE SAVEPOINT message; SAVEPOINT message")
        except InternalError as error:
            self._go_back()
            return failure_of(noted or error)
        self._start()
        return None

    def undo(self, failure: Failure) -> Failure:
        """Back to the moment before this message; not after a conflict, whose cause may lie before that."""
        if failure.conflict:
            raise Conflict(failure)
        self._go_back()
        return failure

    def _go_back(self) -> None:
        # Set by the ORM when a statement failed: Django would refuse the very statement that mends it.
        self._connection.needs_rollback = False
        _close_blocks(self._connection, self._depth)
        _execute("ROLLBACK TO SAVEPOINT message")
        del self._connection.run_on_commit[self._callbacks :]
        self._start()

    def _start(self) -> None:
        """The next message starts with these callbacks of others, and without an error of theirs."""
        self._callbacks = len(self._connection.run_on_commit)
        self._connection.rollback_exc = None  # type: ignore[attr-defined]  # newer than its stubs


class Bare:
    """No transaction around the handler: its effects are its own, and only one that it left open is ended."""

    def begin(self) -> None:
        """Before the first message."""
        self._connection = connections[DEFAULT_DB_ALIAS]
        self._depth = _depth(self._connection)

    def keep(self) -> Failure | None:
        """A failure, if the handler left a transaction open: what it did in there is gone."""
        failure = self._left_open()
        if failure:
            reconnect()
        return failure

    def undo(self, failure: Failure) -> Failure:
        """Nothing to undo; but the connection must work for the settlement."""
        failure = self._left_open() or failure
        reconnect()
        return failure

    def _left_open(self) -> Failure | None:
        if _depth(self._connection) == self._depth:
            return None
        if any(self._depth):
            _close_blocks(self._connection, self._depth)
        else:
            self._connection.connection.close()
            self._connection.connect()
        return failure_of(TransactionManagementError("The handler left a transaction open."))


def _depth(connection: Any) -> tuple[int, int]:
    """How many `atomic` blocks are open, and how many of them with a savepoint; the same unless one was left open."""
    return len(connection.atomic_blocks), len(connection.savepoint_ids)


def _close_blocks(connection: Any, depth: tuple[int, int]) -> None:
    """Forget `atomic` blocks that were entered and never left; the caller's statements end their savepoints."""
    blocks, savepoints = depth
    del connection.atomic_blocks[blocks:]
    del connection.savepoint_ids[savepoints:]


def let_callbacks_fail() -> None:
    """One that a handler registered for after the commit may fail, and is logged then; its neighbours' run."""
    registered: list[Any] = connection.run_on_commit  # (savepoints, callback, robust)
    connection.run_on_commit = [(*one[:2], True) for one in registered]


# What the session of this process is limited to, in seconds of a handler; 0: not at all.
_limit = 0.0


def limit_transaction(seconds: float) -> None:
    """Let the server end what the consumer cannot: a query that outlives its handler, a frozen transaction.

    Nothing to do in a session that has about such a limit already.
    """
    if not seconds <= _limit:
        _execute(_limits("SET LOCAL", seconds))


@contextmanager
def limited_session(seconds: float) -> Iterator[None]:
    """The same limits for whatever runs inside, in transactions or not."""
    global _limit
    before, _limit = _limit, max(seconds, _limit)
    if _limit > before:
        _execute(_limits("SET", _limit))
    try:
        yield
    finally:
        if _limit > before:
            with suppress(DatabaseError, InterfaceError):  # a session that is gone needs no reset
                _execute("RESET statement_timeout; RESET idle_in_transaction_session_timeout")
        _limit = before


def reconnect() -> None:
    """Make sure that this thread's connection works; OperationalError if the database is not back within PATIENCE."""
    global _limit
    if connection.in_atomic_block:  # a caller's transaction: it goes on, or fails as a whole
        return
    connection.close_if_unusable_or_obsolete()
    if connection.connection is None:
        _limit = 0.0  # the session will be a new one
    end = time.monotonic() + PATIENCE
    while True:
        try:
            connection.ensure_connection()
            return
        except OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE)


def _limits(verb: str, seconds: float) -> str:
    statement, idle = _milliseconds(seconds + STATEMENT_GRACE), _milliseconds(seconds + IDLE_GRACE)
    return f"{verb} statement_timeout = {statement}; {verb} idle_in_transaction_session_timeout = {idle}"


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _is_aborted() -> bool:
    """Whether a statement of the transaction failed, so that the server refuses all others."""
    status: TransactionStatus = connection.connection.info.transaction_status
    return status is TransactionStatus.INERROR


def _execute(statements: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statements)
