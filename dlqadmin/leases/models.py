"""Rows behind leadership and durable triggers, and the heartbeat of each process."""

from django.db import models

from dlqadmin.clock import ClockTimestamp


class Lease(models.Model):
    """Who may act alone under `name`, and until when. Renewed often; never read by a fenced write."""

    name = models.CharField(max_length=100, primary_key=True)
    holder = models.CharField(max_length=255, blank=True)
    token = models.BigIntegerField(default=0)
    until = models.DateTimeField(db_default=ClockTimestamp())
    acquired_at = models.DateTimeField(null=True)
    renewed_at = models.DateTimeField(null=True)


class Epoch(models.Model):
    """The fencing token of a lease. Apart from it, and changed on take-over only, so that a fenced write never blocks
    a renewal."""

    name = models.CharField(max_length=100, primary_key=True)
    token = models.BigIntegerField(default=0)
    holder = models.CharField(max_length=255, blank=True)
    since = models.DateTimeField(db_default=ClockTimestamp())


class Trigger(models.Model):
    """A durable row that says "this singleton job is due"; it survives having no leader."""

    class State(models.TextChoices):
        DUE = "due"
        STARTED = "started"
        DONE = "done"
        FAILED = "failed"
        SKIPPED = "skipped"

    job = models.CharField(max_length=100)
    due_at = models.DateTimeField()
    state = models.CharField(max_length=10, choices=State, default=State.DUE)
    token = models.BigIntegerField(help_text="fencing token of the leader that made the trigger")
    run_token = models.BigIntegerField(default=0, help_text="rises with every start of the run")
    node = models.CharField(max_length=255, blank=True)
    claimed_until = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    missed = models.PositiveIntegerField(
        default=0, help_text="due moments that this run or range stands for besides its own"
    )
    missed_from = models.DateTimeField(null=True)
    error_text = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "due_at"], name="trigger_once_per_moment"),
            # A singleton job runs once at a time, whatever its triggers say.
            models.UniqueConstraint(
                fields=["job"], condition=models.Q(state="started"), name="one_run_per_job"
            ),
        ]
        indexes = [
            # serves: triggers that a take-over must issue again or watch.
            models.Index(
                fields=["due_at"], condition=models.Q(state__in=["due", "started"]), name="trigger_pending"
            ),
        ]


class TakeOver(models.Model):
    """A change of the holder of a lease; written once, by the new holder."""

    name = models.CharField(max_length=100)
    token = models.BigIntegerField()
    holder = models.CharField(max_length=255)
    previous = models.CharField(max_length=255, blank=True)
    released = models.BooleanField(help_text="the previous holder let go, instead of running out of time")
    free_since = models.DateTimeField(null=True, help_text="when the lease became free; null: it is new")
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [
            # "The token never repeats" is kept by the database.
            models.UniqueConstraint(fields=["name", "token"], name="token_never_repeats")
        ]

    def __str__(self) -> str:
        return f"{self.holder} under token {self.token}"

    @property
    def leaderless_seconds(self) -> float | None:
        """For how long nobody held the lease before; None for the first holder."""
        return (self.at - self.free_since).total_seconds() if self.free_since else None


class FencedWrite(models.Model):
    """A late holder tried to write, and was kept from it."""

    what = models.CharField(max_length=255)
    token = models.BigIntegerField(help_text="the token that the late writer held")
    current = models.BigIntegerField(null=True, help_text="the token that was valid")
    node = models.CharField(max_length=255)
    at = models.DateTimeField(db_default=ClockTimestamp())


class Heartbeat(models.Model):
    """One row for each living process; the broker's remote control cannot be relied on for liveness."""

    node = models.CharField(max_length=255, primary_key=True)
    role = models.TextField(help_text="beat, or the Celery queues that it works on")
    seen_at = models.DateTimeField(db_default=ClockTimestamp())
    started_at = models.DateTimeField(db_default=ClockTimestamp())
    detail = models.JSONField(default=dict)
