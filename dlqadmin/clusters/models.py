"""Error clusters, and why they are what they are.

A row of ErrorCluster is one fingerprint of one queue: a leaf. Leaves with one cause are a group; `merged_into` of each
names the group's root. A letter keeps its leaf for good, so joining and parting groups moves no letter, and letters
that come later follow by themselves.
"""

from django.conf import settings
from django.db import models

from dlqadmin.clock import ClockTimestamp
from dlqadmin.queues.models import SourceQueue


class ErrorClusterQuerySet(models.QuerySet["ErrorCluster"]):
    """Reads of clusters."""

    def roots(self) -> "ErrorClusterQuerySet":
        """One for each cause: what people see and work on."""
        return self.filter(merged_into=None)

    def group_of(self, cluster: "ErrorCluster | int") -> "ErrorClusterQuerySet":
        """The root `cluster` and all that is merged into it."""
        pk = cluster if isinstance(cluster, int) else cluster.pk
        return self.filter(models.Q(pk=pk) | models.Q(merged_into=pk))


class ErrorCluster(models.Model):
    """The dead letters of one queue that share one root cause, told by the text of the error."""

    queue = models.ForeignKey(SourceQueue, on_delete=models.CASCADE, related_name="clusters", db_index=False)
    fingerprint = models.CharField(max_length=64)
    fingerprint_version = models.PositiveSmallIntegerField()
    error_class = models.CharField(max_length=255, blank=True)
    template = models.TextField(help_text="the error text with its values masked as <kind>")
    sample_text = models.TextField(blank=True, help_text="the first error text, safe to show")
    first_seen_at = models.DateTimeField(db_default=ClockTimestamp())
    merged_into = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="merged")
    keyed_at = models.DateTimeField(null=True, help_text="when the second pass saw it; null: it has to yet")

    # Folded now and then; `clusters.counts` adds what is not folded yet.
    open_count = models.BigIntegerField(db_default=0)
    total_count = models.BigIntegerField(db_default=0)
    last_seen_at = models.DateTimeField(null=True)

    # The work of people; it stands on the group's root.
    name = models.CharField(max_length=200, blank=True, help_text="what people call it; empty: its template")
    note = models.TextField(blank=True)
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    muted_until = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True, help_text="when a person said that this is over")
    worked_on_at = models.DateTimeField(null=True, help_text="a group's root is what was worked on last")

    objects = ErrorClusterQuerySet.as_manager()

    class Meta:
        constraints = [
            # also serves: the insert-on-conflict of every dead letter.
            models.UniqueConstraint(
                fields=["queue", "fingerprint_version", "fingerprint"], name="one_cluster_per_fingerprint"
            ),
        ]
        indexes = [
            # serves: "also in 3 queues": the same fingerprint elsewhere.
            models.Index(fields=["fingerprint"], name="cluster_by_fingerprint"),
            # serves: the second pass, which looks for what is new, and the job that looks for what is outdated.
            models.Index(
                fields=["queue", "id"], condition=models.Q(keyed_at=None), name="cluster_to_be_keyed"
            ),
        ]

    def __str__(self) -> str:
        return (self.name or self.template)[:255]

    @property
    def root_id(self) -> int:
        """The id of what stands for its group."""
        return self.merged_into_id or self.pk

    @property
    def owner_id(self) -> int | None:
        """A cluster belongs to the owner of its queue."""
        return self.queue.owner_id


class TemplateKey(models.Model):
    """A key under which a leaf's template may meet others: see `clusters.joining`."""

    queue = models.ForeignKey(SourceQueue, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=10)
    digest = models.CharField(max_length=32)
    fill = models.CharField(max_length=100)
    cluster = models.ForeignKey(ErrorCluster, on_delete=models.CASCADE, related_name="keys")

    class Meta:
        constraints = [
            # also serves: the fills of a key.
            models.UniqueConstraint(fields=["queue", "digest", "kind", "fill"], name="one_key_per_fill"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.digest}"


class ClusterJoin(models.Model):
    """A key whose templates are one cause, for good unless a person undoes it."""

    queue = models.ForeignKey(SourceQueue, on_delete=models.CASCADE, related_name="joins", db_index=False)
    kind = models.CharField(max_length=10)
    digest = models.CharField(max_length=32)
    made_at = models.DateTimeField(db_default=ClockTimestamp())
    undone_at = models.DateTimeField(null=True)
    undone_by = models.CharField(max_length=255, blank=True, help_text="the name at the time")

    class Meta:
        constraints = [
            # also serves: the joins of a queue, and of a key.
            models.UniqueConstraint(fields=["queue", "digest", "kind"], name="one_join_per_key"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.digest}"


class ClusterVerdict(models.Model):
    """Somebody's word that two leaves are the same cause, or are not. It overrides every join."""

    queue = models.ForeignKey(SourceQueue, on_delete=models.CASCADE, related_name="verdicts")
    one = models.ForeignKey(ErrorCluster, on_delete=models.CASCADE, related_name="+")
    other = models.ForeignKey(ErrorCluster, on_delete=models.CASCADE, related_name="+")
    same = models.BooleanField()
    by_name = models.CharField(max_length=255, help_text="the name at the time; dlqadmin: a new version")
    at = models.DateTimeField(db_default=ClockTimestamp())
    withdrawn_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.one_id} {'is' if self.same else 'is not'} {self.other_id}"


class SplitRule(models.Model):
    """A part of a leaf that a person told apart: its letters, and those to come, go to `target`.

    Either `position` and `value` (a parameter of the fingerprint) or `pattern` (searched in the error text).
    """

    cluster = models.ForeignKey(ErrorCluster, on_delete=models.CASCADE, related_name="rules")
    target = models.ForeignKey(ErrorCluster, on_delete=models.CASCADE, related_name="+")
    position = models.PositiveSmallIntegerField(null=True)
    value = models.TextField(blank=True)
    pattern = models.CharField(max_length=200, blank=True)
    by_name = models.CharField(max_length=255)
    at = models.DateTimeField(db_default=ClockTimestamp())
    moved_to = models.BigIntegerField(default=0, help_text="the letters up to this id were looked at")
    moved = models.BigIntegerField(default=0, help_text="letters that went to the target")
    finished_at = models.DateTimeField(
        null=True, help_text="null: letters that were there before are still moved"
    )

    def __str__(self) -> str:
        return f"{self.cluster_id} -> {self.target_id}"


class ClusterDelta(models.Model):
    """Letters that came into a leaf, or left it: appended by whoever changes them, folded by a job."""

    cluster_id = models.BigIntegerField()
    opened = models.BigIntegerField(help_text="change of the open letters")
    total = models.BigIntegerField(help_text="change of all letters")
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        indexes = [
            # serves: what is not folded yet of some clusters.
            models.Index(fields=["cluster_id"], include=["opened", "total", "at"], name="delta_of_cluster"),
        ]

    def __str__(self) -> str:
        return f"{self.cluster_id}: {self.opened:+}"


class ClusterHour(models.Model):
    """How many letters came into a leaf in an hour, for its trend."""

    cluster = models.ForeignKey(ErrorCluster, on_delete=models.CASCADE, related_name="hours", db_index=False)
    hour = models.DateTimeField()
    arrived = models.BigIntegerField()

    class Meta:
        constraints = [
            # also serves: the trend of a cluster.
            models.UniqueConstraint(fields=["cluster", "hour"], name="one_row_per_hour"),
        ]

    def __str__(self) -> str:
        return f"{self.cluster_id} {self.hour}"
