"""Pausing a queue and letting it go on."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dlqadmin.consumers.tasks import consume
from dlqadmin.messages import wakeups
from dlqadmin.messages.models import Message
from dlqadmin.messages.pause import pause_of, pause_queue, resume_queue
from dlqadmin.messages.publish import publish
from dlqadmin.people.models import AuditEntry
from dlqadmin.queues.models import SourceQueue
from tests.web.test_pages import NASTY


@pytest.fixture
def woken(monkeypatch: Any) -> list[int]:
    """The queues whose consumers were woken."""
    found: list[int] = []
    monkeypatch.setattr(wakeups, "send_wakeup", lambda queue_id, celery_queue: found.append(queue_id))
    return found


def test_a_paused_queue_runs_nothing_and_loses_nothing(
    queue: SourceQueue, make_user: Any, handle: Any
) -> None:
    done: list[Any] = []
    handle(queue, done.append)
    assert pause_queue(queue=queue, by=make_user("operator"), reason="the mail server moves")
    publish(queue, type="note", body={})
    consume(queue.pk)
    assert (len(done), Message.objects.count()) == (0, 1)
    assert resume_queue(queue=queue, by=None)
    consume(queue.pk)
    assert (len(done), Message.objects.count()) == (1, 0)


def test_resuming_wakes_the_consumers_when_it_is_committed(
    queue: SourceQueue, woken: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        pause_queue(queue=queue, by=None)
    assert woken == []
    with django_capture_on_commit_callbacks(execute=True):
        resume_queue(queue=queue, by=None)
    assert woken == [queue.pk]


def test_what_is_so_already_leaves_no_trace(queue: SourceQueue, make_user: Any, woken: list[int]) -> None:
    one, other = make_user("operator", name="one"), make_user("operator", name="other")
    stale = SourceQueue.objects.get(pk=queue.pk)
    assert not resume_queue(queue=queue, by=one)
    assert pause_queue(queue=queue, by=one, reason="first")
    assert not pause_queue(queue=stale, by=other, reason="second")
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.reason) == ("one", "queue.pause", "first")
    assert (entry.before, entry.after) == ({"paused": False}, {"paused": True})


@pytest.mark.parametrize("values", [{"kind": "rabbitmq"}, {"archived_at": "2026-01-01T00:00Z"}])
def test_only_a_native_queue_in_use_can_be_paused(
    values: dict[str, str], make_queue: Any, signed_in: Any
) -> None:
    queue = make_queue(**values)
    assert not pause_queue(queue=queue, by=None)
    assert signed_in("admin").post(reverse("queue-pause", args=[queue.name])).status_code == 404
    assert not AuditEntry.objects.exists()


def test_who_paused_it_is_read_from_the_audit_trail(queue: SourceQueue, make_user: Any) -> None:
    assert pause_of(queue) is None
    pause_queue(queue=queue, by=make_user("operator"), reason="why")
    assert getattr(pause_of(queue), "reason", None) == "why"
    resume_queue(queue=queue, by=None)
    SourceQueue.objects.update(paused=True)  # by somebody at a prompt
    queue.refresh_from_db()
    assert pause_of(queue) is None


def test_with_links_and_forms_alone(queue: SourceQueue, signed_in: Any) -> None:
    client, page = signed_in("operator"), reverse("queue", args=[queue.name])
    publish(queue, type="note", body={})
    assert f'href="{page}pause/"' in client.get(page).text
    assert "1 waiting" in client.get(page + "pause/").text
    assert client.post(page + "pause/", {"reason": "the mail server moves"})["Location"] == page
    shown = client.get(page).text
    assert "Paused by operator" in shown
    assert ": the mail server moves" in shown
    assert f'<form id="resume" method="post" action="{page}resume/">' in shown
    assert 'form="resume"' in shown.partition('id="live"')[2]
    assert "<form" not in client.get(page, headers={"HX-Request": "true"}).text
    assert client.get(page + "pause/")["Location"] == page
    assert client.post(page + "resume/")["Location"] == page
    assert "Paused" not in client.get(page).text


def test_the_overview_and_the_sidebar_show_it(queue: SourceQueue, signed_in: Any) -> None:
    client = signed_in("viewer")
    assert "paused" not in client.get("/").text
    pause_queue(queue=queue, by=None)
    sidebar, _, overview = client.get("/").text.partition("<main")
    assert '<span class="vh">paused</span>' in sidebar
    assert "paused</span>" in overview


def test_a_viewer_sees_buttons_that_are_not_for_him(queue: SourceQueue, signed_in: Any) -> None:
    client, page = signed_in("viewer"), reverse("queue", args=[queue.name])
    assert "pause/" not in client.get(page).text
    assert 'disabled title="It takes the role operator' in client.get(page).text
    pause_queue(queue=queue, by=None)
    assert 'form="resume" disabled' in client.get(page).text


def test_a_reason_is_shown_as_text_and_may_not_be_endless(queue: SourceQueue, signed_in: Any) -> None:
    client, page = signed_in("operator"), reverse("queue", args=[queue.name])
    assert client.post(page + "pause/", {"reason": "x" * 1001}).status_code == 422
    client.post(page + "pause/", {"reason": NASTY.replace("\0", "")})
    for address in (page, page + "settings/"):
        shown = client.get(address).text
        assert "&lt;script&gt;" in shown
        assert "<script>" not in shown


@pytest.mark.parametrize("what", ["pause", "resume"])
def test_both_need_the_token_of_a_form(what: str, queue: SourceQueue, make_user: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))
    assert client.post(reverse(f"queue-{what}", args=[queue.name])).status_code == 403
    assert not AuditEntry.objects.exists()
