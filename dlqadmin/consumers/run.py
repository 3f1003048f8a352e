"""Running a handler on one message: every way in which that can end becomes None (success) or a `Failure`."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # newer than its stubs

from dlqadmin.consumers.claim import ClaimedMessage
from dlqadmin.consumers.errors import HandlerTimeout, Interrupted, Permanent, RetryAfter
from dlqadmin.consumers.registry import Handler
from dlqadmin.consumers.timeout import Deadline
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.failure import ErrorRecord

Reason = DeadLetter.Reason

# SQLSTATEs of transactions that got in each other's way: serialization failure, deadlock.
_CONFLICTS = frozenset({"40001", "40P01"})


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """What a handler is called with. `data` is the body in the form that the handler declared; `attempt` from 1."""

    id: str
    type: str
    data: Any
    body: bytes | None
    key: bytes | None
    version: int | None
    content_type: str
    headers: list[tuple[str, str, str | None]]
    attempt: int
    generation: int
    lineage: UUID
    published_at: datetime


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a message was not processed.

    `reason`: the letter's reason if it dies of this. `at_once`: it dies now, whatever the threshold. `started`: the
    handler ran, so the attempt counts. `retry_after`: seconds that the handler asked for. `classes`: the exception's
    class and its bases, nearest first. `conflict`: the database ended the transaction because of another one.
    """

    reason: DeadLetter.Reason
    error: ErrorRecord
    at_once: bool = False
    started: bool = True
    retry_after: float | None = None
    classes: tuple[str, ...] = ()
    conflict: bool = False


def prepare(message: ClaimedMessage, handler: Handler | None, queue: str) -> IncomingMessage | Failure:
    """What the handler will be called with, or why it cannot be: no handler, or a body that is not what it declared."""
    if handler is None:
        text = f"no handler for type {message.type!r} in queue {queue!r}"
        return Failure(
            Reason.UNKNOWN_TYPE, ErrorRecord.of_text(text, "UnknownType"), at_once=True, started=False
        )
    try:
        data = _decode(message.body, handler.body)
    except (ValueError, RecursionError) as error:
        text = f"body is not {handler.body}: {error}"
        record = ErrorRecord.of_text(text, type(error).__qualname__)
        return Failure(Reason.UNDECODABLE, record, at_once=True, started=False)
    return IncomingMessage(
        id=message.message_id,
        type=message.type,
        data=data,
        body=message.body,
        key=message.key,
        version=message.version,
        content_type=message.content_type,
        headers=[] if message.headers == "[]" else [tuple(one) for one in json.loads(message.headers)],
        attempt=message.attempts,
        generation=message.generation,
        lineage=message.lineage,
        published_at=message.published_at,
    )


def run(handler: Handler, incoming: IncomingMessage, deadline: Deadline, timeout: float) -> Failure | None:
    """Call the handler, for at most `timeout` seconds; None if it returned.

    What it wrote to the database is the caller's to keep or to undo. Raises Interrupted when the process itself is
    being ended.
    """
    try:
        deadline.start(timeout)
        try:
            handler.function(incoming)
        finally:
            deadline.stop()
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is the outcome of its attempt
        return failure_of(error, handler)
    except HandlerTimeout as error:
        return Failure(Reason.TIMEOUT, ErrorRecord.of_exception(error))
    except SystemExit as error:
        if terminate_handler_fired():
            raise Interrupted(error) from error
        return Failure(Reason.EXITED, _exit_record(error))
    except KeyboardInterrupt as error:
        raise Interrupted(error) from error
    except BaseException as error:  # noqa: BLE001 - the same
        return Failure(Reason.INTERRUPTED, ErrorRecord.of_exception(error))
    return None


def failure_of(error: Exception, handler: Handler | None = None) -> Failure:
    """The failure that an exception stands for."""
    record = ErrorRecord.of_exception(error)
    if isinstance(error, Permanent) or (handler and _is_permanent(error, handler)):
        return Failure(Reason.PERMANENT, record, at_once=True)
    return Failure(
        Reason.THRESHOLD,
        record,
        retry_after=max(error.seconds, 0.0) if isinstance(error, RetryAfter) else None,
        classes=tuple(f"{base.__module__}.{base.__qualname__}" for base in type(error).__mro__),
        conflict=getattr(error.__cause__ or error, "sqlstate", None) in _CONFLICTS,
    )


def _is_permanent(error: Exception, handler: Handler) -> bool:
    """Whether the nearest of the error's classes that the handler names is named as permanent."""
    for base in type(error).__mro__:
        if base in handler.transient:
            return False
        if base in handler.permanent:
            return True
    return False


def _exit_record(error: SystemExit) -> ErrorRecord:
    """`sys.exit()` has no text of its own: say what was called."""
    record = ErrorRecord.of_exception(error)
    code = "" if error.code is None else repr(error.code)
    said = ErrorRecord.of_text(f"the handler called sys.exit({code})", "SystemExit")
    return ErrorRecord("SystemExit", said.text, said.raw, record.traceback)


def _decode(body: bytes | None, form: str) -> Any:
    """The body in the declared form; ValueError if it is not that. JSON must be UTF-8 and have no NaN or Infinity."""
    if form == "bytes":
        return body
    if body is None:
        raise ValueError("there is no body")
    text = body.decode("utf-8")
    return text if form == "text" else _JSON.decode(text)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_JSON = json.JSONDecoder(parse_constant=_no_constant)
