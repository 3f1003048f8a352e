"""Ending a handler that runs too long."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dlqadmin.consumers.errors import HandlerTimeout


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise HandlerTimeout inside the block once `seconds` of wall-clock time have passed.

    Uses the process's interval timer, so it needs the main thread, which a prefork child's tasks have.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "Consumers need the main thread of their process: run Celery with the prefork pool."
        )

    def expire(signum: int, frame: FrameType | None) -> None:
        raise HandlerTimeout(f"still running after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
