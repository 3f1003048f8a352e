"""A connection that works, after one that failed."""

import time

from django.db import OperationalError, connection

from dlqadmin.consumers.session import limits_are_gone

# Seconds that a worker waits for a database that restarts, while what it has claimed is still its own.
PATIENCE = 10.0
_PAUSE = 0.25


def reconnect() -> None:
    """Make sure that this thread's connection works; OperationalError if the database is not back within PATIENCE."""
    if connection.in_atomic_block:  # a caller's transaction: it goes on, or fails as a whole
        return
    connection.close_if_unusable_or_obsolete()
    if connection.connection is None:
        limits_are_gone()
    end = time.monotonic() + PATIENCE
    while True:
        try:
            connection.ensure_connection()
            return
        except OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
