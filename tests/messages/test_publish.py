"""Publishing."""

import pytest
from celery import Celery
from django.db import transaction

from dlqadmin.messages.models import Message
from dlqadmin.messages.publish import Outgoing, publish, publish_many
from dlqadmin.messages.wakeups import CONSUME_TASK
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.ledger import read_ledger


def test_bytes_are_kept_as_they_are_and_nothing_is_guessed(queue) -> None:
    publish(queue, type="note", body=b"\x08\x96\x01\xff\xfe\x00\xc3\x28")
    message = Message.objects.get()
    assert bytes(message.body or b"") == b"\x08\x96\x01\xff\xfe\x00\xc3\x28"
    assert (message.content_type, message.content_encoding) == ("", "")


def test_a_dict_is_published_as_json(queue) -> None:
    publish(queue, type="note", body={"title": "Anadolu kuşları", "n": 9007199254740993})
    message = Message.objects.get()
    assert bytes(message.body or b"").decode() == '{"title": "Anadolu kuşları", "n": 9007199254740993}'
    assert message.content_type == "application/json"


def test_no_body_and_an_empty_body_differ(queue) -> None:
    publish_many(queue, [Outgoing(type="note", body=None), Outgoing(type="note", body=b"")])
    assert [m.body if m.body is None else bytes(m.body) for m in Message.objects.order_by("position")] == [
        None,
        b"",
    ]


def test_messages_keep_their_order_and_position_equals_id_at_first(queue) -> None:
    ids = publish_many(queue, [Outgoing(type="note", body={"n": n}) for n in range(50)])
    rows = list(Message.objects.order_by("position").values_list("id", "position"))
    assert rows == [(pk, pk) for pk in ids]
    assert ids == sorted(ids)


def test_the_same_message_id_may_be_published_twice(queue) -> None:
    publish(queue, type="note", body=b"1", message_id="order-1")
    publish(queue, type="note", body=b"2", message_id="order-1")
    assert Message.objects.filter(message_id="order-1").count() == 2


def test_an_id_is_made_up_when_none_is_given_and_rises(queue) -> None:
    publish_many(queue, [Outgoing(type="note", body=b"") for _ in range(3)])
    ids = list(Message.objects.order_by("position").values_list("message_id", flat=True))
    assert len(set(ids)) == 3
    assert ids == sorted(ids)


def test_headers_keep_order_types_doubles_and_nulls(queue) -> None:
    headers = (("x", "text", "MQ=="), ("x", "int", "Mg=="), ("empty", "null", None))
    publish(queue, type="note", body=b"", headers=headers)
    assert Message.objects.get().headers == [list(header) for header in headers]


def test_a_header_name_with_nul_is_taken_and_an_escape_of_one_is_left_alone(queue) -> None:
    publish(queue, type="note", body=b"", headers=[("a\0b", "text", None), ("\\u0000", "text", None)])
    assert [header[0] for header in Message.objects.get().headers] == ["a␀b", "\\u0000"]


def test_a_key_of_any_bytes_and_a_type_with_nul_are_taken(queue) -> None:
    publish(queue, type="no\0te", body=b"", key=b"\xff\x00", version=2**62)
    message = Message.objects.get()
    assert (message.type, bytes(message.key or b""), message.version) == ("no␀te", b"\xff\x00", 2**62)


def test_publishing_belongs_to_the_callers_transaction(queue) -> None:
    with transaction.atomic():
        publish(queue, type="note", body=b"")
        transaction.set_rollback(True)
    assert not Message.objects.exists()
    assert read_ledger(queue.pk).received == 0


def test_received_is_counted_in_the_books(queue) -> None:
    publish_many(queue.name, [Outgoing(type="note", body=b"") for _ in range(4)])
    assert read_ledger(queue.pk).received == 4


def test_consumers_are_woken_once_for_many_messages(
    queue, monkeypatch, django_capture_on_commit_callbacks
) -> None:
    sent: list[tuple[object, ...]] = []
    monkeypatch.setattr(Celery, "send_task", lambda app, name, args, **_: sent.append((name, *args)))
    with django_capture_on_commit_callbacks(execute=True):
        publish_many(queue, [Outgoing(type="note", body=b"") for _ in range(9)])
    assert sent == [(CONSUME_TASK, queue.pk)]


def test_a_broker_that_is_away_does_not_disturb_the_publisher(
    queue, monkeypatch, django_capture_on_commit_callbacks, caplog
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise ConnectionError("broker is away")

    monkeypatch.setattr(Celery, "send_task", refuse)
    with django_capture_on_commit_callbacks(execute=True):
        publish(queue, type="note", body=b"")
    assert Message.objects.count() == 1
    assert "the sweep will" in caplog.text


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"type": ""}, "type"),
        ({"message_id": "x" * 256}, "255"),
        ({"message_id": ""}, "255"),
        ({"message_id": "a\0b"}, "message_id"),
        ({"message_id": "\ud800"}, "message_id"),
        ({"delay": -1}, "delay"),
    ],
)
def test_what_cannot_be_published_is_refused_with_its_field(queue, wrong, says) -> None:
    with pytest.raises(ValueError, match=says):
        publish(queue, **{"type": "note", "body": b""} | wrong)
    assert not Message.objects.exists()


def test_a_queue_that_does_not_exist_is_an_error(db) -> None:
    with pytest.raises(SourceQueue.DoesNotExist):
        publish("nowhere", type="note", body=b"")


def test_an_external_queue_takes_no_messages_of_ours(make_queue) -> None:
    with pytest.raises(ValueError, match="RabbitMQ"):
        publish(make_queue("theirs", kind="rabbitmq"), type="note", body=b"")


def test_a_queue_with_workers_of_its_own_wakes_those(
    make_queue, monkeypatch, django_capture_on_commit_callbacks
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(Celery, "send_task", lambda app, name, args, queue, **_: sent.append(queue))
    with django_capture_on_commit_callbacks(execute=True):
        publish(make_queue("heavy", celery_queue="heavy-work"), type="note", body=b"")
    assert sent == ["heavy-work"]
