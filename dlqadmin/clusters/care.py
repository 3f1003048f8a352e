"""What people do with a cluster besides grouping: name it, take it on, mute it, close it.

Each is audited, and undone by doing the opposite.
"""

from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils.translation import gettext as _

from dlqadmin.clock import ClockTimestamp, db_now
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.people.audit import Actor, record

LONGEST_NAME = 200


class NotPossible(ValueError):
    """The change cannot be made; the text says why."""


def rename(*, cluster: ErrorCluster, name: str, by: Actor) -> None:
    """Call it `name`; empty: by its template again. Raises NotPossible if the name is too long."""
    name = name.strip()
    if len(name) > LONGEST_NAME:
        raise NotPossible(_("A name has at most %(most)d characters.") % {"most": LONGEST_NAME})
    _change(cluster, by, "cluster.rename", name=name)


def assign_to(*, cluster: ErrorCluster, person: AbstractBaseUser | None, by: Actor) -> None:
    """`person` takes it on; None: nobody does."""
    _change(cluster, by, "cluster.assign", assignee=person)


def mute(*, cluster: ErrorCluster, until: datetime | None, by: Actor) -> None:
    """No alert about it until then; None: from now on again. Raises NotPossible for a time that is past."""
    if until is not None and until <= db_now():
        raise NotPossible(_("Choose a time that is still to come."))
    _change(cluster, by, "cluster.mute", muted_until=until)


def close(*, cluster: ErrorCluster, by: Actor) -> None:
    """It is over. A letter that comes later brings it back."""
    _change(cluster, by, "cluster.close", closed_at=ClockTimestamp())


def reopen(*, cluster: ErrorCluster, by: Actor) -> None:
    """It is not over after all."""
    _change(cluster, by, "cluster.close", closed_at=None)


def write_note(*, cluster: ErrorCluster, note: str, by: Actor) -> None:
    """Keep what people know about it."""
    _change(cluster, by, "cluster.rename", note=note.strip())


@transaction.atomic
def _change(cluster: ErrorCluster, by: Actor, action: str, **values: Any) -> None:
    row = (
        ErrorCluster.objects.select_for_update(no_key=True, of=("self",))
        .select_related("queue")
        .get(pk=cluster.pk)
    )
    before = {field: _said(getattr(row, field)) for field in values}
    ErrorCluster.objects.filter(pk=row.pk).update(**values, worked_on_at=ClockTimestamp())
    row.refresh_from_db(fields=list(values))
    after = {field: _said(getattr(row, field)) for field in values}
    if after != before:
        record(by=by, action=action, target=row, before=before, after=after)


def _said(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return value.get_username() if isinstance(value, AbstractBaseUser) else value
