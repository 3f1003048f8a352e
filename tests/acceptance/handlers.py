"""Handlers that end their process in every way; loaded by the workers of the acceptance tests."""

import os
import sys

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
