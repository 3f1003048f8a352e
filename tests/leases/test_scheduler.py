"""Beat on as many nodes as you like."""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from celery import Celery
from django.db import DatabaseError, connection

from dlqadmin import tasks  # noqa: F401 - declares all jobs
from dlqadmin.celery import app as celery_app
from dlqadmin.clock import ClockTimestamp, db_now
from dlqadmin.leases import triggers
from dlqadmin.leases.jobs import all_jobs, find_job
from dlqadmin.leases.models import Heartbeat, TakeOver, Trigger
from dlqadmin.leases.models import Lease as LeaseRow
from dlqadmin.leases.scheduler import LEASE_SECONDS, LeaseScheduler
from dlqadmin.messages.publish import publish
from dlqadmin.queues.models import SourceQueue
from tests.acceptance.processes import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


class Clock:
    """A node's steady clock, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def sent(monkeypatch) -> list[tuple[int, str]]:
    """What was handed to Celery."""
    handed: list[tuple[int, str]] = []
    monkeypatch.setattr(Celery, "send_task", lambda app, name, args, **options: handed.append(tuple(args)))
    return handed


@pytest.fixture
def beat(sent):
    """Make a node with its own clock."""

    def make(name: str = "a", clock: Callable[[], float] | None = None) -> LeaseScheduler:
        scheduler = LeaseScheduler(app=celery_app)
        scheduler.node = scheduler.lead.node = f"beat@{name}"
        scheduler.lead.monotonic = clock or Clock()
        return scheduler

    return make


def test_one_node_leads_and_the_other_stands_by(beat) -> None:
    one, other = beat("a"), beat("b")
    one.tick()
    other.tick()
    assert (one.lead.leads, other.lead.leads) == (True, False)
    assert {row.node for row in Heartbeat.objects.all()} == {"beat@a", "beat@b"}


@pytest.fixture
def always_work(monkeypatch) -> None:
    """Every job's condition holds."""
    monkeypatch.setattr(triggers, "with_work", list)


def test_the_leader_makes_a_trigger_for_every_job_and_hands_it_out_once(beat, sent, always_work) -> None:
    clock = Clock()
    node = beat("a", clock)
    node.tick()
    assert not Trigger.objects.exists()  # nothing was missed before the first leader
    clock.seconds += 1
    node.lead.renew()
    Trigger.objects.all().delete()
    node.after = {job.name: node.lead.database_now() - timedelta(hours=2) for job in all_jobs()}
    node.tick()
    assert set(Trigger.objects.values_list("job", flat=True)) == {job.name for job in all_jobs()}
    assert sorted(name for _, name in sent) == sorted(job.name for job in all_jobs())
    assert all(row.missed > 0 for row in Trigger.objects.exclude(job="leases.prune"))


def test_a_job_without_work_gets_no_trigger_and_one_with_work_does(beat, sent, queue) -> None:
    node = beat("a")
    node.tick()

    def due() -> list[str]:
        node.after = {job.name: node.lead.database_now() - timedelta(seconds=30) for job in all_jobs()}
        sent.clear()
        node.tick()
        return [name for _, name in sent if (job := find_job(name)) and job.when]

    assert due() == []
    publish(queue, type="note", body={})
    SourceQueue.objects.update(wake_pending_until=None)  # its wake-up was lost
    assert set(due()) == {"consumers.sweep", "queues.fold_books"}


def test_a_new_leader_counts_no_moment_of_an_idle_job_as_missed(beat, sent, queue) -> None:
    beat("a").tick()
    Trigger.objects.create(job="consumers.sweep", due_at=db_now() - timedelta(hours=5), state="done", token=1)
    LeaseRow.objects.update(until=ClockTimestamp())
    publish(queue, type="note", body={})
    SourceQueue.objects.update(wake_pending_until=None)
    second = beat("b", time.monotonic)
    wait_for(lambda: second.tick() and "consumers.sweep" in [name for *_, name in sent], "the sweep", 10)
    assert Trigger.objects.filter(job="consumers.sweep", state="due").get().missed <= 1


def test_what_was_not_started_is_issued_again_after_a_take_over(beat, sent, always_work) -> None:
    first = beat("a")
    first.tick()
    first.after = {"queues.fold_books": first.lead.database_now() - timedelta(seconds=30)}
    first.tick()
    waiting = {trigger for trigger, _ in sent}
    assert waiting
    sent.clear()
    first.close()
    second = beat("b")
    second.tick()
    assert waiting <= {trigger for trigger, _ in sent}


def test_a_closing_node_hands_over_at_once(beat) -> None:
    one, other = beat("a"), beat("b")
    one.tick()
    one.close()
    other.tick()
    assert other.lead.leads
    assert TakeOver.objects.get(token=2).released
    assert [row.node for row in Heartbeat.objects.all()] == ["beat@b"]


def test_a_node_that_was_frozen_past_its_lease_stands_by_again(beat) -> None:
    clock = Clock()
    frozen, other = beat("a", clock), beat("b")
    frozen.tick()
    LeaseRow.objects.update(until=ClockTimestamp())
    other.tick()
    clock.seconds += LEASE_SECONDS + 1
    frozen.tick()
    assert (frozen.lead.leads, other.lead.leads) == (False, True)


def test_a_database_that_is_away_is_tried_again(beat, monkeypatch, caplog) -> None:
    node = beat()

    def away(*args: object) -> None:
        raise DatabaseError("away")

    with monkeypatch.context() as patch:
        patch.setattr("dlqadmin.leases.heartbeat.beat", away)
        assert node.tick() > 0
    assert "away" in caplog.text
    node.tick()
    assert node.lead.leads


def test_a_broker_that_is_away_loses_no_run(beat, monkeypatch, always_work) -> None:
    node = beat()
    node.tick()
    node.after = {"queues.fold_books": node.lead.database_now() - timedelta(seconds=30)}

    def refuse(*args: object, **options: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(Celery, "send_task", refuse)
    node.tick()
    assert Trigger.objects.filter(job="queues.fold_books", state="due").exists()


@pytest.mark.parametrize("leading", [True, False])
def test_a_node_asks_at_most_two_queries_a_second_and_takes_no_advisory_lock(beat, leading) -> None:
    """Of 1,000 idle queues: no job has work, so these queries are all that an idle system asks, but for heartbeats."""
    SourceQueue.objects.bulk_create(SourceQueue(name=f"idle-{n}") for n in range(1000))
    clock = Clock()
    if not leading:
        beat("leader").tick()
    node = beat("a", clock)
    node.tick()
    asked: list[str] = []

    def count(execute, sql, params, many, context):
        asked.append(sql)
        return execute(sql, params, many, context)

    seconds, end = 30.0, clock.seconds + 30.0
    with connection.execute_wrapper(count):
        while clock.seconds < end:
            clock.seconds += node.tick()
    assert len(asked) <= 2 * seconds, len(asked) / seconds
    assert not any("advisory" in sql for sql in asked)
    assert not Trigger.objects.filter(job__in=[job.name for job in all_jobs() if job.when]).exists()
