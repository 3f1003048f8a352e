"""The set of letters that a page is about: `?q=FILTER`, or letters chosen one by one, `?id=4&id=8&chosen=STATE`."""

from collections.abc import Callable
from functools import wraps
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from dlqadmin.deadletters.query import BadQuery, Field, parse, quoted
from dlqadmin.deadletters.sets import LetterSet
from dlqadmin.queues.models import SourceQueue


def about_letters(
    view: Callable[[HttpRequest, LetterSet], HttpResponse],
) -> Callable[[HttpRequest, SourceQueue], HttpResponse]:
    """Call the view with the letters of the queue that the address asks for.

    A filter that cannot be read leads to the list of letters, which says what is wrong with it and where.
    """

    @wraps(view)
    def about(request: HttpRequest, queue: SourceQueue) -> HttpResponse:
        text, chosen = request.GET.get("q", ""), request.GET.getlist("id")
        if "chosen" in request.GET:
            text = f"id:{','.join(chosen)} state:{request.GET['chosen']}"
            if not chosen:
                messages.warning(request, _("Select letters first: nothing was selected."))
                return redirect(list_address(f"queue:{quoted(queue.name)} state:{request.GET['chosen']}"))
        try:
            parse(text)
        except BadQuery:
            return redirect(list_address(text))
        return view(request, LetterSet(queue, text))

    return about


def address(name: str, letters: LetterSet) -> str:
    """The address of a page about these letters."""
    return reverse(name, args=[letters.queue.name]) + "?" + urlencode({"q": letters.text})


def list_address(text: str) -> str:
    """The address of the list of the letters that a filter finds."""
    return reverse("letters") + "?" + urlencode({"q": text})


def in_list(letters: LetterSet) -> str:
    """The address of the list of these letters."""
    terms = parse(letters.text)
    named = any(term.field is Field.QUEUE for term in terms)
    return list_address(
        letters.text if named else f"queue:{quoted(letters.queue.name)} {letters.text}".strip()
    )
