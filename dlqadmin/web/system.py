"""The system: who leads, which jobs are late, which processes live, whether the broker answers."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dlqadmin.brokers.reach import Reach, reach_broker
from dlqadmin.consumers.batch import CONSUMER_OF
from dlqadmin.leases.models import FencedWrite
from dlqadmin.leases.scheduler import LEASE_SECONDS
from dlqadmin.leases.status import LATE, Status, read_status
from dlqadmin.people.permissions import visible_owners
from dlqadmin.web.frame import Sidebar
from dlqadmin.web.live import render_live
from dlqadmin.web.routes import route


@dataclass(frozen=True, slots=True)
class FencedRow:
    """A write that was fenced out. `consumer`: of a consumer, not of a job; `queue`: its queue, if there is a page."""

    row: FencedWrite
    what: str
    consumer: bool
    queue: str


@route("system.view")
def system(request: HttpRequest) -> HttpResponse:
    """The system now."""
    status, reach, sidebar = read_status(), reach_broker(), Sidebar(request.user)
    context = {
        "sidebar": sidebar,
        "status": status,
        "reach": reach,
        "problems": problems_of(status, reach),
        "fenced_writes": fenced_rows(status.fenced_writes, sidebar),
        "lease_seconds": LEASE_SECONDS,
        "late_seconds": LATE,
    }
    return render_live(request, "system/page.html", context, seconds=10)


def fenced_rows(writes: Iterable[FencedWrite], sidebar: Sidebar) -> list[FencedRow]:
    """The rows with what is said of each. Everybody sees this page, but a queue is named to its team only."""
    names = {queue.name for queue in sidebar.all_queues}
    names_all = visible_owners(sidebar.user) is None
    rows = []
    for write in writes:
        consumer, name = write.what.startswith(CONSUMER_OF), write.what.removeprefix(CONSUMER_OF)
        named = not consumer or names_all or name in names
        what = write.what if named else _("consumer of another team’s queue")
        rows.append(FencedRow(write, what, consumer, name if consumer and name in names else ""))
    return rows


def problems_of(status: Status, reach: Reach) -> list[str]:
    """What is wrong, the worst first, each in a sentence; nothing: the system is healthy."""
    problems = []
    if status.leader is None or not status.leader.holds:
        problems.append(_("Nobody leads: start beat"))
    if not status.alive("consumers"):
        problems.append(_("No consumer is alive: messages wait"))
    if not status.alive("system"):
        problems.append(_("No system worker is alive: alerts and redrives wait"))
    if not reach.reached:
        problems.append(_("The broker does not answer: wake-ups wait, messages do not get lost"))
    if stuck := [job.job for job in status.jobs if job.stuck]:
        problems.append(_("Jobs that do not start: %s") % ", ".join(stuck))
    if status.failed:
        failed = ngettext("%d run failed in 24 h", "%d runs failed in 24 h", status.failed)
        problems.append(failed % status.failed)
    return problems
