"""The one place where a message becomes a dead letter."""

import inspect
from pathlib import Path

import pytest

import dlqadmin
from dlqadmin.consumers.claim import claim_single
from dlqadmin.deadletters import capture
from dlqadmin.deadletters.capture import Death, MessageGone, dead_letters
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.failure import ErrorRecord
from dlqadmin.messages.models import Message
from dlqadmin.messages.publish import publish


def kill(queue, **wrong) -> int:
    claim = claim_single(queue)
    assert claim
    values = {"message": claim.messages[0].id, "claim": claim.token} | wrong
    error = ErrorRecord.of_text("boom")
    death = Death(values["message"], DeadLetter.Reason.THRESHOLD, error, attempts=1, lost=0)
    return dead_letters(queue=queue.pk, claim=values["claim"], worker="w", deaths=[death])[0]


def test_nothing_of_a_message_changes_on_its_way_into_a_letter(queue) -> None:
    headers = (("a", "text", "YQ=="), ("a", "bytes", "/w=="), ("none", "null", None), ("t", "table", "e30="))
    publish(
        queue,
        type="note",
        body=b"\x00\xff",
        key=b"\x00k",
        version=-1,
        message_id="m",
        headers=headers,
        content_type="application/x-python-serialize",
        content_encoding="gzip",
    )
    fields = [
        f.name
        for f in Message._meta.get_fields()
        if f.name in {g.name for g in DeadLetter._meta.get_fields()}
    ]
    kept = sorted(set(fields) - {"id", "queue", "attempts", "lost", "generation", "last_attempt_at"})
    before = Message.objects.values(*kept).get()
    kill(queue)
    after = DeadLetter.objects.values(*kept).get()
    assert {k: bytes(v) if isinstance(v, memoryview) else v for k, v in before.items()} == {
        k: bytes(v) if isinstance(v, memoryview) else v for k, v in after.items()
    }
    assert {"body", "headers", "key", "version", "lineage", "position", "message_id"} <= set(kept)


@pytest.mark.parametrize("wrong", [{"message": 2**40}, {"claim": 2**40}])
def test_a_message_that_is_not_held_is_not_captured(queue, wrong) -> None:
    publish(queue, type="note", body=b"")
    with pytest.raises(MessageGone):
        kill(queue, **wrong)
    assert Message.objects.count() == 1
    assert not DeadLetter.objects.exists()


def test_letters_are_inserted_in_one_place_only() -> None:
    root = Path(inspect.getfile(dlqadmin)).parent
    places = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if "INSERT INTO dlqadmin_deadletter" in path.read_text()
        or "DeadLetter.objects.create" in path.read_text()
    ]
    assert places == [Path(inspect.getfile(capture)).relative_to(root).as_posix()]


def test_a_list_of_letters_never_loads_bodies(queue, django_assert_num_queries) -> None:
    publish(queue, type="note", body=b"secret")
    kill(queue)
    with django_assert_num_queries(1) as captured:
        list(DeadLetter.objects.open().listed())
    assert '"body"' not in captured[0]["sql"]
    assert '"error_raw"' not in captured[0]["sql"]
