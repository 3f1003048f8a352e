"""Handlers that end their process in every way; loaded by the workers of the acceptance tests."""

import os
import sys
import time

from dlqadmin.consumers import consumer
from dlqadmin.people.models import Owner


@consumer("rough", type="effect")
def effect(message) -> None:
    """Leaves a row: doubles would collide, losses would be missing."""
    Owner.objects.create(name=f"effect {message.data['n']}", slug=f"effect-{message.data['n']}")


@consumer("rough", type="leave")
def leave(message) -> None:
    """Ends its process politely."""
    sys.exit(3)


@consumer("rough", type="vanish")
def vanish(message) -> None:
    """Ends its process at once, as the kernel does when memory is gone."""
    os._exit(137)


# --- In the queues of test_brokers.py and test_shutdown.py ---------------------------------------------------------


@consumer("steady", type="step")
@consumer("aside", type="step")
def step(message) -> None:
    """Takes a moment and leaves a row, with the process id of the worker that it ran in."""
    time.sleep(0.01)
    number, worker = message.data["n"], os.getppid()
    Owner.objects.create(
        name=f"{worker} did {number}", slug=f"step-{number}", email=f"{worker}@worker.example"
    )


@consumer("steady", type="fail")
def fail(message) -> None:
    """Never succeeds."""
    raise ValueError("this will never do")


def hold(message) -> None:
    """Waits until the owner "go" exists."""
    while not Owner.objects.filter(slug="go").exists():
        time.sleep(0.05)


for _number in range(6):
    consumer(f"held-{_number}", type="hold")(hold)
