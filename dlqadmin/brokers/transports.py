"""kombu's transports for Redis and pgmq, mended in one place: an acknowledgement that does not reach the broker.

kombu tells the broker first, and only then its own list of what is in work. If the broker is away the first step
raises, and the place stays taken. When an outage has taken all places of the prefetch limit, the worker never asks for
another message, so it does not notice that its connection is gone (seen: workers that stood still until a restart).
The broker delivers again what was not acknowledged, and a wake-up that comes twice does no harm.
"""

from typing import Any

from kombu import transport
from kombu.transport import pgmq, redis, virtual


class _FreesItsPlace:
    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Acknowledge; the place in the prefetch limit is free whether or not the broker heard of it."""
        channel: Any = self
        try:
            super().basic_ack(delivery_tag, multiple=multiple)  # type: ignore[misc]
        finally:
            virtual.QoS.ack(channel.qos, delivery_tag)


class RedisChannel(_FreesItsPlace, redis.Channel):
    """A channel to Redis."""


class RedisTransport(redis.Transport):
    """Redis."""

    Channel = RedisChannel


class PgmqChannel(_FreesItsPlace, pgmq.Channel):
    """A channel to pgmq."""


class PgmqTransport(pgmq.Transport):
    """PostgreSQL."""

    Channel = PgmqChannel


def install() -> None:
    """Let broker URLs name these transports in this process."""
    for scheme, name in {
        "redis": "RedisTransport",
        "rediss": "RedisTransport",
        "pgmq": "PgmqTransport",
    }.items():
        transport.TRANSPORT_ALIASES[scheme] = f"{__name__}:{name}"
