"""Changing a queue's settings."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import F

from dlqadmin.people.audit import record
from dlqadmin.queues.models import SourceQueue


@transaction.atomic
def configure_queue(
    *, queue: SourceQueue, by: AbstractBaseUser, reason: str = "", **changes: Any
) -> SourceQueue:
    """Set fields of a queue; running consumers follow at their next turn, in about a second.

    Audited with before and after. Values are taken as validated. Fields that do not change leave no trace; with none,
    nothing is written.
    """
    current = SourceQueue.objects.select_for_update(no_key=True).get(pk=queue.pk)
    changed = {name: value for name, value in changes.items() if getattr(current, name) != value}
    if not changed:
        return current
    before = {name: _plain(getattr(current, name)) for name in changed}
    SourceQueue.objects.filter(pk=current.pk).update(**changed, config_version=F("config_version") + 1)
    after = {name: _plain(value) for name, value in changed.items()}
    current.refresh_from_db()
    record(by=by, action="queue.configure", target=current, reason=reason, before=before, after=after)
    return current


def _plain(value: Any) -> Any:
    """A value as the audit trail keeps it: related objects by name."""
    return value if value is None or isinstance(value, bool | int | float | str | list | dict) else str(value)
