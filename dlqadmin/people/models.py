"""Owners, their members, and the audit trail."""

from django.conf import settings
from django.db import models

from dlqadmin.clock import ClockTimestamp


class Owner(models.Model):
    """The team that produces the messages of a queue."""

    name = models.CharField(max_length=100, unique=True)
    slug = models.SlugField(max_length=100, unique=True)
    email = models.EmailField(blank=True, help_text="where alerts go; empty: to every member")
    channels = models.JSONField(default=list, blank=True, help_text="further contact channels, by name")
    created_at = models.DateTimeField(db_default=ClockTimestamp())

    def __str__(self) -> str:
        return self.name

    @property
    def owner_id(self) -> int:
        """An owner belongs to itself; `may()` asks every object for its owner."""
        return self.pk


class Role(models.TextChoices):
    """What a member may do in an owner's queues, rising."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    LEAD = "lead"


class Membership(models.Model):
    """A person in a team, with a role."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "owner"], name="one_membership_per_owner")]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.owner}"


class AuditEntry(models.Model):
    """Who changed what, on which object, why, and what stood there before and after. Written once, never changed."""

    at = models.DateTimeField(db_default=ClockTimestamp())
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    actor = models.CharField(max_length=255, help_text="the name at the time, kept when the user is gone")
    action = models.CharField(max_length=60)
    object_type = models.CharField(max_length=60)
    object_id = models.CharField(max_length=64)
    object_name = models.CharField(max_length=255)
    owner = models.ForeignKey(Owner, null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.TextField(blank=True)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)

    class Meta:
        indexes = [
            # serves: the history of one object, newest first.
            models.Index(fields=["object_type", "object_id", "-at"], name="audit_of_object"),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action} {self.object_name}"
