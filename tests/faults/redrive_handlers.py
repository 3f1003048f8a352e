"""The handler of the fault run of a redrive: a message dies in its first life, and leaves a row in its second."""

import time
from typing import Any

from django.db import connection

from dlqadmin.consumers import Permanent, consumer

WORK = 0.002  # seconds; work that takes no time is seldom hit in its middle


@consumer("redriven", type="effect")
def effect(message: Any) -> None:
    """Fail for good before the message was redriven; then leave a row."""
    if message.generation == 0:
        raise Permanent("the cause is not gone")
    time.sleep(WORK)
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO fault_redriven (n) VALUES (%s)", [message.data["n"]])
