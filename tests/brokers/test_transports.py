"""What is mended in kombu's transports."""

import pytest
from kombu import transport
from kombu.transport import virtual

from dlqadmin import celery  # noqa: F401 - installs them
from dlqadmin.brokers.transports import PgmqChannel, RedisChannel


class Away(Exception):
    """The broker does not answer."""


@pytest.mark.parametrize("channel", [RedisChannel, PgmqChannel])
def test_an_acknowledgement_that_the_broker_does_not_hear_frees_the_workers_place(
    channel, monkeypatch
) -> None:
    def away(*args: object, **options: object) -> None:
        raise Away

    monkeypatch.setattr(channel.__mro__[2], "basic_ack", away)
    one = channel.__new__(channel)
    one._qos = qos = virtual.QoS(one, prefetch_count=1)
    monkeypatch.setattr(channel, "qos", qos, raising=False)
    qos.append("message", "tag")
    assert not qos.can_consume()
    with pytest.raises(Away):
        one.basic_ack("tag")
    assert qos.can_consume()
    qos._on_collect.cancel()  # type: ignore[attr-defined]


@pytest.mark.parametrize("scheme", ["redis", "rediss", "pgmq"])
def test_broker_urls_mean_these_transports(scheme) -> None:
    assert transport.get_transport_cls(scheme).__module__ == "dlqadmin.brokers.transports"
