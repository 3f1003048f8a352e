"""Keeping what a consumer holds, its slot and its claim, while the main thread runs handlers.

A thread with a connection of its own, because the main thread's is busy in the handlers' transaction. It renews what is
held every few seconds; most claims are settled before that, so the connection is opened only when it is needed. A
worker that is frozen or dead renews nothing: what it held is free when its time has run out.
"""

import logging
import threading
from types import TracebackType

from django.db import DatabaseError, InterfaceError, connection

from dlqadmin.consumers.claim import LEASE, RENEW_EVERY

logger = logging.getLogger(__name__)

# What has run out is not taken up again: somebody else may have it.
_RENEW = """
WITH claim AS (
    UPDATE dlqadmin_claim SET until = clock_timestamp() + make_interval(secs => %(lease)s)
    WHERE token = %(claim)s AND until > clock_timestamp()
)
UPDATE dlqadmin_consumerslot SET until = clock_timestamp() + make_interval(secs => %(lease)s)
WHERE id = %(slot)s AND token = %(slot_token)s AND until > clock_timestamp()
"""


class Renewal:
    """A context in which `claim` (a token, or None) and the slot given at its start are renewed."""

    def __init__(self, slot: tuple[int, int]) -> None:
        self.claim: int | None = None
        self._slot = slot
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)

    def __enter__(self) -> "Renewal":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()

    def _run(self) -> None:
        try:
            while not self._ended.wait(RENEW_EVERY):
                self._renew()
        finally:
            connection.close()

    def _renew(self) -> None:
        values = {"lease": LEASE, "claim": self.claim, "slot": self._slot[0], "slot_token": self._slot[1]}
        try:
            with connection.cursor() as cursor:
                cursor.execute(_RENEW, values)
        except (DatabaseError, InterfaceError):
            # Tried again in a few seconds; if that is too late, the settlement finds the claim gone.
            logger.warning("Claim %s could not be renewed.", self.claim, exc_info=True)
            connection.close()
