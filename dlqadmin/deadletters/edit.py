"""Editing what goes back to work: another body in the place of a letter's own, which stays as it was."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import QuerySet, prefetch_related_objects
from django.utils.translation import gettext as _

from dlqadmin.clock import db_now
from dlqadmin.deadletters.json_patch import CannotPatch, Patch
from dlqadmin.deadletters.models import DeadLetter, LetterEdit
from dlqadmin.deadletters.sets import LetterSet
from dlqadmin.people.audit import Actor, actor_name, record

LARGEST_BODY = 262_144  # bytes that a person edits; a patch has no such bound
MOST_PATCHED = 20_000  # letters of one patch
SHOWN = 20  # changed bodies of a dry run
_BATCH = 500


class CannotEdit(ValueError):
    """Nothing was changed; the text says why."""


@dataclass(slots=True)
class Patched:
    """What a patch makes of a set, or would: the letters that change, that stay as they are, that cannot be patched.

    `refused`: how many for each reason. `examples`: the first that change, as (letter, body before, body after).
    """

    changed: int = 0
    unchanged: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    cutoff: int | None = None

    @property
    def all(self) -> int:
        """Every letter of the set."""
        return self.changed + self.unchanged + self.refused.total()


@transaction.atomic
def edit_letter(*, letter: DeadLetter, body: bytes, reason: str, by: Actor) -> None:
    """Let this body go to work when the open letter is sent back. Raises CannotEdit."""
    if not reason.strip():
        raise CannotEdit(_("Say why the body is changed."))
    before = _locked_body(letter)
    if before == body:
        raise CannotEdit(_("That is the body as it was: nothing to change."))
    _keep({letter.pk: body}, reason.strip(), "", by)
    record(
        by=by,
        action="letter.edit",
        target=letter,
        reason=reason.strip(),
        before={"bytes": len(before)},
        after={"bytes": len(body)},
    )


@transaction.atomic
def undo_edit(*, letter: DeadLetter, by: Actor) -> None:
    """Let the letter's own body go to work. Raises CannotEdit if it is not edited, or not open any more."""
    _locked_body(letter)
    if not LetterEdit.objects.filter(letter=letter).delete()[0]:
        raise CannotEdit(_("This letter is not edited."))
    record(by=by, action="letter.undo_edit", target=letter)


def try_patch(*, letters: LetterSet, patch: Patch) -> Patched:
    """What the patch would make of the open letters of a set; nothing is kept. Raises CannotEdit, BadQuery."""
    return _patch(letters, patch, None)


@transaction.atomic
def patch_letters(
    *, letters: LetterSet, patch: Patch, reason: str, by: Actor, changes: int | None = None
) -> Patched:
    """Let the patched bodies go to work when the letters of the set are sent back.

    A letter that was edited before is patched as it was edited; one that cannot be patched stays as it is. `changes`:
    how many must change, as was tried before. Raises CannotEdit, BadQuery.
    """
    if not reason.strip():
        raise CannotEdit(_("Say why the bodies are changed."))

    def keep(bodies: dict[int, bytes]) -> None:
        _keep(bodies, reason.strip(), patch.text, by)

    done = _patch(letters, patch, keep)
    if not done.changed:
        raise CannotEdit(_("The patch changes none of these letters."))
    if changes is not None and done.changed != changes:
        told = {"tried": changes, "now": done.changed}
        raise CannotEdit(
            _("It would change %(now)d letters, not the %(tried)d that you saw: try it again.") % told
        )
    after = {"filter": letters.text, "letters": done.changed, "operations": len(patch.operations)}
    record(by=by, action="letter.patch", target=letters.queue, reason=reason.strip(), after=after)
    return done


def _patch(letters: LetterSet, patch: Patch, keep: Callable[[dict[int, bytes]], None] | None) -> Patched:
    if letters.letters()[: MOST_PATCHED + 1].count() > MOST_PATCHED:
        raise CannotEdit(_("A patch takes at most %d letters: narrow the filter.") % MOST_PATCHED)
    done = Patched()
    for batch in _with_bodies(letters.letters(), lock=keep is not None):
        changed = _patch_batch(batch, patch, done)
        if keep:
            keep(changed)
        done.cutoff = batch[-1].pk
    return done


def _patch_batch(batch: list[DeadLetter], patch: Patch, done: Patched) -> dict[int, bytes]:
    """Patch these letters and count what became of them; the new bodies by letter."""
    changed = {}
    for letter in batch:
        body = body_to_send(letter) or b""
        try:
            patched = patch.apply(body)
        except CannotPatch as error:
            done.refused[str(error)] += 1
            continue
        if patched == body:
            done.unchanged += 1
            continue
        done.changed += 1
        changed[letter.pk] = patched
        if len(done.examples) < SHOWN:
            done.examples.append((letter.pk, body, patched))
    return changed


def _with_bodies(letters: QuerySet[DeadLetter], lock: bool) -> Iterator[list[DeadLetter]]:
    """The letters by id with their bodies, few at a time in memory."""
    if lock:
        letters = letters.select_for_update(of=("self",), no_key=True)
    last = 0
    while batch := list(letters.filter(pk__gt=last).only("body").order_by("pk")[:_BATCH]):
        prefetch_related_objects(batch, "edit")
        yield batch
        last = batch[-1].pk


def body_to_send(letter: DeadLetter) -> bytes | None:
    """The body that goes to work: the edited one, or the letter's own."""
    edit = edit_of(letter)
    body = edit.body if edit else letter.body
    return None if body is None else bytes(body)


def edit_of(letter: DeadLetter) -> LetterEdit | None:
    """What the letter's body was changed to, if it was."""
    try:
        return letter.edit
    except LetterEdit.DoesNotExist:
        return None


def _locked_body(letter: DeadLetter) -> bytes:
    """The body of a letter that stays open until the transaction ends. Raises CannotEdit."""
    rows = DeadLetter.objects.open().select_for_update(no_key=True).filter(pk=letter.pk)
    row = rows.only("body").first()
    if row is None:
        raise CannotEdit(_("Only an open letter can be edited: this one was sent back or settled."))
    return bytes(row.body or b"")


def _keep(bodies: dict[int, bytes], reason: str, patch: str, by: Actor) -> None:
    values = {
        "reason": reason,
        "patch": patch,
        "edited_by_id": by.pk if by else None,
        "edited_name": actor_name(by),
        "edited_at": db_now(),
    }
    LetterEdit.objects.bulk_create(
        [LetterEdit(letter_id=letter, body=body, **values) for letter, body in bodies.items()],
        update_conflicts=True,
        unique_fields=["letter"],
        update_fields=["body", "reason", "patch", "edited_by", "edited_name", "edited_at"],
    )
