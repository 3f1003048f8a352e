"""What went wrong when other consoles sent dead letters back: public reports, by their numbers in the list of cases."""

from typing import Any

import pytest

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import LetterSet, of_cluster
from dlqadmin.deadletters.settling import discard
from dlqadmin.messages.models import Attempt, Message
from dlqadmin.messages.publish import Outgoing, publish, publish_many
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive import send
from dlqadmin.redrive.audit import audit_books
from dlqadmin.redrive.control import cancel
from dlqadmin.redrive.diagnose import current_diagnosis, sign_diagnosis
from dlqadmin.redrive.plan import plan_redrive
from dlqadmin.redrive.run import advance_redrives, count_outcomes, send_pending
from dlqadmin.redrive.start import NO_CANARY, Options, start_redrive

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def failing(make_queue: Any, handle: Any) -> Any:
    """A queue in which a message dies at its first failure, and a switch: `bad` holds what fails."""

    class Failing:
        def __init__(self) -> None:
            self.bad: Any = True
            self.seen: list[Any] = []

        def make(self, name: str = "orders", **policy: Any) -> SourceQueue:
            queue = make_queue(name, **({"max_attempts": 1} | policy))
            handle(queue, self)
            return queue

        def __call__(self, message: Any) -> None:
            self.seen.append(message)
            if self.bad is True or (self.bad and message.data["n"] in self.bad):
                raise LookupError("member not found")

    return Failing()


def drain(queue: SourceQueue) -> None:
    while consume_once(queue).outcomes:
        pass


def diagnosed(queue: SourceQueue) -> ErrorCluster:
    cluster = ErrorCluster.objects.get(queue=queue)
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="missing", fix="added")
    return cluster


def test_c19_a_redriven_message_that_fails_again_dies_again_in_sight(failing) -> None:
    queue = failing.make()
    publish(queue, type="note", body={"n": 1})
    drain(queue)
    send_pending(start_redrive(letters=of_cluster(diagnosed(queue)), by=None, options=NO_CANARY))
    drain(queue)
    advance_redrives()
    first, second = DeadLetter.objects.order_by("pk")
    assert (first.state, second.state) == ("returned", "open")
    assert (second.previous, second.generation, second.lineage) == (first, 2, first.lineage)


def test_c20_headers_and_identity_go_back_as_they_were(failing) -> None:
    queue = failing.make()
    headers = [("traceparent", "str", "MDA="), ("x", "str", None), ("x", "bytes", "AP8=")]
    publish(
        queue, type="note", body=b"\x08\x96\xff", message_id="m-1", key=b"k\x00", version=7, headers=headers
    )
    sent = Message.objects.values("message_id", "key", "version", "headers", "body", "type", "lineage").get()
    drain(queue)
    send_pending(start_redrive(letters=of_cluster(diagnosed(queue)), by=None, options=NO_CANARY))
    assert Message.objects.values(*sent).get() == sent


ENVELOPES = [
    {"body": None},
    {"body": b""},
    {"body": bytes.fromhex("089601fffe00c328"), "key": None},
    {"body": b"cGFy", "key": b""},
    {"body": b'{"orderId":9007199254740993,"p":1.00}', "content_type": "application/json", "version": 0},
    {"body": b"cposix\nsystem\n.", "content_type": "application/x-python-serialize", "version": -1},
    {
        "body": b"[[[[{{{",
        "headers": [("empty", "str", ""), ("none", "str", None), ("empty", "bytes", "AA==")],
    },
    {"body": b"x", "content_encoding": "base64", "key": b"\x00\xff"},
]


@pytest.mark.parametrize("together", [True, False])
def test_c04_c06_c10_c16_c17_c70_an_envelope_goes_back_as_it_was_alone_and_among_others(
    failing, together
) -> None:
    queue = failing.make()
    publish_many(queue, [Outgoing(type="note", message_id=str(n), **one) for n, one in enumerate(ENVELOPES)])
    columns = ["message_id", "key", "version", "headers", "body", "type", "lineage", "position"]
    sent = list(Message.objects.order_by("position").values(*columns, "content_type", "content_encoding"))
    drain(queue)
    diagnosed_all(queue)
    letters = list(DeadLetter.objects.order_by("pk").values_list("pk", flat=True))
    for text in [""] if together else [f"id:{pk}" for pk in letters]:
        send_pending(start_redrive(letters=LetterSet(queue, text), by=None, options=NO_CANARY))
    assert list(Message.objects.order_by("position").values(*sent[0])) == sent


def diagnosed_all(queue: SourceQueue) -> None:
    for cluster in ErrorCluster.objects.filter(queue=queue):
        sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="missing", fix="added")


def test_c22_a_cancelled_redrive_loses_nothing(failing, monkeypatch) -> None:
    monkeypatch.setattr(send, "BATCH", 50)
    queue = failing.make()
    publish_many(queue, [Outgoing(type="note", body={"n": n}) for n in range(200)])
    drain(queue)
    redrive = start_redrive(
        letters=of_cluster(diagnosed(queue)), by=None, options=Options(canary=0, window=50)
    )
    send_pending(redrive)
    cancel(redrive=redrive, by=None)
    assert Message.objects.count() + DeadLetter.objects.open().count() == 200
    assert audit_books().differences == []


def test_c24_and_c26_matched_selected_sent_failed_and_skipped_add_up(failing) -> None:
    queue = failing.make()
    publish_many(queue, [Outgoing(type="note", body={"n": n}) for n in range(11)])
    drain(queue)
    cluster = diagnosed(queue)
    discard(letters=[DeadLetter.objects.first().pk], queue=queue, reason="x", by=None)
    assert plan_redrive(of_cluster(cluster)).all.open == 10
    failing.bad = {3}
    redrive = start_redrive(letters=of_cluster(cluster), by=None, options=Options(canary=0, stop_percent=100))
    send_pending(redrive)
    drain(queue)
    advance_redrives()
    counts = count_outcomes(redrive)
    assert counts == {"succeeded": 9, "died again": 1}
    assert counts.total() == redrive.items.count() == 10


def test_c27_and_c30_exactly_the_set_of_the_preview_is_sent(failing, make_queue) -> None:
    queue = failing.make()
    publish_many(queue, [Outgoing(type="note", body={"n": n}) for n in range(10)])
    drain(queue)
    cluster = ErrorCluster.objects.get()
    cutoff = plan_redrive(of_cluster(cluster)).cutoff
    publish_many(queue, [Outgoing(type="note", body={"n": n}) for n in range(10, 15)])
    drain(queue)
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="missing", fix="added")
    redrive = start_redrive(letters=of_cluster(cluster).up_to(cutoff), by=None)
    assert redrive.items.count() == 10
    assert DeadLetter.objects.open().count() == 5
    assert not DeadLetter.objects.open().filter(pk__lte=cutoff).exists()


def test_c32_and_c36_lives_are_counted_by_us_and_a_fix_that_did_not_hold_is_said_so(failing) -> None:
    queue = failing.make(max_attempts=2, backoff_base=0.0)
    publish(queue, type="note", body={"n": 1})
    drain(queue)
    cluster = diagnosed(queue)
    for generation in (2, 3):
        send_pending(start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY))
        drain(queue)
        advance_redrives()
        letter = DeadLetter.objects.latest("pk")
        assert (letter.generation, letter.attempts) == (generation, 2)
        assert current_diagnosis(cluster).refuted_at is not None
        sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="again", fix="now")
    assert Attempt.objects.filter(lineage=letter.lineage).count() == 6


def test_c73_old_events_are_left_out_and_the_rest_goes_oldest_first(failing) -> None:
    queue = failing.make(idempotency="latest", ordered=True)
    failing.bad = {2}
    publish_many(queue, [Outgoing(type="note", body={"n": n}, key="a", version=n) for n in (1, 2, 3)])
    publish_many(queue, [Outgoing(type="note", body={"n": 2}, key="b", version=n) for n in (1, 2)])
    drain(queue)
    cluster = diagnosed(queue)
    plan = plan_redrive(of_cluster(cluster))
    assert (plan.all.open, plan.all.stale, plan.all.to_run) == (3, 1, 2)
    failing.bad, failing.seen = False, []
    send_pending(start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY))
    drain(queue)
    assert [(message.key, message.version) for message in failing.seen] == [(b"b", 1), (b"b", 2)]


def test_c74_work_that_was_done_already_is_not_done_again(failing) -> None:
    queue = failing.make(idempotency="ledger")
    publish(queue, type="note", body={"n": 1}, message_id="m-1")
    drain(queue)
    cluster = diagnosed(queue)
    failing.bad = False
    publish(queue, type="note", body={"n": 1}, message_id="m-1")
    drain(queue)
    assert plan_redrive(of_cluster(cluster)).all.duplicates == 1
    failing.seen = []
    options = Options(canary=0, with_dropped=True)
    send_pending(start_redrive(letters=of_cluster(cluster), by=None, options=options))
    drain(queue)
    assert failing.seen == []
    letter = DeadLetter.objects.get()
    assert (letter.state, letter.resolution) == ("resolved", "duplicate")
