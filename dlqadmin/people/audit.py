"""The audit trail: every change of state by a person leaves an entry in its own transaction."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import models

from dlqadmin.people.models import AuditEntry

# Who makes a change; None is dlqadmin itself.
Actor = AbstractBaseUser | None


def actor_name(by: Actor) -> str:
    """The name that a change is kept under."""
    return by.get_username() if by else "dlqadmin"


def record(
    *,
    by: Actor,
    action: str,
    target: models.Model,
    reason: str = "",
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditEntry:
    """Write one entry. Call it inside the transaction that makes the change.

    `before` and `after` hold only what changed, as JSON values; never a body or a secret.
    """
    return AuditEntry.objects.create(
        user_id=by.pk if by else None,
        actor=actor_name(by),
        action=action,
        object_type=target._meta.label_lower.rpartition(".")[2],
        object_id=str(target.pk),
        object_name=str(target)[:255],
        owner_id=getattr(target, "owner_id", None),
        reason=reason,
        before=before or {},
        after=after or {},
    )
