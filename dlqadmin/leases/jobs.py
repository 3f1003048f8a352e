"""The singleton jobs: declared beside the function that they call, made due by the leader, run by any worker."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dlqadmin.leases.schedule import Cron, Every, Schedule


@dataclass(frozen=True, slots=True)
class Job:
    """A singleton job.

    `catch_up`: after a time without a leader, run "once" for all missed moments or for "all" of them. `limit`: seconds
    after which a run counts as dead and is started again. `queue`: the Celery queue that carries it. `when`: a
    condition in SQL; at a due moment at which it does not hold there is nothing to do, so there is no trigger.
    """

    name: str
    function: Callable[[], object]
    schedule: Schedule
    catch_up: Literal["once", "all"] = "once"
    limit: float = 60.0
    queue: str = "system"
    when: str = ""


_jobs: dict[str, Job] = {}


def job(
    name: str,
    *,
    every: float | None = None,
    cron: str | None = None,
    catch_up: Literal["once", "all"] = "once",
    limit: float = 60.0,
    when: str = "",
) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Declare the decorated function as a singleton job, `every` so many seconds or by a `cron` expression (UTC).

    `when`, an SQL condition without placeholders, says whether there is work for it: the leader asks for all jobs in
    one query, so that an idle system stands still. It must be quick, and true whenever the job would do something.

    Each transaction that the function opens must be `leases.run.guarded()`: a run that was given up cannot commit.
    """
    if (every is None) == (cron is None):
        raise ValueError(f"Job {name!r} needs either `every` or `cron`.")
    schedule: Schedule = Every(every) if every is not None else Cron(cron or "")

    def declare(function: Callable[[], object]) -> Callable[[], object]:
        known = _jobs.get(name)
        if known and known.function is not function:
            raise ValueError(f"Two jobs named {name!r}: {known.function} and {function}.")
        _jobs[name] = Job(name, function, schedule, catch_up, limit, when=when)
        return function

    return declare


def all_jobs() -> list[Job]:
    """Every declared job, by name."""
    return [_jobs[name] for name in sorted(_jobs)]


def find_job(name: str) -> Job | None:
    """The job of this name, or None: it was declared by another version of the program."""
    return _jobs.get(name)
