"""The handlers of the fault run of the consumers; loaded by all its processes."""

import os
import time
from typing import Any

from django.db import connection

from dlqadmin.consumers import consumer
from dlqadmin.leases.node import node_name

WORK = 0.002  # seconds; work that takes no time is seldom hit in its middle


@consumer("atomic-rep", type="effect", repeatable=True)
@consumer("atomic", type="effect")
@consumer("each", type="effect", atomic=False)
@consumer("keyed", type="effect")
@consumer("ledger", type="effect")
def effect(message: Any) -> None:
    """Leave a row."""
    time.sleep(WORK)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fault_effect (n, attempt, node) VALUES (%s, %s, %s)",
            [message.data["n"], message.attempt, node_name()],
        )


@consumer("atomic-rep", type="once", repeatable=True)
@consumer("atomic", type="once")
@consumer("keyed", type="once")
@consumer("ledger", type="once")
def once(message: Any) -> None:
    """Fail at the first attempt, after the row was left."""
    effect(message)
    if message.attempt == 1:
        raise ValueError("the first attempt fails")


@consumer("atomic", type="fail")
def fail(message: Any) -> None:
    """Fail always, after the row was left."""
    effect(message)
    raise ValueError(f"message {message.data['n']} always fails")


@consumer("atomic", type="vanish")
def vanish(message: Any) -> None:
    """End the process at once, as the kernel does when memory is gone."""
    effect(message)
    os._exit(137)
