"""The page "System"."""

import socket
import time
from datetime import UTC, datetime, timedelta

import pytest
from celery import Celery

from dlqadmin.brokers import reach
from dlqadmin.clock import ClockTimestamp, db_now
from dlqadmin.leases import heartbeat
from dlqadmin.leases.lease import Lease
from dlqadmin.leases.models import FencedWrite, Heartbeat, TakeOver, Trigger
from dlqadmin.leases.models import Lease as LeaseRow
from dlqadmin.leases.status import read_status

NASTY = '<img src=x onerror="alert(1)">'


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch) -> None:
    """No answer about the broker is kept from another test."""
    monkeypatch.setattr(reach, "_kept", None)
    monkeypatch.setattr(reach, "_asking", None)


@pytest.fixture
def page(signed_in):
    """The page's text for somebody without any role."""
    client = signed_in(None)
    return lambda: client.get("/system/").text


@pytest.fixture
def healthy(db) -> Lease:
    """A leader and a worker for each Celery queue."""
    lease = Lease("beat", "beat@a:1", 60)
    lease.acquire()
    heartbeat.beat("beat@a:1", "beat")
    heartbeat.beat("consumers@a:2", "consumers")
    heartbeat.beat("system@a:3", "system")
    return lease


def trigger(job: str = "alerts.evaluate", late: float = 0.1, **values) -> None:
    due = db_now() - timedelta(minutes=1)
    values = {"state": "done", "started_at": due + timedelta(seconds=late), "token": 1} | values
    Trigger.objects.create(job=job, due_at=due, **values)


def test_with_a_leader_and_workers_the_system_is_healthy(page, healthy) -> None:
    heartbeat.beat("beat@b:9", "beat")
    text = page()
    assert "System is healthy" in text
    assert "2 workers are alive" in text
    assert "beat@a:1" in text
    assert [node.node for node in read_status().standing_by] == ["beat@b:9"]


def test_a_new_installation_says_what_to_start(page) -> None:
    text = page()
    assert "Nobody leads: start beat" in text
    assert "No consumer is alive" in text
    assert "start the workers and beat" in text


def test_a_lease_that_ran_out_is_no_leader(page, healthy) -> None:
    LeaseRow.objects.update(until=ClockTimestamp())
    assert "Nobody leads" in page()


def test_a_process_that_was_not_heard_of_is_gone(page, healthy) -> None:
    Heartbeat.objects.filter(role="system").update(seen_at=ClockTimestamp() - timedelta(seconds=20))
    text = page()
    assert "No system worker is alive" in text
    assert "Gone" in text


def test_late_skipped_failed_and_fenced_are_counted(page, healthy) -> None:
    trigger("alerts.evaluate", late=7)
    trigger("consumers.sweep", missed=3)
    trigger("queues.fold_books", state="skipped", missed=9, started_at=None)
    trigger("redrive.advance", state="failed", error_text="LookupError")
    FencedWrite.objects.create(what="alerts.evaluate", token=1, current=2, node="n")
    status = read_status()
    assert (status.late, status.skipped, status.failed, status.fenced) == (1, 3 + 10, 1, 1)
    text = page()
    assert "1 run failed in 24 h" in text
    assert "LookupError" in text
    assert "stands for 3 missed moments too" in text


def test_what_is_older_than_a_day_is_not_counted(healthy) -> None:
    Trigger.objects.create(
        job="alerts.evaluate", due_at=datetime(2020, 1, 1, tzinfo=UTC), state="failed", token=1
    )
    assert read_status().failed == 0


def test_names_from_outside_are_shown_as_text(page, healthy) -> None:
    heartbeat.beat(NASTY, NASTY)
    FencedWrite.objects.create(what=NASTY, token=1, current=None, node=NASTY)
    healthy.release()
    Lease("beat", NASTY, 60).acquire()
    trigger(state="failed", error_text=NASTY)
    text = page()
    assert NASTY not in text
    assert "&lt;img src=x" in text


def test_a_broker_that_is_away_is_said_without_its_password(page, healthy, monkeypatch) -> None:
    away = Celery("away", broker="redis://user:hunter2@127.0.0.1:1/0", set_as_current=False)
    monkeypatch.setattr(reach, "current_app", away)
    found = reach.reach_broker()
    assert found == reach.Reach("redis, 127.0.0.1", reached=False)
    text = page()
    assert "The broker does not answer" in text
    assert "hunter2" not in text


def test_the_database_as_broker_is_reached(healthy, monkeypatch) -> None:
    assert reach.reach_broker() == reach.Reach("PostgreSQL (pgmq)", reached=True)


def test_the_number_of_queries_does_not_depend_on_the_rows(
    page, healthy, django_assert_max_num_queries
) -> None:
    for number in range(30):
        heartbeat.beat(f"n{number}", "consumers")
        FencedWrite.objects.create(what="x", token=1, current=2, node="n")
    page()
    with django_assert_max_num_queries(14):
        page()


def test_a_job_that_does_not_start_is_no_healthy_system(page, healthy) -> None:
    Trigger.objects.create(
        job="alerts.evaluate", due_at=db_now() - timedelta(minutes=30), state="due", token=1
    )
    text = page()
    assert "Jobs that do not start: alerts.evaluate" in text
    assert read_status().late == 1


def test_a_run_whose_time_is_over_is_shown_as_dead(page, healthy) -> None:
    trigger(state="started", claimed_until=db_now() - timedelta(minutes=20))
    assert "Died, starts again" in page()


def test_a_time_without_leader_is_shown_in_seconds(page, healthy) -> None:
    TakeOver.objects.create(
        name="beat",
        token=2,
        holder="b",
        previous="a",
        released=False,
        free_since=db_now(),
        at=db_now() + timedelta(seconds=9),
    )
    assert "9.0\xa0s" in page().replace("&nbsp;", "\xa0")


def test_a_worker_with_many_queues_is_alive_too(healthy) -> None:
    heartbeat.beat("w", ", ".join(f"a-rather-long-queue-name-{n}" for n in range(9)))
    assert len(read_status().workers) == 3


def test_a_broker_that_takes_a_connection_and_never_answers_does_not_hold_up_the_page(monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = Celery("silent", broker=f"redis://127.0.0.1:{silent.getsockname()[1]}/0", set_as_current=False)
        monkeypatch.setattr(reach, "current_app", away)
        monkeypatch.setattr(reach, "SECONDS", 1)
        began = time.monotonic()
        assert not reach.reach_broker().reached
        assert time.monotonic() - began < 3


def test_a_broker_whose_library_is_missing_is_not_reached(monkeypatch) -> None:
    monkeypatch.setattr(reach, "current_app", Celery("sqs", broker="sqs://", set_as_current=False))
    assert reach.reach_broker() == reach.Reach("sqs, localhost", reached=False)


def test_a_late_consumer_is_named_to_the_team_of_its_queue_only(signed_in, healthy, queue) -> None:
    FencedWrite.objects.create(what=f"consumer of {queue}", token=12, current=None, node="n")
    FencedWrite.objects.create(what="consumer of gone", token=13, current=None, node="n")
    FencedWrite.objects.create(what="alerts.evaluate", token=3, current=4, node="n")
    FencedWrite.objects.create(what="old", token=1, current=2, node="n")
    FencedWrite.objects.filter(what="old").update(at=ClockTimestamp() - timedelta(days=2))

    def fenced(role: str | None) -> str:
        text = " ".join(signed_in(role).get("/system/").text.split())
        return text.partition('<section id="fenced"')[2].partition("</section>")[0]

    member, stranger, admin = fenced("viewer"), fenced(None), fenced("admin")
    assert 'href="/queues/late-notices/">late-notices</a>' in member
    assert "late-notices" not in stranger
    assert stranger.count("consumer of another team") == 2
    assert "consumer of gone" in admin
    assert "gone" not in member
    for text in ("3 in 24 h", "its messages are run again", "not valid any more", "valid was 4"):
        assert text in stranger


def test_an_old_trigger_of_a_job_without_work_is_explained(page, healthy) -> None:
    trigger(job="alerts.deliver")
    trigger(job="messages.prune")
    text = page()
    assert text.count("when there is work") == 1
