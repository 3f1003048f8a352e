"""Which function handles which type of message of which queue."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

BodyForm = Literal["json", "text", "bytes"]
Function = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Handler:
    """A declared handler. `timeout` in seconds, None: the queue's. `body`: the form in which `message.data` comes."""

    function: Function
    atomic: bool = True
    timeout: float | None = None
    body: BodyForm = "json"


_handlers: dict[tuple[str, str], Handler] = {}


def consumer(
    queue: str, *, type: str, atomic: bool = True, timeout: float | None = None, body: BodyForm = "json"
) -> Callable[[Function], Function]:
    """Declare the decorated function as the handler of messages of `type` in `queue`.

    It is called with one `IncomingMessage`; returning means success. With `atomic` (the default) its effects in the
    database and the settlement are one transaction: they happen exactly once. Without, they happen at least once.
    A second handler for the same queue and type is a ValueError.
    """

    def declare(function: Function) -> Function:
        known = _handlers.get((queue, type))
        if known and known.function is not function:
            raise ValueError(f"Two handlers for {type!r} of {queue!r}: {known.function} and {function}.")
        _handlers[queue, type] = Handler(function, atomic, timeout, body)
        return function

    return declare


def find_handler(queue: str, type: str) -> Handler | None:
    """The handler for messages of `type` in `queue`, or None."""
    return _handlers.get((queue, type))


def longest_timeout(queue: str, default: float) -> float:
    """The longest time in seconds that any handler of `queue` may run."""
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
