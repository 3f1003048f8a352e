"""Alerts: what is wrong, who was told, who takes care."""

from datetime import timedelta
from typing import Any

from django.db.models import Count, Max, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from dlqadmin.alerts.evaluate import acknowledge
from dlqadmin.alerts.models import Alert, Notification
from dlqadmin.clock import ClockTimestamp
from dlqadmin.people.permissions import may, visible_owners
from dlqadmin.web.live import render_live
from dlqadmin.web.load import load_alert
from dlqadmin.web.routes import route, signed_in_user

MOST_ALERTS = 200
MOST_NOTIFICATIONS = 25


@route("alerts.view")
def alerts(request: HttpRequest) -> HttpResponse:
    """The open alerts by owner, how they were delivered, and those that closed in the last 24 hours."""
    owners = visible_owners(request.user)
    visible = Alert.objects.all() if owners is None else Alert.objects.filter(queue__owner_id__in=owners)
    rows = open_alerts(visible)
    for row in rows:
        row.may_acknowledge = may(request.user, "alert.acknowledge", row)  # type: ignore[attr-defined]
    context = {
        "alerts": rows,
        "firing": sum(row.state == Alert.State.FIRING for row in rows),
        "acknowledged": sum(row.state == Alert.State.ACKNOWLEDGED for row in rows),
        "notifications": notifications_of(visible),
        "closed": visible.filter(closed_at__gte=ClockTimestamp() - timedelta(hours=24))
        .select_related("queue")
        .order_by("-closed_at")[:50],
    }
    return render_live(request, "alerts/page.html", context, seconds=10)


@route(post="alert.acknowledge", load=load_alert)
def acknowledge_alert(request: HttpRequest, alert: Alert) -> HttpResponse:
    """Take care of an alert: it stays open, and reminds nobody. One that is not firing any more stays as it is."""
    acknowledge(alert=alert, by=signed_in_user(request))
    return redirect("alerts")


def open_alerts(visible: QuerySet[Alert]) -> list[Alert]:
    """The open alerts grouped by owner, each with how often somebody was told, and how often that failed."""
    told = visible.filter(closed_at=None).annotate(
        told=Count("notifications", filter=Q(notifications__state=Notification.State.SENT)),
        failed=Count("notifications", filter=Q(notifications__state=Notification.State.FAILED)),
        on_its_way=Count("notifications", filter=Q(notifications__state=Notification.State.PENDING)),
        told_at=Max("notifications__sent_at"),
    )
    ordered = told.select_related("queue__owner", "acknowledged_by").order_by(
        "queue__owner__name", "state", "severity", "opened_at"
    )
    return list(ordered[:MOST_ALERTS])


def notifications_of(visible: QuerySet[Alert]) -> Any:
    """The newest notifications about these alerts."""
    found = Notification.objects.filter(alert__in=visible).select_related("alert__queue")
    return found.defer("text").order_by("-pk")[:MOST_NOTIFICATIONS]
