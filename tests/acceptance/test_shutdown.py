"""How workers end, which queues they consume, and which workers may not consume at all."""

import signal
import subprocess
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from dlqadmin.leases.models import Heartbeat
from dlqadmin.messages.models import Attempt, Claim, Message
from dlqadmin.messages.publish import Outgoing, publish, publish_many
from dlqadmin.people.models import Owner
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.ledger import read_ledger
from tests.acceptance.processes import kill_all, running, wait_for
from tests.acceptance.workers import HANDLERS, state, worker

pytestmark = [pytest.mark.acceptance, pytest.mark.django_db(transaction=True)]


def publish_steps(queue: SourceQueue, numbers: range) -> None:
    """Publish messages that take a moment each."""
    publish_many(queue, [Outgoing(type="step", body={"n": n}) for n in numbers])


def processed() -> int:
    """How many messages have left their row."""
    return Owner.objects.filter(slug__startswith="step-").count()


def waits_untouched(queue: SourceQueue) -> bool:
    """Whether what is left of a queue waits as if nobody had ever claimed it."""
    touched = Message.objects.filter(queue=queue).exclude(attempts=0, lost=0, suspect=False, claim=None)
    return not touched.exists()


def test_a_worker_that_is_told_to_end_finishes_what_runs_and_leaves_the_rest_alone(tmp_path) -> None:
    held = [SourceQueue.objects.create(name=f"held-{n}") for n in range(2)]
    queue = SourceQueue.objects.create(name="steady")
    with worker(tmp_path, HANDLERS) as process:
        for one in held:
            publish(one, type="hold", body={})
        wait_for(lambda: Claim.objects.count() == 2, "both processes to be in a handler")
        publish_steps(queue, range(400))
        process.send_signal(signal.SIGTERM)
        wait_for(lambda: "Warm shutdown" in (tmp_path / "log").read_text(), "the shutdown to begin")
        assert process.poll() is None
        Owner.objects.create(name="Go", slug="go")
        assert process.wait(timeout=30) == 0
    assert [state(one) for one in held] == [(1, 0, 0), (1, 0, 0)]
    # At most a turn of the other queue had been handed to the pool already.
    assert state(queue) == (processed(), 400 - processed(), 0)
    assert processed() < 400
    assert waits_untouched(queue)
    assert not Claim.objects.exists()


# Signals to a worker's main process. A second SIGTERM changes nothing; Celery's cold shutdown interrupts its children.
WAYS = [["QUIT"], ["INT", "INT"], ["TERM", "QUIT"], ["TERM", "TERM"]]
ANSWERS = {"INT": "Hitting Ctrl+C again", "TERM": "Warm shutdown"}
MESSAGES = 600


def test_however_a_worker_is_ended_everything_is_processed_once_and_only_single_claims_are_charged(
    tmp_path,
) -> None:
    queue = SourceQueue.objects.create(name="steady", max_attempts=2)
    publish_steps(queue, range(MESSAGES))
    for way in WAYS:
        folder, before = tmp_path / "-".join(way), processed()
        folder.mkdir()
        with worker(folder, HANDLERS) as process:
            wait_for(partial(more_than, before + 10), f"work before {way}")
            end(process, way, folder / "log")
        assert state(queue)[0] == processed(), f"effects and books differ after {way}"
        charged = Message.objects.filter(attempts__gt=0).exclude(claim__single=True)
        assert not charged.exists(), f"charged by {way}"
    assert processed() < MESSAGES, "nothing was left: it was not in the middle"
    with worker(tmp_path, HANDLERS):
        wait_for(lambda: state(queue) == (MESSAGES, 0, 0), "everything to be processed", seconds=120)
    assert processed() == MESSAGES
    assert read_ledger(queue.pk).difference == 0
    assert not Attempt.objects.exclude(outcome=Attempt.Outcome.LOST).exists(), "something ran twice"


def more_than(number: int) -> bool:
    """Whether more messages than this are processed."""
    return processed() > number


def end(process: subprocess.Popen[bytes], way: list[str], log: Path) -> None:
    """Send these signals, each when the one before was answered, and wait for the end."""
    for number, name in enumerate(way):
        if number:
            wait_for(lambda: ANSWERS[way[0]] in log.read_text(), f"an answer to {way[0]}")
        process.send_signal(signal.Signals[f"SIG{name}"])
    try:
        process.wait(timeout=30 if way[-1] == "TERM" else 10)
    except subprocess.TimeoutExpired:
        # A child that Celery ends hard may hold the lock of the pool's results, for which the others then wait for
        # ever (pgmq only). A process manager kills such a worker in the end.
        assert way[-1] != "TERM"
        kill_all(process)


# --- Which worker consumes what ---------------------------------------------------------------------------------------


def alive(role: str) -> bool:
    """Whether a worker of these Celery queues is ready."""
    return Heartbeat.objects.filter(role=role).exists()


def test_a_queue_is_consumed_by_the_workers_that_it_is_routed_to_and_paused_and_resumed_while_they_run(
    tmp_path,
) -> None:
    steady = SourceQueue.objects.create(name="steady")
    aside = SourceQueue.objects.create(name="aside", celery_queue="slow-ones")
    (tmp_path / "ordinary").mkdir()
    (tmp_path / "slow").mkdir()
    with ExitStack() as stack:
        ordinary = stack.enter_context(worker(tmp_path / "ordinary", HANDLERS))
        slow = stack.enter_context(worker(tmp_path / "slow", HANDLERS, queues="slow-ones", beat=False))
        publish_steps(steady, range(20))
        publish_steps(aside, range(20, 40))
        wait_for(lambda: processed() == 40, "both queues to be processed")
        assert workers_of(range(20)) == {ordinary.pid}
        assert workers_of(range(20, 40)) == {slow.pid}

        publish_steps(aside, range(40, 1000))
        wait_for(lambda: processed() > 50, "some of the others")
        SourceQueue.objects.filter(pk=aside.pk).update(paused=True)
        wait_for(
            lambda: not Claim.objects.exists() and not consuming(aside), "the consumers to stop", seconds=4
        )
        stopped_at = processed()
        publish_steps(steady, range(1000, 1020))
        wait_for(lambda: state(steady) == (40, 0, 0), "another queue to go on")
        assert processed() == stopped_at + 20
        assert waits_untouched(aside)

        SourceQueue.objects.filter(pk=aside.pk).update(paused=False)
        wait_for(lambda: processed() > stopped_at + 20, "the consumers to go on", seconds=6)


def workers_of(numbers: range) -> set[int]:
    """The process ids of the workers that ran these messages."""
    names = Owner.objects.filter(slug__in=[f"step-{n}" for n in numbers]).values_list("email", flat=True)
    return {int(name.partition("@")[0]) for name in names}


def consuming(queue: SourceQueue) -> bool:
    """Whether a slot of the queue is held."""
    return queue.slots.exclude(holder="").exists()


# --- Pools ------------------------------------------------------------------------------------------------------------


def test_a_worker_with_another_pool_may_not_consume(tmp_path) -> None:
    SourceQueue.objects.create(name="aside", celery_queue="slow-ones")
    cases = {"solo": "consumers,system", "threads": "slow-ones"}
    processes = {}
    with ExitStack() as stack:
        for pool, queues in cases.items():
            (tmp_path / pool).mkdir()
            refused = worker(tmp_path / pool, HANDLERS, "--pool", pool, queues=queues, beat=False)
            processes[pool] = stack.enter_context(refused)
        for pool, process in processes.items():
            assert process.wait(timeout=60) == 1
            log = (tmp_path / pool / "log").read_text()
            assert "needs the prefork pool" in log
            assert "Traceback" not in log


def test_without_a_database_the_usual_name_of_the_consumers_queue_decides(tmp_path) -> None:
    away = {"DATABASE_URL": f"postgres://nobody@/nothing?host={tmp_path}", "CELERY_BROKER_URL": "memory://"}
    arguments = ["-m", "celery", "-A", "dlqadmin", "worker", "-Q", "consumers", "--pool", "solo"]
    with running(arguments, away | {"DLQADMIN_HOME": str(tmp_path)}, tmp_path / "log") as process:
        assert process.wait(timeout=60) == 1
    assert "a worker of consumers needs the prefork pool" in (tmp_path / "log").read_text()


def test_a_queue_that_is_routed_to_a_worker_with_another_pool_later_is_left_alone(tmp_path) -> None:
    with worker(tmp_path, HANDLERS, "--pool", "threads", queues="slow-ones,system"):
        wait_for(lambda: alive("slow-ones, system"), "the worker, which nothing is routed to")
        queue = SourceQueue.objects.create(name="aside", celery_queue="slow-ones")
        publish_steps(queue, range(3))
        log = tmp_path / "log"
        wait_for(lambda: "Consumers need the main thread" in log.read_text(), "the wake-up to be refused")
        assert state(queue) == (0, 3, 0)
        assert waits_untouched(queue)
