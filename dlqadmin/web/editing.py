"""Editing what goes back to work: the body of one letter as text or bytes, or those of a set with a JSON patch."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from dlqadmin.deadletters.edit import (
    LARGEST_BODY,
    CannotEdit,
    Patched,
    body_to_send,
    edit_letter,
    patch_letters,
    try_patch,
    undo_edit,
)
from dlqadmin.deadletters.editable import NotReadable, as_text, from_hex, from_text, to_hex
from dlqadmin.deadletters.json_patch import EXAMPLE, BadPatch, Patch, read_patch
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.query import LARGEST
from dlqadmin.deadletters.sets import LetterSet
from dlqadmin.web.asked import about_letters, address, in_list
from dlqadmin.web.diff import DiffLine, diff_bodies
from dlqadmin.web.load import load_letter, load_native_queue
from dlqadmin.web.routes import route, signed_in_user


class BodyForm(forms.Form):
    """Another body for one letter. `form`: whether `body` is text or hexadecimal bytes."""

    form = forms.ChoiceField(choices=[("text", "text"), ("hex", "hex")], widget=forms.HiddenInput)
    # Nothing is stripped: a blank at the end may be what matters.
    body = forms.CharField(
        label=gettext_lazy("Body"),
        required=False,
        strip=False,
        max_length=4 * LARGEST_BODY,
        widget=forms.Textarea(attrs={"rows": 20, "class": "mono", "spellcheck": "false"}),
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=1_000,
        help_text=gettext_lazy("It stands in the audit trail and on the letter."),
    )


class PatchForm(forms.Form):
    """A JSON patch for the bodies of a set."""

    patch = forms.CharField(
        label=gettext_lazy("JSON patch (RFC 6902)"),
        max_length=50_000,
        widget=forms.Textarea(
            attrs={"rows": 6, "class": "mono", "spellcheck": "false", "placeholder": EXAMPLE}
        ),
        help_text=gettext_lazy("add, remove, replace, move, copy, test; numbers keep every digit"),
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=1_000,
        help_text=gettext_lazy("It stands in the audit trail and on the letters."),
    )
    cutoff = forms.IntegerField(min_value=1, max_value=LARGEST, required=False, widget=forms.HiddenInput)
    changes = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)


@route("letter.edit", load_letter, post="letter.edit")
def edit_body(request: HttpRequest, letter: DeadLetter) -> HttpResponse:
    """Write the body that goes to work in the place of the letter's own."""
    if request.method != "POST":
        return _body_page(request, letter)
    if "undo" in request.POST:
        return _undo(request, letter)
    form = BodyForm(request.POST)
    if not form.is_valid():
        return _body_page(request, letter, form=form, status=422)
    try:
        original = bytes(letter.body or b"")
        read = from_hex if form.cleaned_data["form"] == "hex" else from_text
        body = read(form.cleaned_data["body"], original, letter.content_type)
        edit_letter(letter=letter, body=body, reason=form.cleaned_data["reason"], by=signed_in_user(request))
    except (NotReadable, CannotEdit) as error:
        form.add_error("body", str(error))
        return _body_page(request, letter, form=form, status=422)
    messages.success(request, _("The edited body goes to work when the letter is sent back."))
    return redirect("letter", letter.pk)


def _undo(request: HttpRequest, letter: DeadLetter) -> HttpResponse:
    try:
        undo_edit(letter=letter, by=signed_in_user(request))
    except CannotEdit as error:
        messages.error(request, str(error))
    else:
        messages.success(request, _("The letter goes back with its own body."))
    return redirect("letter", letter.pk)


def _body_page(request: HttpRequest, letter: DeadLetter, status: int = 200, **more: Any) -> HttpResponse:
    body = body_to_send(letter) or b""
    text = as_text(body, letter.content_encoding)
    form = "hex" if text is None or request.GET.get("as") == "hex" else "text"
    context = {
        "letter": letter,
        "queue": letter.queue,
        "form": BodyForm(initial={"form": form, "body": to_hex(body) if form == "hex" else text}),
        "as_hex": form == "hex",
        "has_text": text is not None,
        "too_large": len(body) > LARGEST_BODY,
        "most": LARGEST_BODY,
    }
    return render(request, "letter/edit.html", context | more, status=status)


@route("letter.edit", load_native_queue, post="letter.edit")
@about_letters
def patch_bodies(request: HttpRequest, letters: LetterSet) -> HttpResponse:
    """Try a JSON patch on the open letters of a set, look at what it changes, and keep it."""
    if request.method != "POST":
        return _patch_page(request, letters, PatchForm())
    form = PatchForm(request.POST)
    if not form.is_valid():
        return _patch_page(request, letters, form, status=422)
    try:
        patch = read_patch(form.cleaned_data["patch"])
        if "keep" in request.POST:
            return _keep(request, letters, form, patch)
        tried = try_patch(letters=letters, patch=patch)
    except (BadPatch, CannotEdit) as error:
        form.add_error("patch", str(error))
        return _patch_page(request, letters, form, status=422)
    return _patch_page(request, letters, form, tried=tried)


def _keep(request: HttpRequest, letters: LetterSet, form: PatchForm, patch: Patch) -> HttpResponse:
    """Keep what was tried: of the same letters, and only if it still changes as many."""
    asked = form.cleaned_data
    by, frozen = signed_in_user(request), letters.up_to(asked["cutoff"])
    done = patch_letters(letters=frozen, patch=patch, reason=asked["reason"], by=by, changes=asked["changes"])
    said = ngettext("%d body was changed.", "%d bodies were changed.", done.changed)
    messages.success(request, said % done.changed)
    return redirect(address("redrive-letters", letters))


def _patch_page(
    request: HttpRequest, letters: LetterSet, form: PatchForm, tried: Patched | None = None, status: int = 200
) -> HttpResponse:
    context = {
        "letters": letters,
        "queue": letters.queue,
        "list_address": in_list(letters),
        "number": letters.letters().count(),
        "form": form,
        "tried": tried,
        "refused": tried.refused.most_common() if tried else [],
        "examples": diffs_of(tried) if tried else [],
    }
    return render(request, "letters/patch.html", context, status=status)


def diffs_of(tried: Patched) -> list[tuple[int, list[DiffLine]]]:
    """The first letters that change, each with its changed lines."""
    return [(letter, diff_bodies(before, after)) for letter, before, after in tried.examples]
