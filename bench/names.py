"""What the queues of a run are called on RabbitMQ, so that nothing of another system is touched.

Everything has the run's prefix. dlqadmin's own Celery queues, `consumers` and `system`, keep their names in the code
and become aliases of queues with that prefix: a worker is started with `--queues consumers`, as everywhere.
"""

from typing import Any

from kombu import Exchange, Queue

PREFIX_VARIABLE = "BENCH_PREFIX"
OURS = ("consumers", "system")
PEERS = ("idle", "a", "a_kept", "ap", "ap_kept")


def queue_settings(prefix: str) -> dict[str, Any]:
    """Celery's settings by which dlqadmin's Celery queues are queues of this run."""
    names = {alias: f"{prefix}-{alias}" for alias in OURS}
    queues = [Queue(name, Exchange(name), routing_key=name, alias=alias) for alias, name in names.items()]
    # The default exchange is declared even where nothing is sent to it.
    return {"task_queues": queues, "task_default_exchange": names["system"]}


def peer_queue(prefix: str, name: str) -> str:
    """The queue of one of PEERS."""
    return f"{prefix}-{name}"


def everything(prefix: str) -> list[str]:
    """Every name under which a run may leave a queue or an exchange on the broker."""
    return [f"{prefix}-{name}" for name in (*OURS, *PEERS)] + [control_exchange(prefix), f"{prefix}-events"]


def control_exchange(prefix: str) -> str:
    """What the remote control of the peers' workers is called."""
    return f"{prefix}-control"
