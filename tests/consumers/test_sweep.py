"""What wake-ups and lost workers leave behind."""

import pytest
from celery import Celery
from django.db import connection

from dlqadmin.clock import ClockTimestamp
from dlqadmin.consumers.claim import claim_single
from dlqadmin.consumers.consume import consume_once
from dlqadmin.consumers.sweep import expire_claims, wake_queues_with_work
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.models import Attempt, Claim, Message
from dlqadmin.messages.publish import Outgoing, publish, publish_many
from dlqadmin.queues.models import SourceQueue


def lose_worker(queue: SourceQueue) -> None:
    """A worker claims a message and is never heard of again."""
    assert claim_single(queue) or claim_single(queue, suspect=True)
    Claim.objects.update(until=ClockTimestamp())


def test_the_message_of_a_lost_worker_runs_again_and_is_not_charged_an_attempt(queue, handle) -> None:
    publish(queue, type="note", body={})
    lose_worker(queue)
    assert expire_claims() == 1
    message = Message.objects.get()
    assert (message.attempts, message.lost, message.suspect, message.claim) == (0, 1, True, None)
    assert Attempt.objects.get().outcome == "lost"
    handle(queue, lambda message: None)
    consume_once(queue)
    assert not Message.objects.exists()


@pytest.mark.parametrize("threshold", [0, 1, 5])
def test_a_message_that_keeps_killing_its_worker_becomes_a_dead_letter(make_queue, threshold) -> None:
    queue = make_queue(max_attempts=threshold, max_lost=3)
    publish(queue, type="note", body=b"deadly")
    for _ in range(3):
        lose_worker(queue)
        expire_claims()
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.lost, letter.attempts) == ("worker lost", 3, 0)
    assert bytes(letter.body or b"") == b"deadly"
    assert letter.attempt_rows().count() == 3
    assert not Message.objects.exists()
    assert not Claim.objects.exists()


def test_a_claim_that_has_not_run_out_is_left_alone(queue) -> None:
    publish(queue, type="note", body={})
    claim_single(queue)
    assert expire_claims() == 0


@pytest.fixture
def woken(monkeypatch) -> list[int]:
    """The queues that a wake-up was sent to."""
    sent: list[int] = []
    monkeypatch.setattr(Celery, "send_task", lambda app, name, args, **options: sent.append(args[0]))
    return sent


def test_every_queue_with_due_work_is_woken_once(make_queue, woken) -> None:
    busy, idle, later, paused = (make_queue(name) for name in ("busy", "idle", "later", "paused"))
    publish_many(busy, [Outgoing(type="note", body={}) for _ in range(5)])
    publish(later, type="note", body={}, delay=60)
    publish(paused, type="note", body={})
    SourceQueue.objects.filter(pk=paused.pk).update(paused=True)
    woken.clear()
    assert wake_queues_with_work() == 1
    assert woken == [busy.pk]
    assert idle.pk not in woken


def test_the_sweep_reads_the_claim_index_and_not_the_messages(queue) -> None:
    """Loose questions for each queue: the number of waiting messages must not matter."""
    publish_many(queue, [Outgoing(type="note", body={}) for _ in range(500)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE dlqadmin_message")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT FROM dlqadmin_message WHERE queue_id = %s AND claim_id IS NULL AND NOT by_key "
            "AND NOT suspect AND available_at <= clock_timestamp() LIMIT 1",
            [queue.pk],
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "message_claimable" in plan
