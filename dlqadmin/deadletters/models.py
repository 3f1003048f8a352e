"""Dead letters."""

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex, HashIndex
from django.db import models

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.messages.models import Attempt, Envelope
from dlqadmin.queues.models import SourceQueue

# The order of the index letter_of_queue, newest first, which no other index has: by `-id` a planner that thinks the
# letters of a queue to lie evenly among all others would look for them through the whole table from its end.
BACKWARDS = models.F("id") * -1


class DeadLetterQuerySet(models.QuerySet["DeadLetter"]):
    """Reads of dead letters. Lists go through `listed`, which never loads bodies."""

    def open(self) -> "DeadLetterQuerySet":
        """Letters that wait for a person."""
        return self.filter(state=DeadLetter.State.OPEN)

    def of_cluster(self, cluster: ErrorCluster | int) -> "DeadLetterQuerySet":
        """The letters of the group whose root is `cluster`."""
        return self.filter(cluster__in=ErrorCluster.objects.group_of(cluster))

    def listed(self) -> "DeadLetterQuerySet":
        """Newest first, with what a row of a list shows and nothing heavy."""
        return (
            self.select_related("queue__owner", "cluster")
            .defer("body", "error_raw", "traceback")
            .order_by("-id")
        )

    def of_one_queue(self, before: int | None = None) -> "DeadLetterQuerySet":
        """The same letters, all of one queue and one state, in the order of their index: newest first.

        `before`: only those with lower ids.
        """
        letters = self.annotate(backwards=BACKWARDS).order_by("backwards")
        return letters if before is None else letters.filter(backwards__gt=-before)

    def visible_to_owners(self, owners: list[int] | None) -> "DeadLetterQuerySet":
        """Letters of these owners' queues; None stands for all."""
        return self if owners is None else self.filter(queue__owner_id__in=owners)


class DeadLetter(Envelope):
    """A message that left its queue for good, kept as it was."""

    class State(models.TextChoices):
        OPEN = "open"
        REDRIVING = "redriving"
        RESOLVED = "resolved"
        RETURNED = "returned"
        DISCARDED = "discarded"

    class Resolution(models.TextChoices):
        SUCCEEDED = "succeeded"
        DUPLICATE = "duplicate"
        STALE = "stale"
        BY_HAND = "by hand"

    class Reason(models.TextChoices):
        THRESHOLD = "threshold reached"
        PERMANENT = "permanent error"
        UNKNOWN_TYPE = "unknown type"
        UNDECODABLE = "undecodable body"
        EXITED = "handler exited"
        INTERRUPTED = "handler raised a BaseException"
        TIMEOUT = "handler timed out"
        WORKER_LOST = "worker lost"
        AT_SOURCE = "died at the source"

    queue = models.ForeignKey(SourceQueue, on_delete=models.PROTECT, related_name="letters", db_index=False)
    cluster = models.ForeignKey(
        ErrorCluster, null=True, on_delete=models.PROTECT, related_name="letters", db_index=False
    )
    state = models.CharField(max_length=10, choices=State, default=State.OPEN)
    resolution = models.CharField(max_length=10, choices=Resolution, blank=True)
    state_changed_at = models.DateTimeField(db_default=ClockTimestamp())
    outcome_at = models.DateTimeField(
        null=True, help_text="when its message, which was sent back to work, had its outcome"
    )
    previous = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="next")

    reason = models.CharField(max_length=40, choices=Reason)
    attempts = models.PositiveIntegerField(null=True, help_text="null: unknown")
    attempts_counter = models.CharField(
        max_length=60, default="dlqadmin", help_text="who counted, or 'unknown'"
    )
    lost = models.PositiveIntegerField(default=0)
    error_class = models.CharField(max_length=255, blank=True)
    error_text = models.TextField(blank=True, help_text="a copy that is safe to show")
    error_raw = models.BinaryField(default=bytes, help_text="the error text as it was, as bytes")
    traceback = models.TextField(blank=True)
    worker = models.CharField(max_length=255, blank=True)
    body_size = models.BigIntegerField(default=0, help_text="bytes")

    sent_at = models.DateTimeField(null=True)
    last_attempt_at = models.DateTimeField(null=True, help_text="when the last attempt STARTED")
    died_at = models.DateTimeField(db_default=ClockTimestamp())
    collected_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True, help_text="when its source will drop it; null: kept by us")
    seen_at = models.DateTimeField(null=True, help_text="when a person first opened it")

    objects = DeadLetterQuerySet.as_manager()

    class Meta:
        indexes = [
            # serves: the depth and age of a queue, and the fold of a queue's letters by cluster.
            models.Index(
                fields=["queue", "cluster", "died_at"],
                condition=models.Q(state="open"),
                name="letter_open_of_queue",
            ),
            # serves: a queue's letters in a state, newest first.
            models.Index("queue", "state", BACKWARDS, name="letter_of_queue"),
            # serves: a cluster's letters, the gate's question "did one start after the fix", a redrive's frozen set.
            models.Index(fields=["cluster", "state", "last_attempt_at"], name="letter_of_cluster"),
            # serves: the newest and the oldest letters of a cluster (deadletters/ends.py).
            models.Index("cluster", "state", BACKWARDS, name="letter_at_ends"),
            # serves: one message through all its lives.
            models.Index(fields=["lineage", "generation"], name="letter_of_lineage"),
            # serves: which letters hold a key of an ordered queue. A hash: a key may be longer than a btree takes.
            HashIndex(
                fields=["key"],
                condition=models.Q(state__in=["open", "redriving"], key__isnull=False),
                name="letter_holding_key",
            ),
            # serves: the search by message id.
            models.Index(fields=["message_id"], name="letter_by_message_id"),
        ]

    def __str__(self) -> str:
        return f"letter {self.pk}"

    @property
    def owner_id(self) -> int | None:
        """A letter belongs to the owner of its queue."""
        return self.queue.owner_id

    def attempt_rows(self) -> models.QuerySet[Attempt]:
        """The failed and lost starts of the life that ended with this letter, in order."""
        return Attempt.objects.filter(lineage=self.lineage, generation=self.generation - 1).order_by("id")


class LetterEdit(models.Model):
    """The body that goes to work in the place of a letter's own, which stays as it was. Removed: it was undone."""

    letter = models.OneToOneField(DeadLetter, on_delete=models.CASCADE, related_name="edit")
    body = models.BinaryField()
    reason = models.TextField()
    patch = models.TextField(blank=True, help_text="the JSON patch that made it; empty: a person wrote it")
    edited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    edited_name = models.CharField(max_length=255)
    edited_at = models.DateTimeField(db_default=ClockTimestamp())

    def __str__(self) -> str:
        return f"edited body of letter {self.letter_id}"


class LetterArrival(models.Model):
    """A letter that search does not know yet: whoever captures it waits for no index."""

    # No foreign key, as with AccountDelta.
    letter_id = models.BigIntegerField()


class LetterText(models.Model):
    """What letters are searched by, written once: a letter's own row changes too often for such indexes.

    `error`, `body`: in the form that `search.searchable` makes. `document`: a body that is JSON.
    """

    letter = models.OneToOneField(
        DeadLetter, primary_key=True, on_delete=models.CASCADE, related_name="searched"
    )
    error = models.TextField()
    body = models.TextField()
    document = models.JSONField(null=True)

    class Meta:
        indexes = [
            # serves: words in error texts and in bodies.
            GinIndex(fields=["error"], opclasses=["gin_trgm_ops"], name="lettertext_error"),
            GinIndex(fields=["body"], opclasses=["gin_trgm_ops"], name="lettertext_body"),
            # serves: body:$.path=value.
            GinIndex(fields=["document"], opclasses=["jsonb_path_ops"], name="lettertext_document"),
        ]
