"""Letters that are not sent back: discard, resolve by hand, open again; one letter, or all of a set."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.query import LARGEST, parse, states_of
from dlqadmin.deadletters.sets import LetterSet
from dlqadmin.deadletters.settling import CannotSettle, discard, resolve, undo_settling
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.plan import resolve_without_sending
from dlqadmin.web.asked import about_letters, address, in_list
from dlqadmin.web.load import load_letter, load_queue
from dlqadmin.web.routes import route, signed_in_user

MOST_AT_ONCE = 100_000
MOST_SHOWN = 10
# What can be opened again, if the filter asks for it.
SETTLED = {DeadLetter.State.DISCARDED.value, DeadLetter.State.RESOLVED.value}


class SettleForm(forms.Form):
    """All letters of a set up to one, their number typed."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=1_000,
        required=False,
        help_text=gettext_lazy("It stands in the audit trail."),
    )
    number = forms.IntegerField(
        label=gettext_lazy("Type the number of letters"), min_value=1, max_value=MOST_AT_ONCE
    )
    cutoff = forms.IntegerField(min_value=1, max_value=LARGEST, widget=forms.HiddenInput)


@route(post="letter.settle", load=load_letter)
def settle_letter(request: HttpRequest, letter: DeadLetter) -> HttpResponse:
    """Discard or resolve one letter, or open it again."""
    try:
        _settle(request, [letter.pk], letter.queue, request.POST.get("reason", "")[:1_000])
    except CannotSettle as error:
        messages.error(request, str(error))
    return redirect("letter", letter.pk)


@route("letter.settle", load_queue, post="letter.settle")
@about_letters
def settle_letters(request: HttpRequest, letters: LetterSet) -> HttpResponse:
    """Discard or resolve the letters that the person saw: as many as were typed, and none that came later.

    A filter that asks for discarded or resolved letters opens them again.
    """
    if request.method != "POST":
        return _page(request, letters)
    form = SettleForm(request.POST)
    if not form.is_valid():
        return _page(request, letters, form=form, status=422)
    try:
        chosen = _chosen(letters.up_to(form.cleaned_data["cutoff"]), form.cleaned_data["number"])
        _settle(request, chosen, letters.queue, form.cleaned_data["reason"])
    except CannotSettle as error:
        return _page(request, letters, form=form, wrong=str(error), status=422)
    return redirect(in_list(letters))


@route(post="letter.settle", load=load_queue)
@about_letters
def resolve_dropped(request: HttpRequest, letters: LetterSet) -> HttpResponse:
    """Resolve the letters of a preview that a consumer would drop, without sending them."""
    try:
        number = resolve_without_sending(letters=letters, by=signed_in_user(request))
    except CannotSettle as error:
        messages.error(request, str(error))
    else:
        said = ngettext("%d letter was resolved.", "%d letters were resolved.", number)
        messages.success(request, said % number)
    return redirect(address("redrive-letters", letters))


def state_of(letters: LetterSet) -> str:
    """The state of the letters that the page is about: open, unless the filter asks for one that can be undone."""
    asked = states_of(parse(letters.text))
    return asked.pop() if len(asked) == 1 and asked <= SETTLED else DeadLetter.State.OPEN.value


def _page(request: HttpRequest, letters: LetterSet, status: int = 200, **more: Any) -> HttpResponse:
    state = state_of(letters)
    found = letters.letters(state)
    newest = found.order_by("-pk").values_list("pk", flat=True).first()
    context = {
        "letters": letters,
        "queue": letters.queue,
        "list_address": in_list(letters),
        "number": found.count(),
        "rows": found.listed()[:MOST_SHOWN],
        "reopen": state != DeadLetter.State.OPEN,
        "most": MOST_AT_ONCE,
        "form": SettleForm(initial={"cutoff": newest}),
    }
    return render(request, "letters/settle.html", context | more, status=status)


def _chosen(letters: LetterSet, typed: int) -> list[int]:
    found = letters.letters(state_of(letters)).order_by("pk")
    chosen = list(found.values_list("pk", flat=True)[: MOST_AT_ONCE + 1])
    if len(chosen) != typed:
        told = {"typed": typed, "there": len(chosen)}
        raise CannotSettle(_("You typed %(typed)d; there are %(there)d letters.") % told)
    return chosen


def _settle(request: HttpRequest, letters: list[int], queue: SourceQueue, reason: str) -> None:
    by = signed_in_user(request)
    if "discard" in request.POST:
        number = discard(letters=letters, queue=queue, reason=reason, by=by)
        said = ngettext("%d letter was discarded.", "%d letters were discarded.", number)
    elif "resolve" in request.POST:
        number = resolve(letters=letters, queue=queue, reason=reason, by=by)
        said = ngettext("%d letter was resolved.", "%d letters were resolved.", number)
    else:
        number = undo_settling(letters=letters, queue=queue, by=by)
        said = ngettext("%d letter is open again.", "%d letters are open again.", number)
    messages.success(request, said % number)
