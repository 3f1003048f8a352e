"""The job of the fault run: each run leaves one row. Nothing keeps a second one out, so doubles would show."""

import os
import time

from django.db import connection

from dlqadmin.leases.jobs import job
from dlqadmin.leases.models import Trigger
from dlqadmin.leases.run import current_run, guarded

NAME = "faults.tick"
LIMIT = 8.0
WORK = 0.4  # seconds between the start of a run and its transaction

EFFECTS = """
CREATE TABLE fault_effect (trigger bigint, due_at timestamptz, run_token bigint, node text,
    at timestamptz DEFAULT clock_timestamp())
"""


def tick() -> None:
    """Work for a moment, then leave the row."""
    run = current_run()
    assert run
    time.sleep(WORK)
    with guarded(last=True), connection.cursor() as cursor:
        due_at = Trigger.objects.get(pk=run.trigger).due_at
        cursor.execute(
            "INSERT INTO fault_effect (trigger, due_at, run_token, node) VALUES (%s, %s, %s, %s)",
            [run.trigger, due_at, run.token, run.node],
        )


if os.environ.get("FAULTS_CLOSING"):  # beat makes no new moment of it, and still issues again what is left
    job(NAME, cron="0 0 29 2 *", catch_up="all", limit=LIMIT)(tick)
else:
    job(NAME, every=1, catch_up="all", limit=LIMIT)(tick)
