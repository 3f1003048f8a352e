"""The Celery task that runs singleton jobs, and the job of the leases themselves."""

from celery import shared_task

from dlqadmin.leases import heartbeat, run
from dlqadmin.leases.jobs import job
from dlqadmin.leases.node import node_name
from dlqadmin.leases.prune import prune

RUN_TASK = "dlqadmin.leases.run_trigger"

__all__ = ["heartbeat", "run_trigger"]  # a worker that loads its tasks also starts its heart

job("leases.prune", cron="7 * * * *")(prune)


@shared_task(name=RUN_TASK)
def run_trigger(trigger: int, name: str) -> None:
    """Run the job of a trigger, unless it runs or ran already."""
    run.execute(trigger, name, node_name())
