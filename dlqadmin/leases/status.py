"""How leadership, jobs and processes stand now, judged by the database's clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from dlqadmin.clock import db_now
from dlqadmin.leases.heartbeat import ALIVE
from dlqadmin.leases.jobs import all_jobs, find_job
from dlqadmin.leases.models import FencedWrite, Heartbeat, TakeOver

LATE = 5.0  # seconds after its due moment; a later start is listed as late
STUCK = 60.0  # seconds; a job that is so late without a start is something that a person must look at
MOST_ROWS = 10

_LEADER = """
SELECT holder, token, until > %s, CASE WHEN holder = '' THEN until ELSE acquired_at END
FROM dlqadmin_lease WHERE name = 'beat'
"""

# The newest trigger of each job through the unique index, whatever the number of triggers.
_NEWEST = """
SELECT newest.job, newest.due_at,
    CASE WHEN newest.state = 'started' AND newest.claimed_until <= %(now)s THEN 'died' ELSE newest.state END,
    newest.started_at IS NOT NULL, extract(epoch FROM coalesce(newest.started_at, %(now)s) - newest.due_at)::float8,
    newest.missed, newest.error_text
FROM unnest(%(jobs)s::text[]) AS names (job), LATERAL (
    SELECT * FROM dlqadmin_trigger WHERE job = names.job ORDER BY due_at DESC LIMIT 1
) AS newest ORDER BY newest.job
"""

# Triggers that ended on time are pruned after an hour, so a day of them is a small number of rows.
_DAY = """
SELECT count(*) FILTER (
    WHERE state <> 'skipped' AND coalesce(started_at, %(now)s) - due_at > make_interval(secs => %(late)s)
),
    coalesce(sum(CASE WHEN state = 'skipped' THEN missed + 1 ELSE missed END), 0)::bigint,
    count(*) FILTER (WHERE state = 'failed')
FROM dlqadmin_trigger WHERE due_at > %(now)s - interval '1 day'
"""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads. `holds`: the lease has not run out; `since`: the take-over, or the release if nobody holds it."""

    node: str
    token: int
    holds: bool
    since: datetime


@dataclass(frozen=True, slots=True)
class JobState:
    """The newest trigger of a job. `state`: the trigger's, or `died` for a run that ended without a word. `late`:
    seconds from the due moment to the start, or to now if it has not `started`."""

    job: str
    due_at: datetime
    state: str
    started: bool
    late: float
    missed: int
    error: str

    @property
    def schedule(self) -> str:
        """When the job is due, in words."""
        job = find_job(self.job)
        return str(job.schedule) if job else ""

    @property
    def conditional(self) -> bool:
        """Whether it has triggers only when there is work, so that an old one says nothing."""
        job = find_job(self.job)
        return bool(job and job.when)

    @property
    def stuck(self) -> bool:
        """Whether it should have started long ago."""
        return self.state in ("due", "died") and self.late > STUCK


@dataclass(frozen=True, slots=True)
class Process:
    """A process that has a heartbeat."""

    node: str
    role: str
    seen_at: datetime
    started_at: datetime
    alive: bool


@dataclass(frozen=True, slots=True)
class Status:
    """Everything, at one moment. `late`, `skipped`, `failed` and `fenced` count the last 24 hours."""

    now: datetime
    leader: Leader | None
    jobs: list[JobState]
    processes: list[Process]
    take_overs: list[TakeOver]
    fenced_writes: list[FencedWrite]
    late: int
    skipped: int
    failed: int
    fenced: int

    @property
    def standing_by(self) -> list[Process]:
        """Living nodes of beat that do not lead."""
        leader = self.leader.node if self.leader and self.leader.holds else ""
        return [process for process in self.alive("beat") if process.node != leader]

    @property
    def workers(self) -> list[Process]:
        """All worker processes that are alive."""
        return [process for process in self.processes if process.alive and process.role != "beat"]

    def alive(self, role: str) -> list[Process]:
        """Living processes that do this: `beat`, or work on the Celery queue of this name."""
        return [process for process in self.processes if process.alive and role in process.role.split(", ")]


def read_status() -> Status:
    """The status now."""
    now = db_now()
    day = FencedWrite.objects.filter(at__gt=now - timedelta(days=1))
    late, skipped, failed = _last_day(now)
    return Status(
        now=now,
        leader=_leader(now),
        jobs=_newest_of_each_job(now),
        processes=[_process(row, now) for row in Heartbeat.objects.order_by("role", "node")],
        take_overs=list(TakeOver.objects.filter(name="beat").order_by("-token")[:MOST_ROWS]),
        fenced_writes=list(FencedWrite.objects.order_by("-pk")[:MOST_ROWS]),
        late=late,
        skipped=skipped,
        failed=failed,
        fenced=day.count(),
    )


def _leader(now: datetime) -> Leader | None:
    with connection.cursor() as cursor:
        cursor.execute(_LEADER, [now])
        row = cursor.fetchone()
    return Leader(*row) if row else None


def _newest_of_each_job(now: datetime) -> list[JobState]:
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST, {"jobs": [job.name for job in all_jobs()], "now": now})
        return [JobState(*row) for row in cursor.fetchall()]


def _last_day(now: datetime) -> tuple[int, int, int]:
    with connection.cursor() as cursor:
        cursor.execute(_DAY, {"late": LATE, "now": now})
        late, skipped, failed = cursor.fetchone()
    return late, skipped, failed


def _process(row: Heartbeat, now: datetime) -> Process:
    alive = now - row.seen_at < timedelta(seconds=ALIVE)
    return Process(row.node, row.role, row.seen_at, row.started_at, alive)
