"""Which function handles which type of message of which queue."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

BodyForm = Literal["json", "text", "bytes"]
Function = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Handler:
    """A declared handler. `timeout` in seconds, None: the queue's. `body`: the form in which `message.data` comes.

    `permanent` and `transient`: exceptions after which trying again cannot or can help; the nearest base class decides.
    """

    function: Function
    atomic: bool = True
    repeatable: bool = False
    timeout: float | None = None
    body: BodyForm = "json"
    permanent: tuple[type[BaseException], ...] = ()
    transient: tuple[type[BaseException], ...] = ()


_handlers: dict[tuple[str, str], Handler] = {}


def consumer(queue: str, *, type: str, **options: Any) -> Callable[[Function], Function]:
    """Declare the decorated function as the handler of messages of `type` in `queue`.

    It is called with one `IncomingMessage`; returning means success. Options, the fields of `Handler`:

    - `atomic` (True): its effects in the database and the settlement are one transaction, so they happen exactly once.
      False: it is settled right after it returned, and its effects happen at least once.
    - `repeatable` (False): it has no effects but those in the database, so it may be rolled back with its neighbours
      and run again. Such handlers run fastest.
    - `timeout` (the queue's): seconds. `body` ("json", "text" or "bytes"): the form in which `message.data` comes.
    - `permanent`, `transient` (none): exception classes after which a message dies at once, or is tried again although
      a base class is permanent.

    A second handler for the same queue and type is a ValueError, and so is `repeatable` without `atomic`.
    """

    def declare(function: Function) -> Function:
        known = _handlers.get((queue, type))
        if known and known.function is not function:
            raise ValueError(f"Two handlers for {type!r} of {queue!r}: {known.function} and {function}.")
        handler = Handler(function, **options)
        if handler.repeatable and not handler.atomic:
            raise ValueError(f"{type!r} of {queue!r}: only an atomic handler can be repeatable.")
        _handlers[queue, type] = handler
        return function

    return declare


def find_handler(queue: str, type: str) -> Handler | None:
    """The handler for messages of `type` in `queue`, or None."""
    return _handlers.get((queue, type))


def longest_timeout(queue: str, default: float) -> float:
    """The longest time in seconds that any handler of `queue` may run; `default`: the queue's own."""
    own = [handler.timeout for (name, _), handler in _handlers.items() if name == queue and handler.timeout]
    return max([default, *own])


@contextmanager
def declared(queue: str, *, type: str, function: Function, **options: Any) -> Iterator[None]:
    """A handler for the duration of a with block, in this process: for `reproduce`, benches and tests."""
    consumer(queue, type=type, **options)(function)
    try:
        yield
    finally:
        del _handlers[queue, type]
