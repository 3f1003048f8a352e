"""Changing a queue's settings."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import F

from dlqadmin.people.audit import record
from dlqadmin.queues.models import SourceQueue


class SettingsChanged(Exception):
    """Somebody else changed the queue since its settings were read: nothing was saved. `version`: the one of now."""

    def __init__(self, version: int) -> None:
        super().__init__(f"the settings are at version {version} now")
        self.version = version


@transaction.atomic
def configure_queue(
    *, queue: SourceQueue, by: AbstractBaseUser, reason: str = "", seen: int | None = None, **changes: Any
) -> SourceQueue:
    """Set fields of a queue; running consumers follow at their next turn, in about a second.

    Audited with before and after. Values are taken as validated. Fields that do not change leave no trace; with none,
    nothing is written. `seen`: the `config_version` that the changes were made from; when it is not the current one
    SettingsChanged is raised, so that a form that was open for long takes nothing back.
    """
    current = SourceQueue.objects.select_for_update(no_key=True).get(pk=queue.pk)
    changed = {name: value for name, value in changes.items() if getattr(current, name) != value}
    if not changed:
        return current
    if seen not in (None, current.config_version):
        raise SettingsChanged(current.config_version)
    before = {name: _plain(getattr(current, name)) for name in changed}
    SourceQueue.objects.filter(pk=current.pk).update(**changed, config_version=F("config_version") + 1)
    after = {name: _plain(value) for name, value in changed.items()}
    current.refresh_from_db()
    record(by=by, action="queue.configure", target=current, reason=reason, before=before, after=after)
    return current


def _plain(value: Any) -> Any:
    """A value as the audit trail keeps it: related objects by name."""
    return value if value is None or isinstance(value, bool | int | float | str | list | dict) else str(value)
