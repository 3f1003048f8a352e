"""The page of a queue: what its consumers are at, blocked keys, discards, and what it warns of."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dlqadmin.clock import ClockTimestamp
from dlqadmin.consumers.claim import claim_batch
from dlqadmin.consumers.consume import consume_once
from dlqadmin.consumers.sweep import expire_claims
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.models import Claim, Discard
from dlqadmin.messages.pause import pause_queue
from dlqadmin.messages.publish import publish
from dlqadmin.queues.models import ConsumerSlot, SourceQueue
from dlqadmin.web import runtime
from tests.web.making import begin_redrive
from tests.web.test_pages import NASTY


@pytest.fixture
def text_of(signed_in: Any) -> Any:
    """The page of a queue as a viewer gets it, every run of white space as one blank."""
    client: Client = signed_in("viewer")
    return lambda queue: " ".join(client.get(reverse("queue", args=[queue.name])).text.split())


@pytest.fixture
def lose(handle: Any) -> Any:
    """A worker takes so many messages of the queue, all keys alike, and is lost."""

    def lose(queue: SourceQueue, size: int, *, by_key: bool = False) -> None:
        claim = claim_batch(queue, size, by_key=by_key)
        assert claim is not None
        Claim.objects.filter(pk=claim.token).update(until=ClockTimestamp())
        expire_claims()

    return lose


def fail(message: Any) -> None:
    raise LookupError("member not found")


def section(text: str, name: str) -> str:
    """A section of the page."""
    return text.partition(f'<section id="{name}"')[2].partition("</section>")[0]


# --- Blocked keys -----------------------------------------------------------------------------------------------------


def test_a_key_whose_head_fails_says_when_it_is_tried_again(
    text_of: Any, make_queue: Any, handle: Any
) -> None:
    queue = make_queue(ordered=True, backoff_base=600.0, backoff_cap=600.0)
    handle(queue, fail)
    for key in ("member-1", "member-1", "member-1"):
        publish(queue, type="note", body={}, key=key)
    consume_once(queue)
    blocked = section(text_of(queue), "blocked")
    assert "member-1" in blocked
    assert '<td class="num" data-label="Waiting">3</td>' in blocked
    assert "tried again in 9 min" in blocked
    pause_queue(queue=queue, by=None)
    connection.cursor().execute("UPDATE dlqadmin_queuekey SET due_at = clock_timestamp()")
    assert "tried again when the queue goes on" in section(text_of(queue), "blocked")


def test_a_parked_key_leads_to_the_letter_that_it_waits_for(
    text_of: Any, make_queue: Any, die: Any, make_user: Any
) -> None:
    queue = make_queue("mine", ordered=True, on_death="hold", max_attempts=1)
    first = die(into=queue, key="member-1")
    publish(queue, type="note", body={}, key="member-1")
    other = make_queue("other", ordered=True, on_death="hold", max_attempts=1)
    die(into=other, key="member-1")
    blocked = section(text_of(queue), "blocked")
    assert f'href="{reverse("letter", args=[first.pk])}">letter {first.pk}</a>' in blocked
    assert blocked.count("letter ") == 1
    begin_redrive(first, make_user("operator", name="redriver"))
    assert "which is being redriven" in section(text_of(queue), "blocked")
    DeadLetter.objects.filter(pk=first.pk).update(state="resolved")
    assert "its letter is settled" in section(text_of(queue), "blocked")


def test_a_key_is_shown_as_the_bytes_that_it_is(text_of: Any, make_queue: Any, handle: Any) -> None:
    queue = make_queue(ordered=True, backoff_base=600.0)
    handle(queue, fail)
    for key in (b"\xff\x00\xfe", NASTY.encode(), b"", "ключ".encode(), b"k" * 1024):
        publish(queue, type="note", body={}, key=key)
    consume_once(queue)
    blocked = section(text_of(queue), "blocked")
    assert "\\xff\u2400\\xfe" in blocked
    assert "&lt;script&gt;" in blocked
    assert "<script>" not in blocked
    assert "\u202e" not in blocked
    assert "ключ" in blocked
    assert ">empty</span>" in blocked
    assert "k" * 121 not in blocked


def test_the_waiting_are_counted_up_to_a_bound_and_so_are_the_keys(
    text_of: Any, make_queue: Any, handle: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(runtime, "BOUND", 2)
    monkeypatch.setattr("dlqadmin.web.queue.BOUND", 2)
    monkeypatch.setattr(runtime, "MOST_KEYS", 1)
    monkeypatch.setattr("dlqadmin.web.queue.MOST_KEYS", 1)
    queue = make_queue(ordered=True, backoff_base=600.0)
    handle(queue, fail)
    for key in ("a", "a", "a", "b", "c"):
        publish(queue, type="note", body={}, key=key)
    consume_once(queue)
    blocked = section(text_of(queue), "blocked")
    assert '<td class="num" data-label="Waiting">2+</td>' in blocked
    assert "the 1 blocked longest of 2+" in blocked


def test_an_ordered_queue_without_blocked_keys_says_so_and_others_say_nothing(
    text_of: Any, make_queue: Any
) -> None:
    assert "No key is blocked" in text_of(make_queue("ordered", ordered=True))
    assert "Blocked keys" not in text_of(make_queue("loose"))


# --- Discards ---------------------------------------------------------------------------------------------------------


def test_discards_are_counted_by_kind_and_the_last_are_shown(
    text_of: Any, make_queue: Any, handle: Any
) -> None:
    queue = make_queue(idempotency="latest")
    handle(queue, lambda message: None)
    for version in (2, 2, 1):
        publish(queue, type="note", body={}, key=b"\xffkey", version=version, message_id=f"m{version}")
        consume_once(queue)
    discards = section(text_of(queue), "discards")
    assert "1 duplicate, 1 stale; the last ones" in discards
    assert discards.index(">m1<") < discards.index(">m2<")
    assert discards.count("\\xffkey") == 2


def test_a_queue_that_drops_says_what_it_would_drop_and_others_say_nothing(
    text_of: Any, make_queue: Any
) -> None:
    assert "whose message id has run before" in text_of(make_queue("ledger", idempotency="ledger"))
    assert "a newer one (stale)" in text_of(make_queue("latest", idempotency="latest"))
    assert "Discards" not in text_of(make_queue("plain"))


def test_what_was_dropped_stays_in_view_when_the_queue_is_plain_again(text_of: Any, make_queue: Any) -> None:
    queue = make_queue()
    Discard.objects.create(
        queue=queue,
        kind="stale",
        message_id=NASTY.replace("\0", ""),
        key=None,
        version=None,
        lineage="0" * 32,
    )
    discards = section(text_of(queue), "discards")
    assert "&lt;script&gt;" in discards
    assert "<script>" not in discards


# --- Consumers, suspects, warnings ------------------------------------------------------------------------------------


def test_slots_that_are_held_are_consumers_at_work(text_of: Any, make_queue: Any) -> None:
    queue = make_queue(concurrency=3)
    for number, seconds in ((1, 60), (2, 60), (3, -1)):
        until = ClockTimestamp() + timedelta(seconds=seconds)
        ConsumerSlot.objects.create(queue=queue, number=number, until=until)
    assert "2 of 3 consumers at work" in text_of(queue)


@pytest.mark.parametrize("ordered", [False, True])
def test_messages_whose_worker_was_lost_are_said(
    ordered: bool, text_of: Any, make_queue: Any, lose: Any, monkeypatch: Any
) -> None:
    queue = make_queue(ordered=ordered, max_lost=2)
    for number in range(6):
        publish(queue, type="note", body={}, key=f"member-{number % 2}")
    assert "suspect" not in text_of(queue)
    lose(queue, 4, by_key=ordered)
    text = text_of(queue)
    assert "4 messages are suspects" in text
    assert "one that loses 2 workers is a dead letter" in text
    monkeypatch.setattr(runtime, "BOUND", 3)
    monkeypatch.setattr("dlqadmin.web.queue.BOUND", 3)
    assert "3+ messages are suspects" in text_of(queue)


def test_no_threshold_is_warned_of_on_the_page_and_on_the_overview(
    text_of: Any, make_queue: Any, signed_in: Any
) -> None:
    client = signed_in("lead")
    make_queue("fine")
    assert "no threshold" not in client.get("/").text
    queue = make_queue(max_attempts=0)
    assert "There is no threshold." in text_of(queue)
    assert "no threshold</span>" in client.get("/").text


def test_a_queue_that_runs_elsewhere_shows_nothing_of_consumers(text_of: Any, make_queue: Any) -> None:
    text = text_of(make_queue("far", kind=SourceQueue.Kind.SQS, max_attempts=0)).partition("<main")[2]
    for word in ("at work", "Pause", "Blocked keys", "There is no threshold"):
        assert word not in text


def test_the_number_of_queries_does_not_depend_on_what_is_shown(
    text_of: Any, make_queue: Any, die: Any, handle: Any, lose: Any
) -> None:
    def queries(queue: SourceQueue) -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(queue)
        return len(captured)

    one = make_queue("one", ordered=True, on_death="hold", max_attempts=1, idempotency="ledger")
    many = make_queue("many", ordered=True, on_death="hold", max_attempts=1, idempotency="ledger")
    for queue, keys in ((one, 1), (many, 12)):
        pause_queue(queue=queue, by=None)
        handle(queue, lambda message: None, type="fine")
        for number in range(keys):
            die(f"error {'abcdefghijkl'[number]}", into=queue, key=f"key-{number}")
            publish(queue, type="note", body={}, key=f"key-{number}")
            for _ in range(2):
                publish(queue, type="fine", body={}, key=f"free-{number}", message_id=f"id-{number}")
        consume_once(queue)
        consume_once(queue)
        publish(queue, type="note", body={})
        lose(queue, 2)
    assert "11 causes" not in text_of(one)
    assert section(text_of(many), "blocked").count("letter ") == 12
    assert queries(many) == queries(one) <= 24
