"""The measured handlers of our runtime, each on a queue of its own. Loaded by the workers (DLQADMIN_HANDLERS)."""

from typing import Any

from bench.effect import insert, insert_unless_poisonous
from dlqadmin.consumers import consumer


@consumer("bench-b", type="insert", atomic=True, repeatable=True)
@consumer("bench-b2", type="insert", atomic=True)
@consumer("bench-c", type="insert", atomic=False)
def insert_row(message: Any) -> None:
    """One row for each message."""
    insert(message.data["n"])


@consumer("bench-p", type="insert", atomic=True, repeatable=True)
def insert_row_or_fail(message: Any) -> None:
    """One row for each message, except those that always fail."""
    insert_unless_poisonous(message.data["n"])


@consumer("bench-n", type="insert", atomic=True, repeatable=True)
def do_nothing(message: Any) -> None:
    """What is left is the runtime."""
