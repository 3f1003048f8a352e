"""Celery's beat on as many nodes as you like: `celery -A dlqadmin beat` uses this scheduler.

Each tick does at most two of these, each one statement (3 is two):

1. A node that does not lead tries to acquire the lease (every STANDBY seconds, so a release is noticed at once).
2. The leader renews (every RENEW seconds).
3. It makes the triggers that are due since the last ones, of jobs that have work, and hands their ids to Celery.
4. Every REISSUE seconds, and right after a take-over, it hands out again what was not started or whose run died.

A database that is away is tried again; the lead is lost by itself meanwhile, and missed moments are caught up.
"""

import logging
from datetime import datetime
from typing import Any

from celery.beat import Scheduler
from django.db import DatabaseError, InterfaceError, connection

from dlqadmin.leases import heartbeat, triggers
from dlqadmin.leases.jobs import all_jobs, find_job
from dlqadmin.leases.lease import FencedOut, Lease
from dlqadmin.leases.node import node_name
from dlqadmin.leases.tasks import RUN_TASK

logger = logging.getLogger(__name__)

LEASE = "beat"
LEASE_SECONDS = 5.0
RENEW = 1.5
STANDBY = 0.6
REISSUE = 5.0
LONGEST_SLEEP = 0.6


class LeaseScheduler(Scheduler):
    """Makes triggers while it leads; stands by otherwise."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.node = node_name("beat")
        self.lead = Lease(LEASE, self.node, LEASE_SECONDS)
        self.after: dict[str, datetime] = {}  # job -> its newest due moment that has a trigger
        self.reissued = self.beaten = float("-inf")  # monotonic times
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        """The jobs are declared in code; Celery's own schedule stays empty."""

    @property
    def info(self) -> str:
        """For beat's banner."""
        return f"    . lease -> {LEASE}, {LEASE_SECONDS:g} s, as {self.node}"

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """One round; seconds until the next."""
        try:
            self._heartbeat()
            if not self._keep_lead():
                return STANDBY
            self._make_due()
            self._reissue()
            return self._until_next()
        except FencedOut as late:
            logger.warning("%s. Standing by.", late)
            self.lead.token = None
        except (DatabaseError, InterfaceError):
            logger.warning("The database is away; trying again.")
            connection.close()
        return STANDBY

    def close(self) -> None:
        """Let go at once. Beat calls this from a signal handler, in which this thread's connection may be in use."""
        own = connection.copy()
        try:
            self.lead.release(using=own)
            heartbeat.leave(self.node, using=own)
        except (DatabaseError, InterfaceError):
            logger.warning("The lease could not be released; it runs out by itself.")
        finally:
            own.close()
        super().close()

    def _keep_lead(self) -> bool:
        """Renew or acquire; whether this node leads."""
        if self.lead.token is not None and (self.lead.age < RENEW or self.lead.renew()):
            return self.lead.leads
        if not self.lead.acquire():
            return False
        logger.info("%s leads now, with token %s.", self.node, self.lead.token)
        # Where nothing may have been to do, the moments without a trigger were not missed.
        self.after = triggers.last_due(job.name for job in all_jobs() if not job.when)
        self.reissued = float("-inf")
        return True

    def _make_due(self) -> None:
        now = self.lead.database_now()
        new = []
        for job in all_jobs():
            # A job that never had a trigger starts now: nothing of it was missed.
            new += triggers.plan(job, self.after.setdefault(job.name, now), now)
        wanted = triggers.with_work(new)
        made = triggers.make(self.lead, wanted) if wanted else []
        for trigger in new:
            self.after[trigger.job] = max(self.after[trigger.job], trigger.due_at)
        self._hand_out(made)

    def _reissue(self) -> None:
        if self.lead.monotonic() - self.reissued >= REISSUE:
            self.reissued = self.lead.monotonic()
            self._hand_out(triggers.pending())

    def _hand_out(self, runs: list[tuple[int, str]]) -> None:
        """Hand runs to Celery. One that the broker does not take is issued again; the row is the truth."""
        for trigger, name in runs:
            job = find_job(name)
            if job is None:
                continue
            try:
                self.app.send_task(RUN_TASK, args=[trigger, name], queue=job.queue, retry=False)
            except Exception:  # noqa: BLE001 - brokers raise what they like
                logger.warning("The broker did not take the run of %s; it will be issued again.", name)

    def _heartbeat(self) -> None:
        now = self.lead.monotonic()
        if now - self.beaten >= heartbeat.EVERY:
            heartbeat.beat(self.node, "beat")
            self.beaten = now

    def _until_next(self) -> float:
        now = self.lead.database_now()
        following = (job.schedule.following(self.after[job.name]) for job in all_jobs())
        wait = min(((moment - now).total_seconds() for moment in following), default=LONGEST_SLEEP)
        return min(max(wait, 0.02), LONGEST_SLEEP)
