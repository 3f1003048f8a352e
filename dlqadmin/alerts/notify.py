"""The outbox: notifications are rows first, written with their alert, and are sent at least once under one id."""

import logging

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.mail import EmailMessage
from django.db import connection
from django.urls import reverse

from dlqadmin.alerts.models import Alert, Notification
from dlqadmin.clock import ClockTimestamp
from dlqadmin.leases.run import guarded

logger = logging.getLogger(__name__)

MAX_TRIES = 10

# The row is taken for a minute, so a sender that is killed in the middle leaves it to the next one.
_TAKE = """
UPDATE dlqadmin_notification SET tries = tries + 1, next_try_at = clock_timestamp() + interval '1 minute' WHERE id = (
    SELECT id FROM dlqadmin_notification WHERE state = 'pending' AND next_try_at <= clock_timestamp()
    ORDER BY next_try_at LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING id
"""


def enqueue(alert: Alert, occasion: Notification.Occasion) -> int:
    """Write the notifications of an alert for everyone who must hear of it; how many. Expects a transaction."""
    targets = recipients(alert)
    Notification.objects.bulk_create(
        Notification(
            alert=alert,
            owner_id=alert.queue.owner_id,
            occasion=occasion,
            target=target,
            subject=_subject(alert),
            text=_text(alert),
        )
        for target in targets
    )
    Alert.objects.filter(pk=alert.pk).update(last_notified_at=ClockTimestamp())
    return len(targets)


def recipients(alert: Alert) -> list[str]:
    """The owner's address, else its members', else the admins': nobody's queue alerts the admins."""
    owner = alert.queue.owner
    if owner and owner.email:
        return [owner.email]
    users = get_user_model().objects.filter(is_active=True).exclude(email="")
    members = users.filter(memberships__owner=owner) if owner else users.none()
    found = members or users.filter(is_superuser=True)
    return sorted(found.values_list("email", flat=True).distinct())


def deliver_due(most: int = 10) -> int:
    """Send at most `most` notifications that are due; how many went out."""
    sent = 0
    for _ in range(most):
        notification = _take()
        if notification is None:
            break
        sent += _send(notification)
    return sent


@guarded()
def _take() -> Notification | None:
    """The next notification that is due, taken for a minute."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKE)
        row = cursor.fetchone()
    return Notification.objects.get(pk=row[0]) if row else None


def _send(notification: Notification) -> bool:
    mail = EmailMessage(
        subject=notification.subject,
        body=notification.text,
        to=[notification.target],
        headers={"X-Dlqadmin-Notification": str(notification.uid)},
    )
    try:
        mail.send()
    except Exception as error:  # noqa: BLE001 - backends raise what they like; the row remembers it
        _failed(notification, error)
        return False
    _sent(notification)
    return True


@guarded()
def _sent(notification: Notification) -> None:
    Notification.objects.filter(pk=notification.pk).update(
        state=Notification.State.SENT, sent_at=ClockTimestamp(), last_error=""
    )


@guarded()
def _failed(notification: Notification, error: Exception) -> None:
    """The class of the error only: mail servers put addresses and secrets into their texts."""
    logger.warning("Notification %s was not sent: %s", notification.uid, type(error).__name__)
    given_up = notification.tries >= MAX_TRIES
    Notification.objects.filter(pk=notification.pk).update(
        last_error=type(error).__name__,
        state=Notification.State.FAILED if given_up else Notification.State.PENDING,
    )


def _subject(alert: Alert) -> str:
    """One line: what stands in a subject is cut at the first line break."""
    return f"[dlqadmin] {alert.sentence}".splitlines()[0][:200]


def _page(alert: Alert) -> str:
    """Where to act."""
    if alert.rule == "redrive":
        return reverse("redrive", args=[alert.subject])
    return reverse("queue", args=[alert.queue.name])


def _text(alert: Alert) -> str:
    link = settings.DLQADMIN_URL.rstrip("/") + _page(alert)
    owner = alert.queue.owner.name if alert.queue.owner else "nobody: please give the queue an owner"
    return f"{alert.sentence}\n\nQueue: {alert.queue.name}\nOwner: {owner}\nOpen it: {link}\n"
