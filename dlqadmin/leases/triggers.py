"""Triggers: durable rows that say "this job is due". Made by the leader, so unique; run by any worker, one at a time.

due -> started -> done | failed        a run that died is started again under a higher run token
skipped                                a range of missed moments that nobody will run
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connection, transaction

from dlqadmin.leases.jobs import Job, find_job
from dlqadmin.leases.lease import FencedOut, Lease, note_fenced
from dlqadmin.leases.models import Trigger
from dlqadmin.leases.schedule import Due

# The most missed moments that are run one by one; what lies before them is one skipped range.
MOST_MISSED = 100

# One statement, fenced like any write of the leader: the comparison and the rows commit together.
_MAKE = """
WITH epoch AS (SELECT token FROM dlqadmin_epoch WHERE name = %(lease)s FOR SHARE), rows AS (
    SELECT * FROM unnest(%(jobs)s::text[], %(due)s::timestamptz[], %(states)s::text[], %(missed)s::int[],
        %(missed_from)s::timestamptz[]) AS given (job, due_at, state, missed, missed_from)
), made AS (
    INSERT INTO dlqadmin_trigger (job, due_at, state, token, run_token, node, missed, missed_from, error_text)
    SELECT job, due_at, state, token, 0, '', missed, missed_from, '' FROM rows, epoch WHERE token = %(token)s
    ON CONFLICT (job, due_at) DO NOTHING RETURNING id, job, state
)
SELECT (SELECT token FROM epoch), made.id, made.job
FROM (SELECT) AS always LEFT JOIN made ON made.state = 'due' ORDER BY made.id
"""

_START = """
UPDATE dlqadmin_trigger SET state = 'started', run_token = run_token + 1, node = %(node)s,
    started_at = clock_timestamp(), claimed_until = clock_timestamp() + make_interval(secs => %(limit)s)
WHERE id = %(id)s AND (state = 'due' OR state = 'started' AND claimed_until <= clock_timestamp())
RETURNING run_token
"""

_FINISH = """
UPDATE dlqadmin_trigger SET state = %(state)s, finished_at = clock_timestamp(), error_text = %(error)s
WHERE id = %(id)s AND state = 'started' AND run_token = %(run_token)s
"""

_PENDING = """
SELECT id, job FROM dlqadmin_trigger
WHERE state = 'due' OR (state = 'started' AND claimed_until <= clock_timestamp()) ORDER BY due_at LIMIT 1000
"""


@dataclass(frozen=True, slots=True)
class NewTrigger:
    """A trigger to be made. `missed`: due moments that it stands for besides its own, the first at `missed_from`."""

    job: str
    due_at: datetime
    state: str = Trigger.State.DUE
    missed: int = 0
    missed_from: datetime | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One start of a trigger's job, on one node; `token` is compared in every transaction of the job."""

    trigger: int
    job: str
    token: int
    node: str


def plan(job: Job, after: datetime, until: datetime) -> list[NewTrigger]:
    """The triggers for the due moments of `job` in (after, until], as its `catch_up` says. Pure."""
    most = MOST_MISSED if job.catch_up == "all" else 1
    due = job.schedule.due(after, until, most)
    if not due.moments:
        return []
    if job.catch_up == "once":
        return [NewTrigger(job.name, due.moments[-1], missed=due.earlier, missed_from=due.earlier_from)]
    return [*_skipped(job, due), *(NewTrigger(job.name, moment) for moment in due.moments)]


def _skipped(job: Job, due: Due) -> list[NewTrigger]:
    if due.earlier_to is None:
        return []
    return [NewTrigger(job.name, due.earlier_to, Trigger.State.SKIPPED, due.earlier - 1, due.earlier_from)]


def with_work(new: Sequence[NewTrigger]) -> list[NewTrigger]:
    """Those of these triggers whose job has no condition, or one that holds now."""
    conditions = {trigger.job: job.when for trigger in new if (job := find_job(trigger.job)) and job.when}
    if not conditions:
        return list(new)
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"({condition})" for condition in conditions.values()))
        holds = dict(zip(conditions, cursor.fetchone(), strict=True))
    return [trigger for trigger in new if holds.get(trigger.job, True)]


def make(lease: Lease, new: Iterable[NewTrigger]) -> list[tuple[int, str]]:
    """Make these triggers as the leader that `lease` is; id and job of those that are to be run.

    One that is there already is left alone: `pending` finds it. Raises FencedOut if the lead was lost.
    """
    rows = list(new)
    values: dict[str, Any] = {
        "lease": lease.name,
        "token": lease.token,
        "jobs": [row.job for row in rows],
        "due": [row.due_at for row in rows],
        "states": [str(row.state) for row in rows],
        "missed": [row.missed for row in rows],
        "missed_from": [row.missed_from for row in rows],
    }
    with connection.cursor() as cursor:
        cursor.execute(_MAKE, values)
        made = cursor.fetchall()
    current = made[0][0]
    if current != lease.token:
        late = FencedOut(
            f"triggers of {', '.join(sorted({row.job for row in rows}))}", lease.token or 0, current
        )
        note_fenced(late, lease.node)
        raise late
    return [(trigger, job) for _, trigger, job in made if trigger is not None]


def last_due(jobs: Iterable[str]) -> dict[str, datetime]:
    """For each of these jobs that has one, the due moment of its newest trigger."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT job, (SELECT max(due_at) FROM dlqadmin_trigger WHERE job = names.job) "
            "FROM unnest(%s::text[]) AS names (job)",
            [list(jobs)],
        )
        return {job: moment for job, moment in cursor.fetchall() if moment is not None}


def pending() -> list[tuple[int, str]]:
    """The triggers that wait for a start, or whose run died: id and job, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_PENDING)
        return cursor.fetchall()


def next_waiting(job: str) -> int | None:
    """The oldest trigger of this job that waits for its first start."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM dlqadmin_trigger WHERE job = %s AND state = 'due' ORDER BY due_at LIMIT 1", [job]
        )
        row = cursor.fetchone()
    return row[0] if row else None


def start(trigger: int, job: Job, node: str) -> Run | None:
    """Claim the run of a trigger for `job.limit` seconds; None if it runs, has ended, or the job runs for another."""
    values: dict[str, Any] = {"id": trigger, "node": node, "limit": job.limit}
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_START, values)
            row = cursor.fetchone()
    except IntegrityError:  # one_run_per_job: the leader issues it again
        return None
    return Run(trigger, job.name, row[0], node) if row else None


def finish(run: Run, error: str = "") -> bool:
    """End a run as done, or as failed with its error's class; False if it was given to another node meanwhile."""
    state = Trigger.State.FAILED if error else Trigger.State.DONE
    values: dict[str, Any] = {"id": run.trigger, "run_token": run.token, "state": str(state), "error": error}
    with connection.cursor() as cursor:
        cursor.execute(_FINISH, values)
        ended: bool = cursor.rowcount == 1
    return ended
