"""The peer: plain Celery with Django on RabbitMQ, as a careful user configures it (`celery -A bench.peer worker`).

Acknowledged late, results ignored, prefetch multiplier 64. The environment says whether Celery keeps the database
connection (BENCH_KEEP_CONNECTION) and where a task that was given up is counted (BENCH_GIVEN_UP).
"""

import os
from typing import Any

from celery import Celery, Task

from bench import effect
from bench.names import PREFIX_VARIABLE, control_exchange, peer_queue

KEEP_VARIABLE = "BENCH_KEEP_CONNECTION"
GIVEN_UP_VARIABLE = "BENCH_GIVEN_UP"
RETRIES = 2  # so the third failed attempt is the last
TASKS_PER_CONNECTION = 1_000_000  # never a new connection during a run


def configuration(prefix: str) -> dict[str, Any]:
    """Celery's settings for a run; the broker comes from CELERY_BROKER_URL."""
    return {
        "task_acks_late": True,
        "task_ignore_result": True,
        "task_default_queue": peer_queue(prefix, "idle"),
        "worker_prefetch_multiplier": 64,
        "worker_hijack_root_logger": False,
        "broker_connection_retry_on_startup": True,
        "control_exchange": control_exchange(prefix),
        "event_exchange": f"{prefix}-events",
    }


# Not the current app: the process that sends has dlqadmin's.
app = Celery("bench-peer", set_as_current=False)
app.conf.update(configuration(os.environ.get(PREFIX_VARIABLE, "bench")))
if os.environ.get(KEEP_VARIABLE):
    app.conf["CELERY_DB_REUSE_MAX"] = TASKS_PER_CONNECTION


class Poisonous(Task):
    """A task that may be given up: then one byte is appended to a file, which costs next to nothing."""

    def on_failure(self, *args: Any, **kwargs: Any) -> None:
        """Celery calls this after the last attempt."""
        file = os.open(os.environ[GIVEN_UP_VARIABLE], os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, b".")
        finally:
            os.close(file)


@app.task(name="bench.insert")
def insert(n: int) -> None:
    """One row."""
    effect.insert(n)


@app.task(name="bench.poison", bind=True, base=Poisonous, max_retries=RETRIES)
def poison(self: Any, n: int) -> None:
    """One row, except for those that always fail: tried three times, at once."""
    try:
        effect.insert_unless_poisonous(n)
    except ValueError as error:
        raise self.retry(exc=error, countdown=0) from error
