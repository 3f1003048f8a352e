"""Another body goes to work: the letter's own stays, the change is kept, shown, and can be undone until it is sent."""

import json
from typing import Any

import pytest

from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.edit import CannotEdit, edit_letter, patch_letters, try_patch, undo_edit
from dlqadmin.deadletters.json_patch import Patch, read_patch
from dlqadmin.deadletters.models import DeadLetter, LetterEdit
from dlqadmin.deadletters.sets import LetterSet
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.people.models import AuditEntry
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.audit import audit_books
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.run import collect_outcomes, send_pending
from dlqadmin.redrive.start import NO_CANARY, start_redrive

pytestmark = pytest.mark.django_db(transaction=True)

ADD = '[{"op": "test", "path": "/kind", "value": "old"}, {"op": "add", "path": "/taxCode", "value": "A1"}]'


@pytest.fixture
def seen() -> list[bytes]:
    return []


@pytest.fixture
def invoices(make_queue: Any, handle: Any, seen: list[bytes]) -> SourceQueue:
    """A queue with three letters that have no tax code, of which one is of another kind; and one that is no JSON."""

    def post(message: Any) -> None:
        if b"taxCode" not in message.body:
            raise LookupError("no tax code")
        seen.append(message.body)

    queue: SourceQueue = make_queue("invoices", max_attempts=1)
    handle(queue, post, type="note", body="bytes")
    bodies = [b'{"kind":"old","p":1.00}', b'{"kind":"old","p":2.50}', b'{"kind":"new"}', b"plain"]
    publish_many(queue, [Outgoing(type="note", body=body) for body in bodies])
    while consume_once(queue).outcomes:
        pass
    return queue


def first() -> DeadLetter:
    return DeadLetter.objects.earliest("pk")


def patch() -> Patch:
    return read_patch(ADD)


def redrive_all(queue: SourceQueue) -> None:
    for cluster in queue.clusters.all():
        sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="no tax code", fix="bodies edited")
    redrive = start_redrive(letters=LetterSet(queue, ""), by=None, options=NO_CANARY)
    send_pending(redrive)
    while consume_once(queue).outcomes:
        pass
    collect_outcomes(redrive)


def test_the_edited_body_goes_to_work_and_the_letters_own_stays(invoices, seen, make_user) -> None:
    letter, own = first(), bytes(first().body)
    edit_letter(letter=letter, body=b'{"taxCode":"B2"}', reason="by hand", by=make_user(name="ann"))
    redrive_all(invoices)
    assert seen == [b'{"taxCode":"B2"}']
    letter = first()
    assert (bytes(letter.body), letter.state) == (own, "resolved")
    assert (letter.edit.edited_name, letter.edit.reason) == ("ann", "by hand")
    entry = AuditEntry.objects.get(action="letter.edit")
    assert (entry.reason, entry.before, entry.after) == ("by hand", {"bytes": 23}, {"bytes": 16})
    assert "B2" not in json.dumps([entry.before, entry.after, entry.object_name])
    assert audit_books().differences == []


def test_a_letter_that_died_of_its_edited_body_is_a_new_letter_with_that_body(invoices) -> None:
    edit_letter(letter=first(), body=b'{"still":"wrong"}', reason="a try", by=None)
    redrive_all(invoices)
    again = DeadLetter.objects.get(previous=first())
    assert (bytes(again.body), again.generation) == (b'{"still":"wrong"}', 2)


def test_an_edit_is_undone_until_the_letter_is_sent(invoices) -> None:
    letter = first()
    edit_letter(letter=letter, body=b"{}", reason="x", by=None)
    undo_edit(letter=letter, by=None)
    assert not LetterEdit.objects.exists()
    with pytest.raises(CannotEdit, match="not edited"):
        undo_edit(letter=letter, by=None)
    edit_letter(letter=letter, body=b"{}", reason="x", by=None)
    redrive_all(invoices)
    with pytest.raises(CannotEdit, match="open letter"):
        undo_edit(letter=letter, by=None)
    with pytest.raises(CannotEdit, match="open letter"):
        edit_letter(letter=letter, body=b"[]", reason="x", by=None)
    assert LetterEdit.objects.get().reason == "x"


@pytest.mark.parametrize(("body", "reason"), [(b"{}", " "), (b'{"kind":"old","p":1.00}', "x")])
def test_an_edit_without_a_reason_or_a_change_is_refused(invoices, body, reason) -> None:
    with pytest.raises(CannotEdit):
        edit_letter(letter=first(), body=body, reason=reason, by=None)
    assert not LetterEdit.objects.exists()


def test_a_dry_run_counts_every_letter_and_keeps_nothing(invoices) -> None:
    tried = try_patch(letters=LetterSet(invoices, ""), patch=patch())
    assert (tried.changed, tried.unchanged, tried.refused.total(), tried.all) == (2, 0, 2, 4)
    assert sorted(why[:12] for why in tried.refused) == ["Operation 1:", "The body can"]
    assert [after for _, _, after in tried.examples] == [
        b'{"kind":"old","p":1.00,"taxCode":"A1"}',
        b'{"kind":"old","p":2.50,"taxCode":"A1"}',
    ]
    assert not LetterEdit.objects.exists()


def test_c04_a_patch_over_many_is_the_patch_of_each(invoices, seen) -> None:
    done = patch_letters(letters=LetterSet(invoices, ""), patch=patch(), reason="the tax code", by=None)
    bodies = dict(LetterEdit.objects.values_list("letter", "body"))
    assert {pk: bytes(body) for pk, body in bodies.items()} == {
        letter.pk: patch().apply(bytes(letter.body)) for letter in DeadLetter.objects.order_by("pk")[:2]
    }
    assert LetterEdit.objects.first().patch == ADD
    entry = AuditEntry.objects.get(action="letter.patch")
    assert (entry.after["letters"], done.changed) == (2, 2)
    redrive_all(invoices)
    assert sorted(seen) == sorted(bytes(body) for body in bodies.values())


def test_a_second_patch_goes_on_from_the_first(invoices) -> None:
    letters = LetterSet(invoices, f"id:{first().pk}")
    patch_letters(letters=letters, patch=patch(), reason="first", by=None)
    patch_letters(
        letters=letters, patch=read_patch('[{"op":"remove","path":"/p"}]'), reason="second", by=None
    )
    assert bytes(LetterEdit.objects.get().body) == b'{"kind":"old","taxCode":"A1"}'
    assert try_patch(letters=letters, patch=patch()).unchanged == 1


@pytest.mark.parametrize(
    ("operations", "changes", "why"),
    [(ADD, 3, "try it again"), ('[{"op":"remove","path":"/none"}]', None, "none of these")],
)
def test_a_patch_that_would_do_something_else_than_was_seen_changes_nothing(
    invoices, operations, changes, why
) -> None:
    with pytest.raises(CannotEdit, match=why):
        patch_letters(
            letters=LetterSet(invoices, ""),
            patch=read_patch(operations),
            reason="x",
            by=None,
            changes=changes,
        )
    assert not LetterEdit.objects.exists()


def test_a_patch_of_too_many_letters_is_refused_before_it_begins(invoices, monkeypatch) -> None:
    monkeypatch.setattr("dlqadmin.deadletters.edit.MOST_PATCHED", 3)
    with pytest.raises(CannotEdit, match="at most 3"):
        try_patch(letters=LetterSet(invoices, ""), patch=patch())
    assert try_patch(letters=LetterSet(invoices, "").up_to(first().pk + 1), patch=patch()).all == 2
