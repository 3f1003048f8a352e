"""Consumers run in Celery's prefork pool only: a time-out interrupts the main thread of a process of its own, which can
be killed when the handler does not listen. A worker with another pool that would consume is refused at its start."""

import logging
from typing import Any

from celery import signals
from celery.concurrency import get_implementation
from celery.concurrency.prefork import TaskPool
from django.db import DatabaseError, InterfaceError, connection

from dlqadmin.queues.models import SourceQueue

logger = logging.getLogger(__name__)

DEFAULT_QUEUE: str = SourceQueue._meta.get_field("celery_queue").default


@signals.worker_init.connect
def refuse_other_pools(sender: Any, **_: Any) -> None:
    """End a worker that starts with another pool and consumes from a Celery queue of native queues."""
    pool = get_implementation(sender.pool_cls)
    if issubclass(pool, TaskPool):
        return
    consumed = consumers_queues().intersection(sender.app.amqp.queues.consume_from)
    if consumed:
        raise SystemExit(
            f"dlqadmin: a worker of {', '.join(sorted(consumed))} needs the prefork pool, not {pool.__module__}: "
            "only there can a handler that runs too long be ended. Start it with --pool prefork."
        )


def consumers_queues() -> set[str]:
    """The Celery queues that carry the wake-ups of native queues; the default alone if the database is away."""
    native = SourceQueue.objects.filter(kind=SourceQueue.Kind.NATIVE, archived_at=None)
    try:
        return {DEFAULT_QUEUE, *native.values_list("celery_queue", flat=True)}
    except (DatabaseError, InterfaceError):
        logger.warning("The database is away, so only workers of %s are known as consumers.", DEFAULT_QUEUE)
        return {DEFAULT_QUEUE}
    finally:
        connection.close()  # nothing that the worker starts shall inherit it
