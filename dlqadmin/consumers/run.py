"""Running a handler on one message: every way in which that can end becomes None (success) or a `Failure`."""

import json
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # newer than its stubs
from django.db import transaction

from dlqadmin.consumers.claim import ClaimedMessage
from dlqadmin.consumers.errors import HandlerTimeout, Permanent, RetryAfter
from dlqadmin.consumers.registry import Handler
from dlqadmin.consumers.timeout import time_limit
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.failure import ErrorRecord

Reason = DeadLetter.Reason


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
    handler ran, so the attempt counts. `retry_after`: seconds that the handler asked for.
    """

    reason: DeadLetter.Reason
    error: ErrorRecord
    at_once: bool = False
    started: bool = True
    retry_after: float | None = None


class Interrupted(Exception):
    """The process is being ended while the handler ran: the message goes back uncharged, then `cause` goes on."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(repr(cause))
        self.cause = cause


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
        headers=[tuple(header) for header in json.loads(message.headers)],
        attempt=message.attempts,
        generation=message.generation,
        lineage=message.lineage,
        published_at=message.published_at,
    )


def run(handler: Handler, incoming: IncomingMessage, *, timeout: float) -> Failure | None:
    """Call the handler; None if it returned. Raises Interrupted when the process itself is being ended.

    An atomic handler runs in a savepoint of the caller's transaction, so that a failure undoes its effects only.
    """
    try:
        with _savepoint(handler.atomic), time_limit(timeout):
            handler.function(incoming)
    except Permanent as error:
        return Failure(Reason.PERMANENT, ErrorRecord.of_exception(error), at_once=True)
    except RetryAfter as error:
        return Failure(Reason.THRESHOLD, ErrorRecord.of_exception(error), retry_after=max(error.seconds, 0.0))
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is the outcome of its attempt
        return Failure(Reason.THRESHOLD, ErrorRecord.of_exception(error))
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


def _savepoint(wanted: bool) -> Any:
    return transaction.atomic() if wanted else nullcontext()


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
    return text if form == "text" else json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
