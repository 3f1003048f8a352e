"""What Celery is told about the broker that an installation has chosen. The brokers differ here and nowhere else."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from dlqadmin.brokers import pgmq

RABBITMQ = ("amqp", "amqps", "pyamqp")
REDIS = ("redis", "rediss", "redis+socket", "sentinel")

_QUORUM = {
    # Replicated, and the only durable kind that RabbitMQ goes on with. The type of a queue cannot be changed later.
    "task_default_queue_type": "quorum",
    "task_create_missing_queue_type": "quorum",
    # Their prefetch limit is each consumer's own: the channel's would be refused.
    "worker_detect_quorum_queues": True,
    "worker_consumer": "dlqadmin.brokers.rabbitmq:Consumer",
}

# Seconds after which Redis delivers again what nobody acknowledged. Longer than a turn of a consumer, else its wake-up
# would be delivered a second time; what a lost worker held is found by the sweep long before.
_REDIS_VISIBILITY = 3600


def broker_settings(
    broker_url: str, database: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Celery's settings for `broker_url`, or for pgmq on this Django database if that is empty.

    `options`: transport options of the installation's own; they win.
    """
    url, ours = pgmq.celery_settings(broker_url, database)
    scheme = urlsplit(url).scheme
    if scheme in REDIS:
        ours = {"visibility_timeout": _REDIS_VISIBILITY}
    settings = {"broker_url": url, "broker_transport_options": ours | dict(options or {})}
    return settings | (_QUORUM if scheme in RABBITMQ else {})
