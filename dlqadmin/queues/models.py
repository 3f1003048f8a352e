"""Source queues with their policies, the slots of their consumers, and the rows of their books."""

from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from dlqadmin.clock import ClockTimestamp
from dlqadmin.people.models import Owner


class SourceQueueQuerySet(models.QuerySet["SourceQueue"]):
    """Reads of queues."""

    def visible_to_owners(self, owners: list[int] | None) -> "SourceQueueQuerySet":
        """Queues of these owners; None stands for all (see `people.permissions.visible_owners`)."""
        return self if owners is None else self.filter(owner_id__in=owners)


class SourceQueue(models.Model):
    """Where messages come from, and the policy by which they are retried, ordered, deduplicated and watched."""

    class Kind(models.TextChoices):
        NATIVE = "native", _("native")
        RABBITMQ = "rabbitmq", "RabbitMQ"
        SQS = "sqs", "SQS"
        REDIS = "redis", "Redis Streams"
        KAFKA = "kafka", "Kafka"

    class Idempotency(models.TextChoices):
        PLAIN = "plain", _("none: every delivery runs")
        LEDGER = "ledger", _("ledger: a message id runs once")
        LATEST = "latest", _("latest: only newer versions of a key run")

    class OnDeath(models.TextChoices):
        RELEASE = "release", _("release the key")
        HOLD = "hold", _("hold the key")

    name = models.CharField(
        max_length=100,
        unique=True,
        # "." and ".." mean folders in an address.
        validators=[
            RegexValidator(r"^(?!\.{1,2}\Z)[\w.:/-]+\Z", _("Use letters, digits and . : / - _ only."))
        ],
    )
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.NATIVE)
    owner = models.ForeignKey(Owner, null=True, blank=True, on_delete=models.SET_NULL, related_name="queues")
    paused = models.BooleanField(default=False)
    archived_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    config_version = models.PositiveIntegerField(default=1)

    # Retry: the failed attempt number `max_attempts` makes the message a dead letter; 0 = no threshold.
    max_attempts = models.PositiveIntegerField(default=5)
    max_lost = models.PositiveIntegerField(default=3, validators=[MinValueValidator(1)])
    backoff_base = models.FloatField(default=1.0, help_text="seconds before the second attempt")
    backoff_factor = models.FloatField(default=2.0)
    backoff_cap = models.FloatField(default=300.0, help_text="seconds")
    backoff_jitter = models.BooleanField(default=True)
    retry_overrides = models.JSONField(
        default=dict, help_text="per message type, some of the fields above but `max_lost`"
    )
    # Names of exception classes, with or without their module; the nearest base class that is named decides.
    permanent_errors = models.JSONField(default=list, help_text="a message that fails so dies at once")
    transient_errors = models.JSONField(default=list, help_text="retried although a base class is permanent")

    # Running.
    concurrency = models.PositiveIntegerField(
        default=4, help_text="handlers running at once over all machines"
    )
    timeout = models.FloatField(
        default=30.0, help_text="seconds a handler may run, unless it declares its own"
    )
    celery_queue = models.CharField(max_length=40, default="consumers")
    ordered = models.BooleanField(default=False)
    on_death = models.CharField(max_length=10, choices=OnDeath, default=OnDeath.RELEASE)
    idempotency = models.CharField(max_length=10, choices=Idempotency, default=Idempotency.PLAIN)
    wake_pending_until = models.DateTimeField(
        null=True, help_text="a wake-up sent before then is still on its way"
    )

    # Watching and redriving.
    alert_levels = models.JSONField(default=list, help_text="rising depths at which the alert escalates")
    approval_above = models.PositiveIntegerField(
        null=True, help_text="letters above which a second person must approve"
    )
    retention_days = models.PositiveIntegerField(default=90)
    redaction = models.JSONField(default=list)
    broker = models.JSONField(default=dict, help_text="where an external queue lives; never a password")

    objects = SourceQueueQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name


class ConsumerSlot(models.Model):
    """One of the `concurrency` places of a queue, leased by a consumer."""

    queue = models.ForeignKey(SourceQueue, on_delete=models.CASCADE, related_name="slots", db_index=False)
    number = models.PositiveIntegerField()
    holder = models.CharField(max_length=255, blank=True)
    token = models.BigIntegerField(default=0)
    until = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["queue", "number"], name="one_slot_per_number")]


class AccountKind(models.TextChoices):
    """What the books count as it happens; what is waiting, running and dead is counted where it lies."""

    RECEIVED = "received"
    PROCESSED = "processed"
    DUPLICATE = "duplicate"
    STALE = "stale"
    DISCARDED = "discarded"
    RESOLVED = "resolved"


class Account(models.Model):
    """The folded total of one account of one queue."""

    queue = models.ForeignKey(SourceQueue, on_delete=models.CASCADE, related_name="accounts", db_index=False)
    kind = models.CharField(max_length=10, choices=AccountKind)
    total = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["queue", "kind"], name="one_account_per_kind")]


class AccountDelta(models.Model):
    """An entry in the books, appended in the transaction that it tells of; a sweep folds it into `Account`."""

    # No foreign key: checking one would lock the queue's row in every publisher's transaction.
    queue_id = models.BigIntegerField()
    kind = models.CharField(max_length=10, choices=AccountKind)
    delta = models.BigIntegerField()

    class Meta:
        indexes = [
            # serves: the sum of what is not folded yet, and the fold itself.
            models.Index(fields=["queue_id", "kind"], include=["delta"], name="delta_of_queue"),
        ]
