"""Running a job: each of its transactions compares the run's token, so a run that was given up commits nothing more."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import InterfaceError, InternalError, OperationalError, connection, transaction

from dlqadmin.leases import triggers
from dlqadmin.leases.jobs import Job, find_job
from dlqadmin.leases.lease import IDLE_LIMIT, FencedOut, note_fenced
from dlqadmin.leases.models import Trigger
from dlqadmin.leases.triggers import Run

logger = logging.getLogger(__name__)

_current: ContextVar[Run | None] = ContextVar("run", default=None)

_SHARE = """
SELECT set_config('idle_in_transaction_session_timeout', %s, true), run_token FROM dlqadmin_trigger
WHERE id = %s AND state = 'started' FOR SHARE
"""

# SQLSTATEs of a session that is over: the connection, the server's shutdown, IDLE_LIMIT.
_SESSION_ENDED = ("08", "57P", "25P03")


@contextmanager
def guarded(*, last: bool = False) -> Iterator[None]:
    """A transaction; inside a job's run one that only the present run can commit. Also a decorator, as `atomic` is.

    `last`: it also ends the run. Without that, a worker that dies between the job's last commit and the run's end, or
    a commit whose answer is lost, makes the job run again although its effect is there.

    Raises FencedOut if the run was given to another node. Outside a run it is `transaction.atomic()`.
    """
    run = _current.get()
    with transaction.atomic():
        if run is not None:
            _compare(run)
        yield
        if run is not None and last:
            triggers.finish(run)


def execute(trigger: int, name: str, node: str) -> bool:
    """Run the job `name` for a trigger, if it is to be run; whether it ran to its end."""
    job = find_job(name)
    run = triggers.start(trigger, job, node) if job else None
    if job is None or run is None:
        return False
    try:
        with as_run(run):
            job.function()
    except FencedOut as late:
        note_fenced(late, node)
        logger.warning("Job %s: this run was given up, and another one goes on.", name)
        return False
    except Exception as error:
        if not _lost_database(error):
            triggers.finish(run, type(error).__name__)
        raise
    return _finish(run, job, node)


@contextmanager
def as_run(run: Run) -> Iterator[None]:
    """Everything inside belongs to this run."""
    mark = _current.set(run)
    try:
        yield
    finally:
        _current.reset(mark)


def current_run() -> Run | None:
    """The run that this code belongs to."""
    return _current.get()


def _lost_database(error: Exception) -> bool:
    """Whether the database ended the session: not the job failed but its run died, and it is started again."""
    if not isinstance(error, (OperationalError, InterfaceError, InternalError)):
        return False
    state = getattr(error.__cause__, "sqlstate", None)
    return state is None or state.startswith(_SESSION_ENDED)


def _finish(run: Run, job: Job, node: str) -> bool:
    if triggers.finish(run):
        return True
    now = Trigger.objects.filter(pk=run.trigger).values_list("run_token", "state").first()
    if now == (run.token, Trigger.State.DONE):  # by guarded(last=True)
        return True
    note_fenced(FencedOut(f"end of {job.name}", run.token, now[0] if now else None), node)
    return False


def _compare(run: Run) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SHARE, [IDLE_LIMIT, run.trigger])
        row = cursor.fetchone()
    current = row[1] if row else None
    if current != run.token:
        raise FencedOut(run.job, run.token, current)
