"""Diagnoses, redrives and their items."""

from django.conf import settings
from django.db import models

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.queues.models import SourceQueue


class Diagnosis(models.Model):
    """A person's signed statement on a cluster. A new statement is a new version; it outlives redrives."""

    class Kind(models.TextChoices):
        PERMANENT = "permanent"
        TRANSIENT = "transient"

    class Nature(models.TextChoices):
        BAD_MESSAGE = "bad message"
        MISSING_DATA = "missing data"
        CODE_DEFECT = "code defect"
        CONFIGURATION = "configuration"
        OUTAGE = "outage"
        OVERLOAD = "overload"
        CONFLICT = "conflict"

    # What each kind can be of.
    NATURES = {
        Kind.PERMANENT: (
            Nature.BAD_MESSAGE,
            Nature.MISSING_DATA,
            Nature.CODE_DEFECT,
            Nature.CONFIGURATION,
        ),
        Kind.TRANSIENT: (Nature.OUTAGE, Nature.OVERLOAD, Nature.CONFLICT),
    }

    cluster = models.ForeignKey(
        ErrorCluster, on_delete=models.CASCADE, related_name="diagnoses", db_index=False
    )
    version = models.PositiveIntegerField()
    kind = models.CharField(max_length=10, choices=Kind)
    nature = models.CharField(max_length=20, choices=Nature, blank=True)
    cause = models.TextField()
    evidence = models.TextField(blank=True)
    ticket_url = models.URLField(max_length=500, blank=True)
    fix = models.TextField(blank=True)
    fix_effective_at = models.DateTimeField(null=True)
    signed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    signed_name = models.CharField(max_length=255)
    signed_at = models.DateTimeField(db_default=ClockTimestamp())
    refuted_at = models.DateTimeField(null=True)
    refuted_why = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "version"], name="one_diagnosis_per_version")
        ]

    def __str__(self) -> str:
        return f"diagnosis {self.version} of cluster {self.cluster_id}"

    @property
    def owner_id(self) -> int | None:
        """A diagnosis belongs to the owner of its cluster's queue."""
        return self.cluster.owner_id


class Redrive(models.Model):
    """Sending a frozen set of dead letters back, attempts reset to 0: a durable row that survives every process."""

    class State(models.TextChoices):
        PLANNED = "planned"
        RUNNING = "running"
        PAUSED = "paused"
        HELD = "held"
        STALLED = "stalled"
        STOPPED = "stopped"
        CANCELLED = "cancelled"
        DONE = "done"

    queue = models.ForeignKey(SourceQueue, on_delete=models.PROTECT, related_name="redrives")
    state = models.CharField(max_length=10, choices=State, default=State.PLANNED)
    state_reason = models.TextField(blank=True)
    filter_text = models.TextField(blank=True, help_text="which letters were asked for, as a filter")
    cutoff_letter_id = models.BigIntegerField(null=True, help_text="letters after this one are not included")
    canary = models.PositiveIntegerField(default=1)
    rate = models.FloatField(null=True, help_text="letters a second; null: as fast as the window allows")
    window = models.PositiveIntegerField(
        null=True, default=1000, help_text="sent letters without outcome, at most; null: no bound"
    )
    stop_percent = models.FloatField(default=5.0)
    override_reason = models.TextField(
        blank=True, help_text="why it was started although the gate was closed"
    )
    rest_from = models.DateTimeField(
        null=True, help_text="since when the rest may go; null: the canary first"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_name = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    last_outcome_at = models.DateTimeField(null=True)
    outcomes = models.JSONField(default=dict, help_text="the items by outcome, as of the last turn")

    class Meta:
        indexes = [
            # serves: the sweep over redrives that are under way.
            models.Index(
                fields=["id"],
                condition=models.Q(state__in=["running", "stalled", "held"]),
                name="redrive_live",
            ),
        ]

    def __str__(self) -> str:
        return f"redrive {self.pk}"

    @property
    def owner_id(self) -> int | None:
        """A redrive belongs to the owner of its queue."""
        return self.queue.owner_id


class RedrivePart(models.Model):
    """What a redrive has of one cluster: the diagnosis that it relies on, or why the letters were left out."""

    redrive = models.ForeignKey(Redrive, on_delete=models.CASCADE, related_name="parts", db_index=False)
    cluster = models.ForeignKey(ErrorCluster, on_delete=models.PROTECT, related_name="redrive_parts")
    diagnosis = models.ForeignKey(
        Diagnosis, null=True, on_delete=models.PROTECT, related_name="redrive_parts"
    )
    letters = models.PositiveIntegerField(help_text="frozen, or left out")
    left_out = models.TextField(blank=True, help_text="the conditions of the gate that were not met")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["redrive", "cluster"], name="one_part_per_cluster"),
        ]

    def __str__(self) -> str:
        return f"cluster {self.cluster_id} in redrive {self.redrive_id}"


class Approval(models.Model):
    """A second person's word that letters of this diagnosis may go back to work, up to a number."""

    diagnosis = models.ForeignKey(Diagnosis, on_delete=models.CASCADE, related_name="approvals")
    letters = models.PositiveIntegerField(help_text="at most so many in a redrive")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    by_name = models.CharField(max_length=255)
    at = models.DateTimeField(db_default=ClockTimestamp())

    def __str__(self) -> str:
        return f"{self.by_name} approves {self.diagnosis_id}"


class RedriveItem(models.Model):
    """One letter of a redrive; ends in exactly one outcome."""

    class Outcome(models.TextChoices):
        PENDING = "pending"
        SENT = "sent"
        SUCCEEDED = "succeeded"
        DIED_AGAIN = "died again"
        DISCARDED = "discarded"
        SKIPPED = "skipped"
        FAILED = "failed"

    # A redrive has up to a million: no index and no check of what was written in the same transaction.
    redrive = models.ForeignKey(
        Redrive, on_delete=models.CASCADE, related_name="items", db_index=False, db_constraint=False
    )
    part = models.ForeignKey(
        RedrivePart, on_delete=models.CASCADE, related_name="items", db_index=False, db_constraint=False
    )
    letter = models.ForeignKey(DeadLetter, on_delete=models.PROTECT, related_name="redrive_items")
    outcome = models.CharField(max_length=10, choices=Outcome, default=Outcome.PENDING)
    is_canary = models.BooleanField(default=False)
    why = models.TextField(blank=True)
    sent_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            # One letter is in one redrive at a time, whoever starts it.
            models.UniqueConstraint(
                fields=["letter"],
                condition=models.Q(outcome__in=["pending", "sent"]),
                name="one_redrive_per_letter",
            ),
        ]
        indexes = [
            # serves: what is still to send and to judge, and the counts of a redrive's page.
            models.Index(fields=["redrive", "outcome", "id"], name="item_of_redrive"),
            # serves: the canary, which goes first.
            models.Index(fields=["redrive"], condition=models.Q(is_canary=True), name="canary_of_redrive"),
        ]
