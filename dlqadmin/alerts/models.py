"""Alerts and the durable outbox of their notifications."""

import uuid

from django.conf import settings
from django.db import models

from dlqadmin.clock import ClockTimestamp
from dlqadmin.people.models import Owner
from dlqadmin.queues.models import SourceQueue


class Alert(models.Model):
    """Something about a queue that its owner must hear of; opens once, closes when it is over."""

    class State(models.TextChoices):
        FIRING = "firing"
        ACKNOWLEDGED = "acknowledged"
        SNOOZED = "snoozed"
        CLOSED = "closed"

    class Severity(models.TextChoices):
        WARNING = "warning"
        CRITICAL = "critical"

    queue = models.ForeignKey(SourceQueue, on_delete=models.CASCADE, related_name="alerts")
    rule = models.CharField(max_length=40)
    subject = models.CharField(
        max_length=100, blank=True, help_text="what inside the queue, e.g. a cluster's id"
    )
    severity = models.CharField(max_length=10, choices=Severity)
    state = models.CharField(max_length=12, choices=State, default=State.FIRING)
    sentence = models.TextField(help_text="what is wrong, in words")
    value = models.FloatField(default=0)
    step = models.PositiveIntegerField(default=0)
    opened_at = models.DateTimeField(db_default=ClockTimestamp())
    evaluated_at = models.DateTimeField(db_default=ClockTimestamp())
    calm_since = models.DateTimeField(null=True, help_text="at or below its limit since then")
    acknowledged_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    acknowledged_at = models.DateTimeField(null=True)
    snoozed_until = models.DateTimeField(null=True)
    last_notified_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            # An alert opens once, however many processes evaluate.
            models.UniqueConstraint(
                fields=["queue", "rule", "subject"],
                condition=models.Q(closed_at=None),
                name="alert_opens_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rule} of {self.queue.name}"

    @property
    def owner_id(self) -> int | None:
        """An alert belongs to the owner of its queue."""
        return self.queue.owner_id


class Notification(models.Model):
    """One message to one channel, written with the alert and sent later, at least once, under one id."""

    class State(models.TextChoices):
        PENDING = "pending"
        SENT = "sent"
        FAILED = "failed"

    class Occasion(models.TextChoices):
        OPENED = "opened"
        ESCALATED = "escalated"
        REMINDER = "reminder"
        CLOSED = "closed"

    uid = models.UUIDField(default=uuid.uuid4, unique=True)
    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="notifications")
    owner = models.ForeignKey(Owner, null=True, on_delete=models.SET_NULL, related_name="+")
    occasion = models.CharField(max_length=10, choices=Occasion)
    channel = models.CharField(max_length=20, default="email")
    target = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    text = models.TextField()
    state = models.CharField(max_length=10, choices=State, default=State.PENDING)
    tries = models.PositiveIntegerField(default=0)
    next_try_at = models.DateTimeField(db_default=ClockTimestamp())
    last_error = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    sent_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # serves: the sender's question what is due.
            models.Index(
                fields=["next_try_at"], condition=models.Q(state="pending"), name="notification_due"
            ),
        ]
