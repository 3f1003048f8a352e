"""The list of letters: filters, pages by id, and an offer of what is new. Bodies are never loaded."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from dlqadmin.deadletters.models import DeadLetter, DeadLetterQuerySet
from dlqadmin.people.permissions import visible_owners
from dlqadmin.queues.models import SourceQueue
from dlqadmin.web.live import render_live
from dlqadmin.web.routes import route

PAGE = 50
LARGEST_ID = 2**63 - 1


class LettersFilter(forms.Form):
    """What the list shows. Every field can be left out; the state is then `open`."""

    queue = forms.ModelChoiceField(
        SourceQueue.objects.none(),
        to_field_name="name",
        required=False,
        label=_("Queue"),
        empty_label=_("All queues"),
    )
    state = forms.ChoiceField(
        choices=[*DeadLetter.State.choices, ("all", _("all states"))], required=False, label=_("State")
    )
    cluster = forms.IntegerField(required=False, min_value=1, max_value=LARGEST_ID, widget=forms.HiddenInput)
    before = forms.IntegerField(required=False, min_value=1, max_value=LARGEST_ID)
    after = forms.IntegerField(required=False, min_value=0, max_value=LARGEST_ID)
    newest = forms.IntegerField(required=False, min_value=0, max_value=LARGEST_ID)

    def __init__(self, data: Any, owners: list[int] | None) -> None:
        super().__init__({**data.dict(), "state": data.get("state") or DeadLetter.State.OPEN})
        queues = SourceQueue.objects.visible_to_owners(owners).order_by("name")
        self.fields["queue"].queryset = queues  # type: ignore[attr-defined]

    def letters(self, owners: list[int] | None) -> DeadLetterQuerySet:
        """The letters that match; none if the filter itself is wrong."""
        if not self.is_valid():
            return DeadLetter.objects.none()
        asked, letters = self.cleaned_data, DeadLetter.objects.visible_to_owners(owners)
        if asked["queue"]:
            letters = letters.filter(queue=asked["queue"])
        if asked["state"] != "all":
            letters = letters.filter(state=asked["state"])
        if asked["cluster"]:
            letters = letters.of_cluster(asked["cluster"])
        return letters


@route("letters.view")
def letters(request: HttpRequest) -> HttpResponse:
    """Letters that match the filter, the newest first."""
    owners = visible_owners(request.user)
    form = LettersFilter(request.GET, owners)
    matching = form.letters(owners)
    newest = form.cleaned_data.get("newest")
    if newest is None:
        newest = matching.order_by("-pk").values_list("pk", flat=True).first() or 0
    rows, newer, older = page_of(matching, form.cleaned_data.get("before"), form.cleaned_data.get("after"))
    context = {
        "form": form,
        "filtered": filter_query(request),
        "rows": rows,
        "newer": newer,
        "older": older,
        "total": matching.count(),
        "oldest": matching.order_by("died_at").values_list("died_at", flat=True).first(),
        "new": matching.filter(pk__gt=newest).count(),
    }
    return render_live(request, "letters/page.html", context, seconds=10, newest=newest)


def page_of(
    letters: DeadLetterQuerySet, before: int | None, after: int | None
) -> tuple[list[DeadLetter], int | None, int | None]:
    """The rows of a page, and the ids for the links to newer and older pages (None: there are no more)."""
    if after is not None:
        rows = list(letters.listed().filter(pk__gt=after).order_by("pk")[: PAGE + 1])
        more, rows = len(rows) > PAGE, rows[:PAGE][::-1]
        return rows, (rows[0].pk if more else None), (rows[-1].pk if rows else None)
    listed = letters.listed() if before is None else letters.listed().filter(pk__lt=before)
    rows = list(listed[: PAGE + 1])
    more, rows = len(rows) > PAGE, rows[:PAGE]
    return rows, (rows[0].pk if rows and before is not None else None), (rows[-1].pk if more else None)


def filter_query(request: HttpRequest) -> str:
    """The filter alone as a query string, to build links from."""
    asked = request.GET.copy()
    for name in ("before", "after", "newest", "version"):
        asked.pop(name, None)
    return asked.urlencode()
