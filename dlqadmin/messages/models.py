"""Messages of native queues: what waits or runs, who holds it, which attempts failed, what was already done."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from dlqadmin.clock import ClockTimestamp
from dlqadmin.queues.models import SourceQueue


class Claim(models.Model):
    """The right of one worker to run and settle the messages that point here, until `until`."""

    token = models.BigAutoField(primary_key=True)
    queue = models.ForeignKey(SourceQueue, on_delete=models.CASCADE, related_name="+")
    worker = models.CharField(max_length=255)
    single = models.BooleanField(
        default=True, help_text="one message, charged before its start: a loss can be laid at it"
    )
    message_ids = ArrayField(
        models.BigIntegerField(),
        null=True,
        help_text="what was taken of claimed keys; other messages point here",
    )
    until = models.DateTimeField()
    claimed_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        indexes = [
            # serves: the sweep that looks for expired claims.
            models.Index(fields=["until"], name="claim_by_expiry"),
        ]


class Envelope(models.Model):
    """What a message and a dead letter have in common, so that one becomes the other without loss.

    `message_id` is not unique: the same id may be published twice. `headers` is a list of [name, type, base64 | null]
    in the order they came. `generation` = deaths so far. `position` = publish order, kept through redrives.
    """

    message_id = models.CharField(max_length=255)
    key = models.BinaryField(null=True)
    version = models.BigIntegerField(null=True)
    type = models.CharField(max_length=255)
    body = models.BinaryField(null=True, help_text="null is not the same as empty")
    content_type = models.CharField(max_length=255, blank=True, help_text="as declared, never guessed")
    content_encoding = models.CharField(max_length=255, blank=True, help_text="as declared, never guessed")
    headers = models.JSONField(default=list)
    lineage = models.UUIDField(default=uuid.uuid4)
    generation = models.PositiveIntegerField(default=0)
    position = models.BigIntegerField()

    class Meta:
        abstract = True


class Message(Envelope):
    """One unit of work of a native queue, until it is processed or dies; then its row is gone."""

    # No constraint in the database on what is written for each message: checking one costs a look at the other table
    # for every row of a batch (docs/decisions/0011). No index of its own: message_claimable serves every hot question.
    queue = models.ForeignKey(
        SourceQueue, on_delete=models.PROTECT, related_name="messages", db_index=False, db_constraint=False
    )
    by_key = models.BooleanField(default=False, help_text="claimed through its key, in order; else by itself")
    attempts = models.PositiveIntegerField(default=0)
    lost = models.PositiveIntegerField(
        default=0, help_text="starts whose worker was lost, counted apart from attempts"
    )
    suspect = models.BooleanField(
        default=False, help_text="its worker was lost while it held this message: claimed singly from then on"
    )
    available_at = models.DateTimeField(db_default=ClockTimestamp())
    published_at = models.DateTimeField(db_default=ClockTimestamp())
    last_attempt_at = models.DateTimeField(null=True)
    claim = models.ForeignKey(
        Claim,
        null=True,
        on_delete=models.PROTECT,
        related_name="messages",
        db_index=False,
        db_constraint=False,
    )
    # A plain id, not a foreign key: messages lie below dead letters and know nothing of them.
    letter_id = models.BigIntegerField(
        null=True, help_text="the dead letter that this message was redriven from"
    )

    class Meta:
        indexes = [
            # serves: the claim (what is due, oldest first) and the sweep's question which queues have work.
            models.Index(
                fields=["queue", "suspect", "available_at", "position"],
                condition=models.Q(claim=None, by_key=False),
                name="message_claimable",
            ),
            # serves: the head of a key and what stands behind it, in publish order.
            models.Index(
                fields=["queue", "key", "position"], condition=models.Q(by_key=True), name="message_of_key"
            ),
            # serves: the question whether the message of a redriven letter is still there.
            models.Index(
                fields=["letter_id"], condition=models.Q(letter_id__isnull=False), name="message_of_letter"
            ),
            # serves: what a claim holds, when it expires. Partial, so that waiting rows neither fill nor tempt it.
            models.Index(fields=["claim"], condition=models.Q(claim__isnull=False), name="message_of_claim"),
        ]


class QueueKey(models.Model):
    """One key of an ordered queue that has messages, or is parked: what is claimed there is the key, not the message.

    `head` and what follows from it (`due_at`, `suspect`) are written by whoever lets go of the key.
    """

    queue = models.ForeignKey(
        SourceQueue, on_delete=models.CASCADE, related_name="keys", db_index=False, db_constraint=False
    )
    key = models.BinaryField()
    head = models.BigIntegerField(null=True, help_text="position of the first message")
    due_at = models.DateTimeField(
        null=True, help_text="when the head may run; null: not before something changes"
    )
    suspect = models.BooleanField(default=False, help_text="the head is claimed singly")
    claim = models.ForeignKey(
        Claim, null=True, on_delete=models.PROTECT, related_name="keys", db_index=False, db_constraint=False
    )
    blocked_at = models.DateTimeField(null=True, help_text="since when the head has been failing")
    parked_at = models.DateTimeField(null=True)
    parked_position = models.BigIntegerField(
        null=True, help_text="only messages up to this position may run: a letter of this key is not settled"
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["queue", "key"], name="one_row_per_key")]
        indexes = [
            # serves: the claim of keys (what is due, oldest first) and the sweep.
            models.Index(
                fields=["queue", "suspect", "due_at"],
                condition=models.Q(claim=None),
                name="queuekey_claimable",
            ),
            # serves: the keys of a claim, when it is settled or expires.
            models.Index(fields=["claim"], condition=models.Q(claim__isnull=False), name="queuekey_of_claim"),
            # serves: the list of blocked keys.
            models.Index(
                fields=["queue", "blocked_at"],
                condition=models.Q(blocked_at__isnull=False),
                name="queuekey_blocked",
            ),
            # serves: the question which keys are still parked in a queue that does not hold its keys any more.
            models.Index(
                fields=["queue"], condition=models.Q(parked_position__isnull=False), name="queuekey_parked"
            ),
        ]


class KeyArrival(models.Model):
    """A message of this key was published. Consumers file it in QueueKey: no publisher waits for a key's row."""

    # No foreign key, as with AccountDelta.
    queue_id = models.BigIntegerField()
    key = models.BinaryField()

    class Meta:
        indexes = [
            # serves: the filing of a queue's arrivals, in their order.
            models.Index(fields=["queue_id", "id"], name="keyarrival_of_queue"),
        ]


class Attempt(models.Model):
    """A start that failed or was lost. Starts that succeed leave no row."""

    class Outcome(models.TextChoices):
        FAILED = "failed"
        LOST = "lost"

    queue = models.ForeignKey(SourceQueue, on_delete=models.CASCADE, related_name="+", db_index=False)
    lineage = models.UUIDField()
    generation = models.PositiveIntegerField(help_text="deaths before this attempt")
    number = models.PositiveIntegerField(help_text="the attempt's number, or the loss's")
    outcome = models.CharField(max_length=10, choices=Outcome)
    type = models.CharField(max_length=255)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(db_default=ClockTimestamp())
    retry_at = models.DateTimeField(null=True)
    worker = models.CharField(max_length=255)
    error_class = models.CharField(max_length=255, blank=True)
    error_text = models.TextField(blank=True, help_text="a copy that is safe to show")
    error_raw = models.BinaryField(default=bytes)
    traceback = models.TextField(blank=True)

    class Meta:
        indexes = [
            # serves: the timeline of one message through its lives.
            models.Index(fields=["lineage", "generation", "id"], name="attempt_of_lineage"),
        ]


class ProcessedId(models.Model):
    """The ledger: this message id has run in this queue."""

    queue = models.ForeignKey(
        SourceQueue, on_delete=models.CASCADE, related_name="+", db_index=False, db_constraint=False
    )
    message_id = models.CharField(max_length=255)
    processed_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["queue", "message_id"], name="ledger_runs_once")]
        # serves: retention. Rows come in the order of their time, so a few pages of summaries are enough.
        indexes = [BrinIndex(fields=["processed_at"], name="processedid_by_age")]


class KeyVersion(models.Model):
    """The highest version of a key that was processed."""

    queue = models.ForeignKey(
        SourceQueue, on_delete=models.CASCADE, related_name="+", db_index=False, db_constraint=False
    )
    key = models.BinaryField()
    version = models.BigIntegerField(help_text="the least bigint: no version was processed yet")
    processed_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["queue", "key"], name="one_version_per_key")]
        # serves: retention.
        indexes = [BrinIndex(fields=["processed_at"], name="keyversion_by_age")]


class Discard(models.Model):
    """A sample of the deliveries that a consumer dropped on purpose; the books hold their number."""

    class Kind(models.TextChoices):
        DUPLICATE = "duplicate"
        STALE = "stale"

    queue = models.ForeignKey(SourceQueue, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=10, choices=Kind)
    message_id = models.CharField(max_length=255)
    key = models.BinaryField(null=True)
    version = models.BigIntegerField(null=True)
    lineage = models.UUIDField()
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        indexes = [
            # serves: the last discards of a queue.
            models.Index(fields=["queue", "-id"], name="discard_newest"),
        ]
