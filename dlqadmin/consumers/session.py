"""What a consumer does to its database session around handlers: time limits, and undoing the effects of one of them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from django.db import DatabaseError, InterfaceError, InternalError, connection

from dlqadmin.consumers.run import Failure, failure_of

# Seconds that the server grants beyond the handler's time-out, so that the consumer's own comes first.
STATEMENT_GRACE = 1.0
# A worker that was frozen in the middle of a transaction keeps its locks no longer than so many seconds more.
IDLE_GRACE = 10.0


class Undone(Exception):
    """What this transaction has done must be undone as a whole."""


class Conflict(Undone):
    """Another transaction got in the way of this one. `failure`: what its message has failed with, if it counts."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error.text)
        self.failure = failure


class Mark(Protocol):
    """How to come back to the moment before a message."""

    def begin(self) -> None: ...

    def keep(self) -> Failure | None: ...

    def undo(self) -> None: ...


class Unmarked:
    """No way back: any failure undoes the whole transaction."""

    def begin(self) -> None:
        """Nothing to prepare."""

    def keep(self) -> Failure | None:
        """The handler's effects stay, unless it asked to have them rolled back."""
        if connection.needs_rollback:
            raise Undone
        return None

    def undo(self) -> None:
        """Not possible for one message alone."""
        raise Undone


class Savepoint:
    """One savepoint that moves on after each message, in one round trip.

    Django's own would take two, and a dozen of Python calls; what it does beyond that is done here: callbacks that a
    handler registered for the commit go with its effects.
    """

    def begin(self) -> None:
        """Before the first message."""
        self._callbacks = len(connection.run_on_commit)
        _execute("SAVEPOINT message")

    def keep(self) -> Failure | None:
        """The handler's effects stay. A failure, if it went on after an error of the database: they cannot stay."""
        if connection.needs_rollback:
            self.undo()
            return None
        try:
            _execute("RELEASE SAVEPOINT message; SAVEPOINT message")
        except InternalError as error:
            self.undo()
            return failure_of(error)
        self._callbacks = len(connection.run_on_commit)
        return None

    def undo(self) -> None:
        """Back to the moment before this message."""
        _execute("ROLLBACK TO SAVEPOINT message")
        connection.needs_rollback = False
        del connection.run_on_commit[self._callbacks :]


def limit_transaction(seconds: float) -> None:
    """Let the server end what the consumer cannot: a query that outlives its handler, a frozen transaction."""
    statement, idle = _milliseconds(seconds + STATEMENT_GRACE), _milliseconds(seconds + IDLE_GRACE)
    _execute(
        f"SET LOCAL statement_timeout = {statement}; SET LOCAL idle_in_transaction_session_timeout = {idle}"
    )


@contextmanager
def limited_statements(seconds: float) -> Iterator[None]:
    """The first of these limits for statements outside of a transaction."""
    _execute(f"SET statement_timeout = {_milliseconds(seconds + STATEMENT_GRACE)}")
    try:
        yield
    finally:
        with suppress(DatabaseError, InterfaceError):  # a session that is gone needs no reset
            _execute("RESET statement_timeout")


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _execute(statements: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statements)
