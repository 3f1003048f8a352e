"""The owning team hears of it, once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.core import mail
from django.db import connection

from dlqadmin.alerts.evaluate import acknowledge, evaluate
from dlqadmin.alerts.models import Alert, Notification
from dlqadmin.alerts.notify import deliver_due
from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.messages.publish import publish
from dlqadmin.people.models import AuditEntry, Membership, Owner
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.run import advance_redrives
from dlqadmin.redrive.start import start_redrive


def kill(queue, number: int = 1, body: bytes = b"{}") -> None:
    """Let so many messages die: nothing handles their type."""
    for _ in range(number):
        publish(queue, type="unknown", body=body)
    consume_once(queue)


def test_the_first_letter_alerts_the_owner_by_mail(queue) -> None:
    kill(queue)
    evaluate()
    deliver_due()
    sent = mail.outbox[0]
    assert sent.to == ["members@library.example"]
    assert "1 dead letter in late-notices" in sent.subject
    assert "/queues/late-notices/" in sent.body
    assert sent.extra_headers["X-Dlqadmin-Notification"] == str(Notification.objects.get().uid)


def test_an_alert_opens_once_and_follows_its_queue(queue) -> None:
    kill(queue)
    evaluate()
    kill(queue, 2)
    evaluate()
    deliver_due()
    alert = Alert.objects.get()
    assert (alert.value, alert.state) == (3, "firing")
    assert alert.sentence.startswith("3 dead letters")
    assert len(mail.outbox) == 1


def test_a_step_is_told_again(make_queue) -> None:
    queue = make_queue(alert_levels=[2, 4])
    kill(queue)
    evaluate()
    kill(queue, 2)
    evaluate()
    evaluate()
    kill(queue, 2)
    evaluate()
    deliver_due()
    occasions = list(Notification.objects.order_by("pk").values_list("occasion", flat=True))
    assert occasions == ["opened", "escalated", "escalated"]
    assert Alert.objects.get().severity == "critical"


def test_an_alert_closes_after_ten_calm_minutes(queue) -> None:
    kill(queue)
    evaluate()
    DeadLetter.objects.update(state="discarded")
    evaluate()
    alert = Alert.objects.get()
    assert (alert.state, alert.value) == ("firing", 0)
    assert alert.calm_since
    Alert.objects.update(calm_since=ClockTimestamp() - timedelta(minutes=11))
    evaluate()
    assert Alert.objects.get().state == "closed"


def test_trouble_during_the_calm_keeps_the_alert_open(queue) -> None:
    kill(queue)
    evaluate()
    DeadLetter.objects.update(state="discarded")
    evaluate()
    kill(queue)
    evaluate()
    assert Alert.objects.get().calm_since is None


def test_an_owner_without_an_address_is_reached_through_its_members(make_queue, make_user, owner) -> None:
    Owner.objects.update(email="")
    make_user("viewer", "anna")
    gone = make_user("lead", "gone")
    gone.is_active = False
    gone.save()
    kill(make_queue())
    evaluate()
    assert [n.target for n in Notification.objects.all()] == ["anna@library.example"]


def test_a_queue_without_an_owner_alerts_the_admins(make_queue, make_user) -> None:
    make_user("admin", "root")
    make_user("lead", "other")
    kill(make_queue(owner=None))
    evaluate()
    assert [n.target for n in Notification.objects.all()] == ["root@library.example"]


def test_an_owner_whom_nobody_hears_alerts_the_admins(make_queue, make_user) -> None:
    make_user("admin", "root")
    Owner.objects.update(email="")
    Membership.objects.all().delete()
    kill(make_queue())
    evaluate()
    assert [n.target for n in Notification.objects.all()] == ["root@library.example"]


def test_a_mail_that_cannot_be_sent_is_tried_again_and_its_error_holds_no_secret(queue, monkeypatch) -> None:
    def refuse(*args: object) -> None:
        raise ConnectionRefusedError("smtp://user:hunter2@mail refused")

    kill(queue)
    evaluate()
    with monkeypatch.context() as patch:
        patch.setattr("django.core.mail.EmailMessage.send", refuse)
        assert deliver_due() == 0
    notification = Notification.objects.get()
    assert (notification.state, notification.tries, notification.last_error) == (
        "pending",
        1,
        "ConnectionRefusedError",
    )
    assert deliver_due() == 0  # not due yet
    Notification.objects.update(next_try_at=ClockTimestamp())
    assert deliver_due() == 1
    assert Notification.objects.get().state == "sent"


def test_a_mail_that_fails_ten_times_is_given_up_and_says_so(queue, monkeypatch) -> None:
    def refuse(*args: object) -> None:
        raise OSError

    monkeypatch.setattr("django.core.mail.EmailMessage.send", refuse)
    kill(queue)
    evaluate()
    for _ in range(12):
        Notification.objects.update(next_try_at=ClockTimestamp())
        deliver_due()
    notification = Notification.objects.get()
    assert (notification.state, notification.tries) == ("failed", 10)


def test_an_error_text_with_line_breaks_cannot_forge_a_mail_header(queue, handle) -> None:
    def fail(message) -> None:
        raise ValueError("a\r\nBcc: all@library.example")

    handle(queue, fail)
    publish(queue, type="note", body={})
    for _ in range(3):
        consume_once(queue)
    evaluate()
    deliver_due()
    assert "\n" not in mail.outbox[0].subject
    assert mail.outbox[0].recipients() == ["members@library.example"]


def test_an_acknowledged_alert_is_audited(queue, make_user) -> None:
    kill(queue)
    evaluate()
    alert, user = Alert.objects.get(), make_user()
    assert acknowledge(alert=alert, by=user)
    assert not acknowledge(alert=alert, by=user)
    assert Alert.objects.get().acknowledged_by == user
    assert AuditEntry.objects.filter(action="alert.acknowledge").count() == 1


@pytest.mark.django_db(transaction=True)
def test_any_number_of_evaluators_open_one_alert_and_tell_once(queue) -> None:
    kill(queue)

    def run(_: int) -> None:
        try:
            evaluate()
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(6)))
    assert Alert.objects.count() == 1
    assert Notification.objects.count() == 1


def test_a_queue_that_is_archived_is_not_watched(make_queue) -> None:
    queue = make_queue()
    kill(queue)
    queue.archived_at = "2026-11-30T00:00:00Z"
    queue.save()
    evaluate()
    assert not Alert.objects.exists()


def test_a_redrive_that_stopped_alerts_the_owner_until_its_cause_is_diagnosed_anew(queue) -> None:
    kill(queue)
    cluster = ErrorCluster.objects.get()
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="no handler", fix="deployed, they said")
    redrive = start_redrive(letters=of_cluster(cluster), by=None)
    advance_redrives()
    consume_once(queue)
    advance_redrives()
    evaluate()
    deliver_due()
    (told,) = [message for message in mail.outbox if "Redrive" in message.subject]
    assert f"Redrive {redrive.pk} in late-notices stopped: A letter of the canary died again" in told.subject
    assert f"/redrives/{redrive.pk}/" in told.body
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="no handler, really")
    evaluate()
    assert Alert.objects.get(rule="redrive").calm_since
    assert Alert.objects.get(rule="depth").calm_since is None
