"""Error clusters."""

from django.db import models

from dlqadmin.clock import ClockTimestamp
from dlqadmin.queues.models import SourceQueue


class ErrorCluster(models.Model):
    """The dead letters of one queue that share one root cause, told by the text of the error."""

    queue = models.ForeignKey(SourceQueue, on_delete=models.CASCADE, related_name="clusters", db_index=False)
    fingerprint = models.CharField(max_length=64)
    fingerprint_version = models.PositiveSmallIntegerField()
    error_class = models.CharField(max_length=255, blank=True)
    template = models.TextField(help_text="the error text with its values masked as <kind>")
    sample_text = models.TextField(blank=True, help_text="the first error text, safe to show")
    first_seen_at = models.DateTimeField(db_default=ClockTimestamp())
    muted_until = models.DateTimeField(null=True)
    note = models.TextField(blank=True)
    merged_into = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="merged")

    class Meta:
        constraints = [
            # also serves: the insert-on-conflict of every dead letter.
            models.UniqueConstraint(
                fields=["queue", "fingerprint_version", "fingerprint"], name="one_cluster_per_fingerprint"
            ),
        ]

    def __str__(self) -> str:
        return self.template[:255]

    @property
    def owner_id(self) -> int | None:
        """A cluster belongs to the owner of its queue."""
        return self.queue.owner_id
