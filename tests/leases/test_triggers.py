"""Triggers and the runs of jobs."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.db import OperationalError, connection

from dlqadmin import tasks  # noqa: F401 - declares all jobs
from dlqadmin.clusters.assign import assign
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.parts import split_part
from dlqadmin.leases import triggers
from dlqadmin.leases.jobs import Job, all_jobs, job
from dlqadmin.leases.lease import FencedOut, Lease
from dlqadmin.leases.models import FencedWrite, Trigger
from dlqadmin.leases.prune import prune
from dlqadmin.leases.run import as_run, current_run, execute, guarded
from dlqadmin.leases.schedule import Every
from dlqadmin.leases.tasks import run_trigger
from dlqadmin.leases.triggers import NewTrigger, Run
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.people.models import Owner
from dlqadmin.redrive.models import Redrive

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def nothing() -> None:
    """A job."""


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def a_job(function=nothing, catch_up="once", limit=60.0) -> Job:
    return Job("test.job", function, Every(1), catch_up, limit)


@pytest.fixture
def lead(transactional_db) -> Lease:
    lease = Lease("beat", "leader", 60)
    lease.acquire()
    return lease


@pytest.fixture
def declared(monkeypatch):
    """Declare a job for the duration of the test."""

    def declare(function, **options) -> Job:
        made = a_job(function, **options)
        monkeypatch.setitem(__import__("dlqadmin.leases.jobs", fromlist=["_jobs"])._jobs, made.name, made)
        return made

    return declare


def one_trigger(lead: Lease, seconds: float = 0, name: str = "test.job") -> int:
    return triggers.make(lead, [NewTrigger(name, at(seconds))])[0][0]


class TestPlan:
    def test_one_run_stands_for_all_missed_moments_by_default(self) -> None:
        assert triggers.plan(a_job(), NOON, at(10)) == [
            NewTrigger("test.job", at(10), missed=9, missed_from=at(1)),
        ]

    def test_every_missed_moment_can_have_its_run(self) -> None:
        planned = triggers.plan(a_job(catch_up="all"), NOON, at(3))
        assert planned == [NewTrigger("test.job", at(n)) for n in (1, 2, 3)]

    def test_at_most_a_hundred_and_the_rest_is_one_skipped_range(self) -> None:
        planned = triggers.plan(a_job(catch_up="all"), NOON, at(1000))
        assert len(planned) == 101
        skipped = planned[0]
        assert (skipped.state, skipped.due_at, skipped.missed_from) == ("skipped", at(900), at(1))
        assert skipped.missed + 1 == 900

    def test_nothing_due_is_nothing_planned(self) -> None:
        assert triggers.plan(a_job(), NOON, at(0.5)) == []


class TestMake:
    def test_a_moment_has_one_trigger_whoever_makes_it(self, lead) -> None:
        new = [NewTrigger("test.job", at(1))]
        assert [name for _, name in triggers.make(lead, new)] == ["test.job"]
        assert triggers.make(lead, new) == []
        assert Trigger.objects.get().token == lead.token

    def test_a_late_leader_makes_none(self, lead) -> None:
        other = Lease("beat", "other", 60)
        lead.release()
        other.acquire()
        lead.token = 1
        with pytest.raises(FencedOut):
            one_trigger(lead)
        assert not Trigger.objects.exists()
        assert FencedWrite.objects.get().what == "triggers of test.job"

    def test_the_next_leader_knows_where_to_go_on(self, lead) -> None:
        one_trigger(lead, 1)
        one_trigger(lead, 5)
        assert triggers.last_due(["test.job", "unheard"]) == {"test.job": at(5)}


class TestRun:
    def test_a_trigger_runs_once(self, lead, declared) -> None:
        ran = []
        declared(lambda: ran.append(current_run()))
        trigger = one_trigger(lead)
        assert execute(trigger, "test.job", "n1")
        assert not execute(trigger, "test.job", "n2")
        assert len(ran) == 1
        row = Trigger.objects.get()
        assert (row.state, row.node, row.run_token) == ("done", "n1", 1)
        assert row.started_at
        assert row.finished_at

    def test_a_job_runs_for_one_trigger_at_a_time(self, lead) -> None:
        first, second = one_trigger(lead, 1), one_trigger(lead, 2)
        running = triggers.start(first, a_job(), "n1")
        assert running
        assert triggers.start(second, a_job(), "n2") is None
        triggers.finish(running)
        assert triggers.start(second, a_job(), "n2")

    def test_a_run_that_failed_says_with_what_and_is_not_repeated(self, lead, declared) -> None:
        def fail() -> None:
            raise LookupError("secret")

        declared(fail)
        trigger = one_trigger(lead)
        with pytest.raises(LookupError):
            execute(trigger, "test.job", "n1")
        row = Trigger.objects.get()
        assert (row.state, row.error_text) == ("failed", "LookupError")
        assert triggers.pending() == []

    def test_a_run_that_died_is_pending_again_once_its_time_is_over(self, lead) -> None:
        trigger = one_trigger(lead)
        assert triggers.pending() == [(trigger, "test.job")]
        triggers.start(trigger, a_job(limit=60), "n1")
        assert triggers.pending() == []
        Trigger.objects.update(claimed_until=NOON)
        assert triggers.pending() == [(trigger, "test.job")]
        again = triggers.start(trigger, a_job(), "n2")
        assert again
        assert again.token == 2

    def test_a_run_that_was_given_to_another_node_commits_nothing_more(self, lead, declared) -> None:
        def slow() -> None:
            with guarded():
                Owner.objects.create(name="before", slug="before")
            Trigger.objects.update(claimed_until=NOON)
            assert triggers.start(
                trigger, a_job(), "n2"
            )  # this node was frozen, and another one started the run again
            with guarded():
                Owner.objects.create(name="after", slug="after")

        declared(slow)
        trigger = one_trigger(lead)
        assert not execute(trigger, "test.job", "n1")
        assert [owner.name for owner in Owner.objects.all()] == ["before"]
        fenced = FencedWrite.objects.get()
        assert (fenced.what, fenced.token, fenced.current, fenced.node) == ("test.job", 1, 2, "n1")
        assert Trigger.objects.get().state == "started"  # the other node's run is not disturbed

    def test_the_end_of_a_run_that_was_given_away_is_fenced_too(self, lead, declared) -> None:
        def slow() -> None:
            Trigger.objects.update(claimed_until=NOON)
            triggers.start(trigger, a_job(), "n2")

        declared(slow)
        trigger = one_trigger(lead)
        assert not execute(trigger, "test.job", "n1")
        assert FencedWrite.objects.get().what == "end of test.job"

    def test_a_job_that_this_version_does_not_know_is_left_for_another(self, lead) -> None:
        trigger = one_trigger(lead, name="from.the.future")
        assert not execute(trigger, "from.the.future", "n1")
        assert Trigger.objects.get().state == "due"

    def test_outside_a_run_guarded_is_an_ordinary_transaction(self, db) -> None:
        with guarded():
            Owner.objects.create(name="x", slug="x")
        assert Owner.objects.exists()


WRITES = ("INSERT", "UPDATE", "DELETE", "WITH")


@pytest.fixture
def work_for_all_jobs(queue, make_queue, handle) -> None:
    """Something to do for every job: open letters, a cluster that is split and one that is outdated, due messages, a
    running redrive, the queues of the demo."""
    handle(queue, lambda message: 1 / 0)
    publish_many(queue, [Outgoing(type="note", body={}) for _ in range(3)])
    for _ in range(3):
        consume_once(queue)
    publish_many(queue, [Outgoing(type="note", body={})])
    Redrive.objects.create(queue=queue, state="running", created_name="someone")
    for name in ("loans", "invoices", "search-index"):
        make_queue(name)
    split_part(leaf=ErrorCluster.objects.get(), by=None, pattern="zero")
    assign(queue_id=queue.pk, error_class="", error_text="of an older version")
    ErrorCluster.objects.filter(sample_text="of an older version").update(fingerprint_version=1)


@pytest.mark.parametrize("job", all_jobs(), ids=lambda job: job.name)
def test_no_job_writes_outside_a_guarded_transaction(job, lead, work_for_all_jobs) -> None:
    """Every write of a job stands in a transaction that has compared the run's token before."""
    unguarded, compared = [], False

    def watch(execute_it, sql, params, many, context):
        nonlocal compared
        if not connection.in_atomic_block:
            compared = False
        if "FROM dlqadmin_trigger" in sql and "FOR SHARE" in sql:
            compared = True
        elif sql.lstrip().startswith(WRITES) and not (connection.in_atomic_block and compared):
            unguarded.append(sql)
        return execute_it(sql, params, many, context)

    run = triggers.start(one_trigger(lead, name=job.name), a_job(), "n1")
    assert run
    with as_run(run), connection.execute_wrapper(watch):
        job.function()
    assert unguarded == []


@pytest.mark.parametrize("job", all_jobs(), ids=lambda job: job.name)
def test_a_job_whose_run_was_given_away_is_fenced_out(job, lead, work_for_all_jobs) -> None:
    run = triggers.start(one_trigger(lead, name=job.name), a_job(), "n1")
    assert run
    with as_run(Run(run.trigger, run.job, run.token - 1, run.node)), pytest.raises(FencedOut):
        job.function()


def test_old_triggers_are_pruned_but_the_newest_of_a_job_stays(lead) -> None:
    for seconds in (0, 1):
        run = triggers.start(one_trigger(lead, seconds - 20 * 86_400), a_job(), "n1")
        assert run
        triggers.finish(run)
    prune()
    assert [row.due_at for row in Trigger.objects.all()] == [at(1 - 20 * 86_400)]


@pytest.mark.parametrize("wrong", [{}, {"every": 1, "cron": "* * * * *"}])
def test_a_job_has_exactly_one_schedule(wrong) -> None:
    with pytest.raises(ValueError, match="either"):
        job("test.wrong", **wrong)


def test_what_waited_for_the_end_of_a_run_is_run_right_after_it(lead, declared) -> None:
    ran = []
    declared(lambda: ran.append(current_run().trigger))
    made = [one_trigger(lead, seconds) for seconds in range(4)]
    run_trigger(made[1], "test.job")
    assert ran == [made[1], made[0], made[2], made[3]]
    assert triggers.pending() == []


def test_a_worker_that_dies_right_after_the_last_commit_of_a_job_does_not_make_it_run_twice(
    lead, declared
) -> None:
    def once() -> None:
        with guarded(last=True):
            Owner.objects.create(name="effect", slug="effect")
        raise SystemExit  # the worker is gone before it can say that the run is done

    declared(once)
    trigger = one_trigger(lead)
    with pytest.raises(SystemExit):
        execute(trigger, "test.job", "n1")
    Trigger.objects.update(claimed_until=NOON)
    assert triggers.pending() == []
    assert Trigger.objects.get().state == "done"


@pytest.mark.parametrize("code", ["57P01", "25P03", "08006", None])
def test_a_run_whose_database_session_was_ended_died_and_is_started_again(lead, declared, code) -> None:
    def restarted() -> None:
        cause = psycopg.OperationalError("gone")
        cause.sqlstate = code
        raise OperationalError("gone") from cause

    declared(restarted)
    trigger = one_trigger(lead)
    with pytest.raises(OperationalError):
        execute(trigger, "test.job", "n1")
    Trigger.objects.update(claimed_until=NOON)
    assert triggers.pending() == [(trigger, "test.job")]
