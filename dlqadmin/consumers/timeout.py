"""Ending a handler that runs too long."""

import faulthandler
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dlqadmin.consumers.errors import HandlerTimeout

# Seconds after its time-out at which a handler that is still running is ended together with its process.
KILL_AFTER = 10.0
SLACK = 1.0


def require_main_thread() -> None:
    """RuntimeError in a thread of a pool. Asked before anything is claimed: what fails later would be suspected."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("Consumers need the main thread of their process: run Celery with --pool prefork.")


class Deadline:
    """The interval timer of this process: `start` before each handler, `stop` after it."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._kill_at = float("-inf")

    def start(self, seconds: float) -> None:
        """Raise HandlerTimeout in the main thread after so much wall-clock time."""
        self._seconds = seconds
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def stop(self) -> None:
        """No more time-out. A signal that is on its way is ignored: the handler has just ended."""
        self._seconds = 0.0
        signal.setitimer(signal.ITIMER_REAL, 0)

    def expire(self, signum: int, frame: FrameType | None) -> None:
        """The signal's handler."""
        if self._seconds:
            raise HandlerTimeout(f"still running after {self._seconds:g} s")

    def watch(self, longest: float) -> None:
        """See that the process ends KILL_AFTER seconds after handlers that may take `longest`, counted from now.

        Arming the watchdog starts a thread, so it is left alone while it is at most SLACK late.
        """
        kill_at = time.monotonic() + longest + KILL_AFTER
        if kill_at <= self._kill_at <= kill_at + SLACK:
            return
        self._kill_at = kill_at + SLACK
        # Not sys.stderr: a worker puts its log there, which is no file.
        stderr = sys.__stderr__ or sys.stderr
        faulthandler.dump_traceback_later(longest + KILL_AFTER + SLACK, exit=True, file=stderr)


_active: Deadline | None = None


@contextmanager
def deadlines(longest: float) -> Iterator[Deadline]:
    """A Deadline for handlers of which none may take more than `longest` seconds, counted from now.

    Code that holds the interpreter (a loop in C) or swallows the exception sees no time-out. KILL_AFTER seconds later
    the process writes its stack to stderr and ends, from a thread that needs no interpreter; the message is then a
    suspect. Needs the main thread of its process, which a prefork child's tasks have. Inside another one, it is that.
    """
    global _active
    if _active:
        _active.watch(longest)
        yield _active
        return
    require_main_thread()
    _active = deadline = Deadline()
    before = signal.signal(signal.SIGALRM, deadline.expire)
    deadline.watch(longest)
    try:
        yield deadline
    finally:
        faulthandler.cancel_dump_traceback_later()
        deadline.stop()
        signal.signal(signal.SIGALRM, before)
        _active = None
