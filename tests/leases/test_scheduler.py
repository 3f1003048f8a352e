"""Beat on as many nodes as you like."""

from datetime import timedelta

import pytest
from celery import Celery
from django.db import DatabaseError, connection

from dlqadmin import tasks  # noqa: F401 - declares all jobs
from dlqadmin.celery import app as celery_app
from dlqadmin.clock import ClockTimestamp
from dlqadmin.leases.jobs import all_jobs
from dlqadmin.leases.models import Heartbeat, TakeOver, Trigger
from dlqadmin.leases.models import Lease as LeaseRow
from dlqadmin.leases.scheduler import LEASE_SECONDS, LeaseScheduler

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

    def make(name: str = "a", clock: Clock | None = None) -> LeaseScheduler:
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


def test_the_leader_makes_a_trigger_for_every_job_and_hands_it_out_once(beat, sent) -> None:
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


def test_what_was_not_started_is_issued_again_after_a_take_over(beat, sent) -> None:
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


def test_a_broker_that_is_away_loses_no_run(beat, monkeypatch) -> None:
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
