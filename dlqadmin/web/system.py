"""The system: who leads, which jobs are late, which processes live, whether the broker answers."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dlqadmin.brokers.reach import Reach, reach_broker
from dlqadmin.leases.scheduler import LEASE_SECONDS
from dlqadmin.leases.status import LATE, Status, read_status
from dlqadmin.web.live import render_live
from dlqadmin.web.routes import route


@route("system.view")
def system(request: HttpRequest) -> HttpResponse:
    """The system now."""
    status, reach = read_status(), reach_broker()
    context = {
        "status": status,
        "reach": reach,
        "problems": problems_of(status, reach),
        "lease_seconds": LEASE_SECONDS,
        "late_seconds": LATE,
    }
    return render_live(request, "system/page.html", context, seconds=10)


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
