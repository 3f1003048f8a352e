"""Letters are discarded or resolved with a reason, and opened again; the books balance all the while."""

from typing import Any

import pytest

from dlqadmin.clusters.counts import counts_of
from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.settling import CannotSettle, discard, resolve, undo_settling
from dlqadmin.messages.models import QueueKey
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.people.models import AuditEntry
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.audit import audit_books

pytestmark = pytest.mark.django_db(transaction=True)


def die(queue: SourceQueue, handle: Any, number: int = 3, **message: Any) -> list[int]:
    """So many letters of one cause; their ids."""

    def boom(message: Any) -> None:
        raise LookupError("member not found")

    handle(queue, boom)
    publish_many(queue, [Outgoing(type="note", body={}, **message) for _ in range(number)])
    while consume_once(queue).outcomes:
        pass
    return list(DeadLetter.objects.filter(queue=queue).order_by("pk").values_list("pk", flat=True))


def open_count(queue: SourceQueue) -> int:
    root = queue.clusters.get().pk
    return counts_of([root])[root].open


@pytest.mark.parametrize(
    ("settle", "state", "resolution"),
    [
        (discard, "discarded", ""),
        (resolve, "resolved", "by hand"),
    ],
)
def test_letters_are_settled_with_a_reason_and_opened_again(
    queue, handle, make_user, settle, state, resolution
) -> None:
    letters, user = die(queue, handle), make_user()
    assert settle(letters=letters[:2], queue=queue, reason=" not needed ", by=user) == 2
    found = DeadLetter.objects.filter(pk__in=letters[:2]).values_list("state", "resolution").distinct().get()
    assert found == (state, resolution)
    assert open_count(queue) == 1
    assert audit_books().differences == []
    entry = AuditEntry.objects.latest("pk")
    assert (entry.reason, entry.after["letters"], entry.actor) == ("not needed", 2, user.get_username())
    assert undo_settling(letters=letters, queue=queue, by=user) == 2
    assert open_count(queue) == 3
    assert audit_books().differences == []
    with pytest.raises(CannotSettle):
        undo_settling(letters=letters, queue=queue, by=user)


def test_what_a_consumer_would_drop_is_resolved_without_sending(queue, handle) -> None:
    letters = die(queue, handle)
    for resolution in (DeadLetter.Resolution.DUPLICATE, DeadLetter.Resolution.STALE):
        one = [letters.pop()]
        assert resolve(letters=one, queue=queue, reason="newer", by=None, resolution=resolution) == 1
        assert audit_books().differences == []
        assert undo_settling(letters=one, queue=queue, by=None) == 1
        assert audit_books().differences == []


def test_without_a_reason_or_an_open_letter_nothing_changes(queue, make_queue, handle) -> None:
    letters = die(queue, handle)
    for settle in (discard, resolve):
        with pytest.raises(CannotSettle, match="Say"):
            settle(letters=letters, queue=queue, reason=" ", by=None)
    discard(letters=letters, queue=queue, reason="x", by=None)
    with pytest.raises(CannotSettle, match="open any more"):
        discard(letters=letters, queue=queue, reason="x", by=None)
    with pytest.raises(CannotSettle):
        discard(letters=letters, queue=make_queue("other"), reason="x", by=None)
    assert audit_books().differences == []


def test_a_key_that_went_on_cannot_be_called_back(make_queue, handle) -> None:
    queue = make_queue("orders", ordered=True, on_death="hold", max_attempts=1)
    letters = die(queue, handle, 1, key="a")
    assert QueueKey.objects.get().parked_position is not None
    discard(letters=letters, queue=queue, reason="x", by=None)
    assert not QueueKey.objects.filter(parked_position__isnull=False).exists()
    with pytest.raises(CannotSettle, match="went on"):
        undo_settling(letters=letters, queue=queue, by=None)
    assert audit_books().differences == []
