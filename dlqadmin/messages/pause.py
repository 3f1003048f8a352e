"""Pausing a queue: its consumers start nothing, and what is published waits.

Nobody is interrupted: a consumer ends the turn that it is in, about a second or the handler at work, and does not come
back. Here and not in `queues`, because who resumes a queue wakes its consumers.
"""

from django.db import transaction

from dlqadmin.messages.wakeups import wake
from dlqadmin.people.audit import Actor, record
from dlqadmin.people.models import AuditEntry
from dlqadmin.queues.models import SourceQueue

PAUSE, RESUME = "queue.pause", "queue.resume"


@transaction.atomic
def pause_queue(*, queue: SourceQueue, by: Actor, reason: str = "") -> bool:
    """Pause a native queue; False if it was paused already, or is none that can be. Audited."""
    return _set(queue, True, PAUSE, by, reason)


@transaction.atomic
def resume_queue(*, queue: SourceQueue, by: Actor, reason: str = "") -> bool:
    """Let the consumers of a paused queue go on, and wake them; False if it was not paused. Audited."""
    resumed = _set(queue, False, RESUME, by, reason)
    if resumed:
        wake(queue.pk)
    return resumed


def pause_of(queue: SourceQueue) -> AuditEntry | None:
    """Who paused the queue, when and why; None if it is not paused, or was on another way than `pause_queue`."""
    if not queue.paused:
        return None
    entries = AuditEntry.objects.filter(object_type="sourcequeue", object_id=str(queue.pk))
    last = entries.filter(action__in=(PAUSE, RESUME)).order_by("-at", "-pk").first()
    return last if last and last.action == PAUSE else None


def _set(queue: SourceQueue, paused: bool, action: str, by: Actor, reason: str) -> bool:
    """One of any number of people who press the button at once changes the row, and leaves the entry."""
    changeable = SourceQueue.objects.filter(pk=queue.pk, kind=SourceQueue.Kind.NATIVE, archived_at=None)
    if not changeable.filter(paused=not paused).update(paused=paused):
        return False
    queue.paused = paused
    before, after = {"paused": not paused}, {"paused": paused}
    record(by=by, action=action, target=queue, reason=reason, before=before, after=after)
    return True
