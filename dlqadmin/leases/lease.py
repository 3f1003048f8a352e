"""One leader at a time: who may write, and why.

Lease   says who leads and until when. The holder renews it every few seconds; when its time has run out by the
        database's clock, or the holder let go, any node may take it over.
Epoch   holds the fencing token. It rises by one on every change of the holder and never repeats.

A lease alone cannot stop a node that was paused: it wakes up and still believes. Two rules do:

1. Such a node stops believing once the time since it SENT its last successful renewal reaches the lease (its own
   monotonic clock). That is a courtesy; a pause between this look and a write defeats it.
2. Every write of a leader compares its token with Epoch in the write's own transaction, with FOR SHARE, so no take-over
   can pass between comparison and commit. A late holder gets FencedOut, and nothing of its transaction remains.

Renewals touch Lease only, so a long fenced write never delays one. A take-over waits for fenced writes in flight; one
whose node was frozen in the middle is ended by the database after IDLE_LIMIT.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from dlqadmin.leases.models import FencedWrite

# A fenced transaction in which nothing happens for so long is ended by the database: its node is frozen.
IDLE_LIMIT = "5s"

_ACQUIRE = """
WITH clock AS (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now), before AS (
    SELECT holder, until FROM dlqadmin_lease WHERE name = %(name)s
), taken AS (
    INSERT INTO dlqadmin_lease AS lease (name, holder, token, until, acquired_at, renewed_at)
    SELECT %(name)s, %(node)s, 1, now + %(lease)s, now, now FROM clock
    WHERE NOT EXISTS (SELECT FROM before WHERE until > now) -- who stands by only reads
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = lease.token + 1, until = excluded.until,
        acquired_at = excluded.acquired_at, renewed_at = excluded.renewed_at
    WHERE lease.until <= excluded.acquired_at
    RETURNING token
), epoch AS (
    INSERT INTO dlqadmin_epoch AS epoch (name, token, holder, since)
    SELECT %(name)s, token, %(node)s, now FROM taken, clock
    ON CONFLICT (name) DO UPDATE SET token = excluded.token, holder = excluded.holder, since = excluded.since
), noted AS (
    INSERT INTO dlqadmin_takeover (name, token, holder, previous, released, free_since, at)
    SELECT %(name)s, taken.token, %(node)s, coalesce(before.holder, ''), coalesce(before.holder, '') = '', before.until,
        clock.now
    FROM clock, taken LEFT JOIN before ON true
)
SELECT taken.token, clock.now FROM taken, clock
"""

# No look at `until`: as long as nobody has taken over, a late renewal harms nobody.
_RENEW = """
UPDATE dlqadmin_lease SET renewed_at = moment.now, until = moment.now + %(lease)s
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS moment
WHERE name = %(name)s AND holder = %(node)s AND token = %(token)s RETURNING moment.now
"""

_RELEASE = """
UPDATE dlqadmin_lease SET holder = '', until = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE name = %(name)s AND holder = %(node)s AND token = %(token)s
"""

_SHARE = """
SELECT set_config('idle_in_transaction_session_timeout', %s, true), token FROM dlqadmin_epoch WHERE name = %s FOR SHARE
"""


class FencedOut(Exception):
    """A late holder tried to write. Nothing was written; the attempt is counted and listed."""

    def __init__(self, what: str, token: int, current: int | None) -> None:
        super().__init__(f"{what}: token {token} is not valid any more (now {current})")
        self.what, self.token, self.current = what, token, current


@dataclass
class Lease:
    """One node's side of the lease `name` of `seconds`. `monotonic` is this machine's steady clock, in seconds.

    `now` replaces the database's clock; only `manage.py reproduce leader` gives it.
    """

    name: str
    node: str
    seconds: float
    now: Callable[[], datetime] | None = None
    monotonic: Callable[[], float] = time.monotonic
    token: int | None = field(default=None, init=False)
    _sent: float = field(default=0.0, init=False)
    _received: float = field(default=0.0, init=False)
    _database_time: datetime | None = field(default=None, init=False)

    @property
    def leads(self) -> bool:
        """Whether this node may still believe that it leads (rule 1). Writes are fenced all the same (rule 2)."""
        return self.token is not None and self.age < self.seconds

    @property
    def age(self) -> float:
        """Seconds since the last successful acquisition or renewal was sent."""
        return self.monotonic() - self._sent

    def database_now(self) -> datetime:
        """The database's clock, reckoned from its answer to the last renewal. Never ahead of it."""
        if self._database_time is None:
            raise RuntimeError("The lease was never held.")
        return self._database_time + timedelta(seconds=max(self.monotonic() - self._received, 0.0))

    def acquire(self) -> bool:
        """Take the lease if it is free; True if this node holds it now, under a new token."""
        return self._hold(_ACQUIRE)

    def renew(self) -> bool:
        """Renew; False if another node has taken over, and then the token is gone."""
        if self.token is not None and self._hold(_RENEW):
            return True
        self.token = None
        return False

    def release(self, using: Any = connection) -> None:
        """Let go, so that another node can take over at once. `using`: another connection than this thread's."""
        if self.token is not None:
            with using.cursor() as cursor:
                cursor.execute(_RELEASE, self._values())
            self.token = None

    @contextmanager
    def held(self) -> Iterator[bool]:
        """`with lease.held() as mine:` acquire, and release at the end; `mine` is False if another node holds it."""
        mine = self.acquire()
        try:
            yield mine
        finally:
            self.release()

    @contextmanager
    def fenced(self, what: str) -> Iterator[None]:
        """A transaction that commits only if this node's token is in Epoch; else FencedOut, listed as `what`."""
        try:
            with transaction.atomic(durable=True):
                current = _share_epoch(self.name)
                if current is None or current != self.token:
                    raise FencedOut(what, self.token or 0, current)
                yield
        except FencedOut as late:
            note_fenced(late, self.node)
            raise

    def _hold(self, statement: str) -> bool:
        sent = self.monotonic()
        with connection.cursor() as cursor:
            cursor.execute(statement, self._values())
            row = cursor.fetchone()
        if row is None:
            return False
        self._sent, self._received = sent, self.monotonic()
        if statement is _ACQUIRE:
            self.token = row[0]
        self._database_time = row[-1]
        return True

    def _values(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "node": self.node,
            "token": self.token,
            "lease": timedelta(seconds=self.seconds),
            "now": self.now() if self.now else None,
        }


def note_fenced(late: FencedOut, node: str) -> None:
    """List a fenced-out write, after its own transaction is gone."""
    FencedWrite.objects.create(what=late.what, token=late.token, current=late.current, node=node)


def _share_epoch(name: str) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(_SHARE, [IDLE_LIMIT, name])
        row = cursor.fetchone()
    return row[1] if row else None
