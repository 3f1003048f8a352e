"""A redrive sends its canary, waits, sends the rest in its bounds, stops when letters die again, and adds up."""

from typing import Any

import pytest
from django.db import connection

from dlqadmin.clock import db_now
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.messages.models import Message
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.people.models import AuditEntry
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive import run, send
from dlqadmin.redrive.audit import audit_books
from dlqadmin.redrive.control import NotNow, approve, cancel, pause, resume
from dlqadmin.redrive.diagnose import current_diagnosis, sign_diagnosis
from dlqadmin.redrive.figures import NO_WORKER, PAUSED
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.plan import Counted, plan_redrive, resolve_without_sending
from dlqadmin.redrive.run import advance_redrives, count_outcomes
from dlqadmin.redrive.start import BadOptions, GateClosed, Options, start_redrive

pytestmark = pytest.mark.django_db(transaction=True)


class Work:
    """A handler that fails for bodies in `bad`, or for all."""

    def __init__(self) -> None:
        self.all_bad = True
        self.bad: set[int] = set()
        self.error = "member not found"
        self.done: list[int] = []

    def __call__(self, message: Any) -> None:
        number = message.data["n"]
        if self.all_bad or number in self.bad:
            raise LookupError(self.error)
        self.done.append(number)


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def make_dead(make_queue: Any, handle: Any, work: Work) -> Any:
    """A diagnosed cluster with so many letters, in a queue where a message dies at its first failure."""

    def make(number: int, types: tuple[str, ...] = ("note",), **policy: Any) -> ErrorCluster:
        queue = make_queue("orders", **({"max_attempts": 1} | policy))
        for kind in types:
            handle(queue, work, type=kind)
        publish_many(
            queue,
            [Outgoing(type=types[n % len(types)], body={"n": n}, key=f"k{n % 3}") for n in range(number)],
        )
        drain(queue)
        cluster = ErrorCluster.objects.get(queue=queue)
        sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="missing", fix="added")
        work.all_bad = False
        return cluster

    return make


def drain(queue: SourceQueue) -> None:
    while consume_once(queue).outcomes:
        pass


def turn(redrive: Redrive) -> Redrive:
    """Consume what was sent, then let the job run; the redrive as it is then."""
    drain(redrive.queue)
    advance_redrives()
    redrive.refresh_from_db()
    return redrive


def test_the_canary_goes_first_and_the_rest_when_it_has_succeeded(make_dead, work) -> None:
    redrive = start_redrive(letters=of_cluster(make_dead(10)), by=None)
    advance_redrives()
    assert Message.objects.count() == 1
    advance_redrives()
    assert Message.objects.count() == 1
    assert turn(redrive).state == "running"
    assert Message.objects.count() == 9
    assert turn(redrive).state == "done"
    assert sorted(work.done) == list(range(10))
    assert audit_books().differences == []


def test_there_is_one_canary_of_each_type_and_it_is_the_head_of_its_key(make_dead) -> None:
    redrive = start_redrive(letters=of_cluster(make_dead(12, ("note", "bill"))), by=None)
    canary = redrive.items.filter(is_canary=True).values_list("letter__type", "letter__position")
    positions = DeadLetter.objects.order_by("position").values_list("position", flat=True)
    assert {kind for kind, _ in canary} == {"note", "bill"}
    assert {position for _, position in canary} <= set(positions[:3])


def test_a_canary_that_dies_again_stops_it_and_refutes_the_diagnosis(make_dead, work) -> None:
    cluster = make_dead(10)
    work.all_bad = True
    redrive = start_redrive(letters=of_cluster(cluster), by=None)
    advance_redrives()
    assert turn(redrive).state == "stopped"
    assert count_outcomes(redrive) == {"died again": 1, "skipped": 9}
    assert redrive.items.get(outcome="died again").why == "the same error"
    assert DeadLetter.objects.open().count() == 10
    diagnosis = current_diagnosis(cluster)
    assert diagnosis.refuted_at is not None
    assert audit_books().differences == []
    with pytest.raises(GateClosed):
        start_redrive(letters=of_cluster(cluster), by=None)


def test_a_canary_that_dies_of_something_else_says_so(make_dead, work) -> None:
    cluster = make_dead(3)
    work.all_bad, work.error = True, "no room on the shelf"
    redrive = start_redrive(letters=of_cluster(cluster), by=None)
    advance_redrives()
    assert turn(redrive).state == "stopped"
    assert redrive.items.get(outcome="died again").why == "another error"


def test_a_canary_whose_first_attempt_fails_with_the_old_error_holds_it(make_dead, work) -> None:
    cluster = make_dead(5)
    SourceQueue.objects.update(max_attempts=3, backoff_base=3600.0)
    work.all_bad = True
    redrive = start_redrive(letters=of_cluster(cluster), by=None)
    advance_redrives()
    assert turn(redrive).state == "held"
    assert "failed again" in redrive.state_reason
    assert turn(redrive).state == "held"
    return_at_once()
    work.all_bad = False
    assert turn(redrive).state == "running"
    assert turn(redrive).state == "running"
    assert turn(redrive).state == "done"


def return_at_once() -> None:
    Message.objects.update(available_at=db_now())


def test_a_held_redrive_stops_when_its_canary_dies(make_dead, work) -> None:
    cluster = make_dead(5)
    SourceQueue.objects.update(max_attempts=3, backoff_base=3600.0)
    work.all_bad = True
    redrive = start_redrive(letters=of_cluster(cluster), by=None)
    advance_redrives()
    assert turn(redrive).state == "held"
    for _ in range(2):
        return_at_once()
        turn(redrive)
    assert redrive.state == "stopped"
    assert current_diagnosis(cluster).refuted_at is not None
    assert DeadLetter.objects.open().count() == 5


def test_no_more_are_on_their_way_than_the_window_allows(make_dead) -> None:
    redrive = start_redrive(letters=of_cluster(make_dead(10)), by=None, options=Options(canary=0, window=4))
    for expected in (4, 4, 2, 0):
        advance_redrives()
        advance_redrives()
        assert Message.objects.count() == expected
        drain(redrive.queue)
    redrive.refresh_from_db()
    assert redrive.state == "done"


def test_the_rate_is_kept_by_rows(make_dead) -> None:
    start_redrive(letters=of_cluster(make_dead(10)), by=None, options=Options(canary=0, rate=0.001))
    for _ in range(3):
        advance_redrives()
    assert Message.objects.count() == 1


def test_too_many_that_die_again_stop_it_and_what_was_not_sent_is_open(make_dead, work) -> None:
    cluster = make_dead(60)
    work.bad = {21, 22}
    redrive = start_redrive(letters=of_cluster(cluster), by=None, options=Options(canary=1, window=25))
    for _ in range(4):
        advance_redrives()
        turn(redrive)
    assert redrive.state == "stopped"
    found = count_outcomes(redrive)
    assert found["died again"] == 2
    assert found["skipped"] > 0
    assert found.total() == 60
    assert audit_books().differences == []


def test_few_that_die_again_do_not_stop_it_nor_refute_the_diagnosis(make_dead, work) -> None:
    cluster = make_dead(60)
    work.bad = {50}
    redrive = start_redrive(letters=of_cluster(cluster), by=None)
    for _ in range(3):
        advance_redrives()
        turn(redrive)
    assert redrive.state == "done"
    assert current_diagnosis(cluster).refuted_at is None


def test_it_is_paused_resumed_and_cancelled(make_dead, make_user) -> None:
    user = make_user()
    redrive = start_redrive(letters=of_cluster(make_dead(10)), by=user)
    pause(redrive=redrive, by=user)
    advance_redrives()
    assert not Message.objects.exists()
    with pytest.raises(NotNow, match="Paused"):
        pause(redrive=redrive, by=user)
    resume(redrive=redrive, by=user)
    advance_redrives()
    assert Message.objects.count() == 1
    cancel(redrive=redrive, by=user)
    assert count_outcomes(redrive) == {"sent": 1, "skipped": 9}
    assert turn(redrive).state == "cancelled"
    assert count_outcomes(redrive) == {"succeeded": 1, "skipped": 9}
    assert DeadLetter.objects.open().count() == 9
    assert audit_books().differences == []
    for change in (pause, resume, cancel):
        with pytest.raises(NotNow):
            change(redrive=redrive, by=user)
    assert {entry.action for entry in AuditEntry.objects.filter(object_type="redrive")} == {
        *("redrive.start", "redrive.pause", "redrive.resume", "redrive.cancel"),
    }


@pytest.mark.parametrize("paused", [True, False])
def test_silence_is_a_stall_with_its_reason_and_an_outcome_ends_it(make_dead, paused) -> None:
    redrive = start_redrive(letters=of_cluster(make_dead(5)), by=None)
    SourceQueue.objects.update(paused=paused)
    advance_redrives()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE dlqadmin_redriveitem SET sent_at = sent_at - interval '6 min' WHERE outcome = 'sent'"
        )
    advance_redrives()
    redrive.refresh_from_db()
    assert (redrive.state, redrive.state_reason) == ("stalled", PAUSED if paused else NO_WORKER)
    SourceQueue.objects.update(paused=False)
    assert turn(redrive).state == "running"
    assert redrive.state_reason == ""


def test_an_admin_overrides_the_gate_with_a_reason_that_stays(make_dead, make_user) -> None:
    cluster = make_dead(2)
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="not fixed")
    with pytest.raises(GateClosed):
        start_redrive(letters=of_cluster(cluster), by=make_user("admin"))
    redrive = start_redrive(
        letters=of_cluster(cluster), by=make_user("admin", name="boss"), override_reason="we must know"
    )
    assert redrive.override_reason == "we must know"
    entry = AuditEntry.objects.get(action="redrive.start")
    assert (entry.reason, entry.after["overridden"]) == ("we must know", ["fix declared"])
    advance_redrives()
    assert turn(redrive).state == "running"


def test_above_the_limit_a_second_person_approves(make_dead, make_user) -> None:
    cluster = make_dead(3, approval_above=2)
    signer, second = make_user(name="signer"), make_user(name="second")
    sign_diagnosis(cluster=cluster, by=signer, kind="permanent", cause="missing", fix="added")
    with pytest.raises(GateClosed, match="second person"):
        start_redrive(letters=of_cluster(cluster), by=signer)
    with pytest.raises(NotNow, match="second person"):
        approve(cluster=cluster, letters=3, by=signer)
    approve(cluster=cluster, letters=2, by=second)
    with pytest.raises(GateClosed):
        start_redrive(letters=of_cluster(cluster), by=signer)
    approve(cluster=cluster, letters=3, by=second)
    with pytest.raises(GateClosed):
        start_redrive(letters=of_cluster(cluster), by=second)
    assert start_redrive(letters=of_cluster(cluster), by=signer)


def test_the_plan_says_what_would_happen_and_the_cut_off_keeps_later_letters_out(make_dead, work) -> None:
    cluster = make_dead(4)
    plan = plan_redrive(of_cluster(cluster))
    assert (plan.all.open, plan.all.to_run, plan.keys, plan.types, plan.since) == (4, 4, 3, 1, 0)
    work.all_bad = True
    publish_many(cluster.queue, [Outgoing(type="note", body={"n": 99})])
    drain(cluster.queue)
    assert plan_redrive(of_cluster(cluster).up_to(plan.cutoff)).since == 1
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="missing", fix="added")
    redrive = start_redrive(letters=of_cluster(cluster).up_to(plan.cutoff), by=None)
    assert redrive.items.count() == 4
    assert DeadLetter.objects.open().count() == 1


def test_letters_that_a_consumer_would_drop_are_left_out(make_queue, handle, work) -> None:
    queue = make_queue("latest", max_attempts=1, idempotency="latest")
    handle(queue, work)
    publish_many(queue, [Outgoing(type="note", body={"n": n}, key="k", version=n + 1) for n in range(2)])
    drain(queue)
    work.all_bad = False
    publish_many(queue, [Outgoing(type="note", body={"n": 2}, key="k", version=2)])
    drain(queue)
    cluster = ErrorCluster.objects.get()
    plan = plan_redrive(of_cluster(cluster))
    assert plan.all == Counted(open=2, duplicates=1, stale=1)
    assert resolve_without_sending(letters=of_cluster(cluster), by=None) == 2
    assert set(DeadLetter.objects.values_list("state", "resolution")) == {
        ("resolved", "duplicate"),
        ("resolved", "stale"),
    }
    assert audit_books().differences == []


@pytest.mark.parametrize(
    "options",
    [
        Options(canary=-1),
        Options(canary=1001),
        Options(window=0),
        Options(rate=0.0),
        Options(stop_percent=101),
    ],
)
def test_bad_options_are_refused_with_a_reason(make_dead, options) -> None:
    with pytest.raises(BadOptions):
        start_redrive(letters=of_cluster(make_dead(1)), by=None, options=options)


def test_it_goes_on_where_it_was_killed_and_sends_nothing_twice(make_dead, work, monkeypatch) -> None:
    monkeypatch.setattr(send, "BATCH", 3)
    redrive = start_redrive(
        letters=of_cluster(make_dead(20)), by=None, options=Options(canary=0, window=None)
    )
    sending, calls = send.send_batch, []

    def killed(*arguments: Any) -> int:
        sent = sending(*arguments)
        calls.append(sent)
        if len(calls) % 2:
            raise KeyboardInterrupt
        return sent

    monkeypatch.setattr(run, "send_batch", killed)
    while Redrive.objects.get().items.filter(outcome="pending").exists():
        with pytest.raises(KeyboardInterrupt):
            advance_redrives()
    monkeypatch.setattr(run, "send_batch", sending)
    assert turn(redrive).state == "done"
    assert sorted(work.done) == list(range(20))
    assert audit_books().differences == []
