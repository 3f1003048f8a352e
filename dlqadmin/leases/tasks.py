"""The Celery task that runs singleton jobs, and the job of the leases themselves."""

from celery import shared_task

from dlqadmin.leases import heartbeat, run, triggers
from dlqadmin.leases.jobs import job
from dlqadmin.leases.node import node_name
from dlqadmin.leases.prune import prune

RUN_TASK = "dlqadmin.leases.run_trigger"
MOST_RUNS = 50  # then other jobs have their turn; the leader issues the rest again

__all__ = ["heartbeat", "run_trigger"]  # a worker that loads its tasks also starts its heart

job("leases.prune", cron="7 * * * *")(prune)


@shared_task(name=RUN_TASK)
def run_trigger(trigger: int, name: str) -> None:
    """Run the job of a trigger, unless it runs or ran already; then what waited for the end of that run."""
    following: int | None = trigger
    for _ in range(MOST_RUNS):
        if following is None or not run.execute(following, name, node_name()):
            break
        following = triggers.next_waiting(name)
