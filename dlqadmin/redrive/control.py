"""What people do with a redrive that is under way: pause, resume, cancel; and the approval before it."""

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.people.audit import Actor, actor_name, record
from dlqadmin.redrive.diagnose import current_diagnosis
from dlqadmin.redrive.models import Approval, Redrive
from dlqadmin.redrive.run import LIVE, keep_outcomes, let_go

State = Redrive.State


class NotNow(ValueError):
    """The redrive is not in a state for that; the text says what it is at."""


def pause(*, redrive: Redrive, by: Actor) -> None:
    """Send nothing more until it is resumed; what is on its way goes on. Raises NotNow."""
    _change(redrive, by, "redrive.pause", LIVE, state=State.PAUSED, state_reason="")


def resume(*, redrive: Redrive, by: Actor) -> None:
    """Go on after a pause or a hold. Raises NotNow."""
    _change(redrive, by, "redrive.resume", (State.PAUSED, State.HELD), state=State.RUNNING, state_reason="")


def cancel(*, redrive: Redrive, by: Actor) -> None:
    """End it: what was not sent is open again, what is on its way keeps its outcome. Raises NotNow."""
    live = (*LIVE, State.PAUSED, State.HELD)
    with transaction.atomic():
        _change(redrive, by, "redrive.cancel", live, state=State.CANCELLED, finished_at=ClockTimestamp())
        let_go(redrive, gettext_noop("the redrive was cancelled"))
        keep_outcomes(redrive)


@transaction.atomic
def approve(*, cluster: ErrorCluster, letters: int, by: AbstractBaseUser) -> Approval:
    """A second person's word on the present diagnosis, for redrives of at most so many letters.

    Raises NotNow: there is no diagnosis, or it is one's own.
    """
    root = ErrorCluster.objects.select_related("queue").get(pk=cluster.root_id)
    diagnosis = current_diagnosis(root)
    if diagnosis is None:
        raise NotNow(_("There is no diagnosis to approve."))
    if diagnosis.signed_by_id == by.pk:
        raise NotNow(_("You signed this diagnosis: a second person must approve."))
    made = Approval.objects.create(diagnosis=diagnosis, letters=letters, by_id=by.pk, by_name=actor_name(by))
    after = {"diagnosis": diagnosis.version, "letters": letters}
    record(by=by, action="redrive.approve", target=root, after=after)
    return made


@transaction.atomic
def _change(redrive: Redrive, by: Actor, action: str, states: tuple[State, ...], **values: object) -> None:
    row = Redrive.objects.select_for_update(of=("self",)).select_related("queue").get(pk=redrive.pk)
    if row.state not in states:
        raise NotNow(_("The redrive is %(state)s.") % {"state": row.get_state_display()})
    Redrive.objects.filter(pk=row.pk).update(**values)
    record(
        by=by, action=action, target=row, before={"state": row.state}, after={"state": str(values["state"])}
    )
