"""The list of letters: a filter, pages by id, and an offer of what is new. Bodies are never loaded."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import Max
from django.http import HttpRequest, HttpResponse

from dlqadmin.deadletters.ends import newest_ids, oldest_ids
from dlqadmin.deadletters.models import DeadLetter, DeadLetterQuerySet
from dlqadmin.deadletters.query import LARGEST, BadQuery, Field, Term, parse, states_of
from dlqadmin.deadletters.sets import LetterSet, leaves_named, matching
from dlqadmin.people.permissions import may, visible_owners
from dlqadmin.queues.models import SourceQueue
from dlqadmin.web.asked import address, list_address
from dlqadmin.web.live import render_live
from dlqadmin.web.routes import route

PAGE = 50
MOST_COUNTED = 10_000  # an exact count of a common word over a million letters takes seconds


@dataclass(frozen=True)
class Asked:
    """The filter of the list: its text, its terms, and what is wrong with it, cut at the place of the mistake."""

    text: str
    terms: tuple[Term, ...] = ()
    mistake: str = ""
    before: str = ""
    wrong: str = ""
    after: str = ""

    @property
    def chips(self) -> list[tuple[str, str]]:
        """Each term as it was written, and the address of the list without it."""
        return [
            (
                self.text[term.start : term.end],
                list_address(f"{self.text[: term.start]}{self.text[term.end :]}".strip()),
            )
            for term in self.terms
        ]

    @property
    def states(self) -> set[str]:
        """The states that are asked for; open ones if none is."""
        return states_of(self.terms) or {DeadLetter.State.OPEN.value}

    @property
    def one_state(self) -> list[str]:
        """The state that it asks for, if that is one; else none."""
        return [] if len(self.states) > 1 or self.states == {"all"} else list(self.states)

    @property
    def is_of_one_queue(self) -> bool:
        """Whether it finds letters of one queue in one state, as `queue:` says, whatever else it asks for."""
        named = self._named()
        by_cluster = Field.CLUSTER in named or Field.TEMPLATE in named
        return bool(self.one_state) and named.count(Field.QUEUE) == 1 and not by_cluster

    @cached_property
    def leaves(self) -> list[int]:
        """The leaves of the one `cluster:` or `template:`, if nothing else is asked for but a queue and one state."""
        named = [field for field in self._named() if field is not Field.QUEUE]
        if not self.one_state or named not in ([Field.CLUSTER], [Field.TEMPLATE]):
            return []
        return [leaf for term in self.terms if term.numbers for leaf in leaves_named(term)]

    def _named(self) -> list[Field]:
        return [term.field for term in self.terms if term.field is not Field.STATE]

    def letters(self, owners: list[int] | None) -> DeadLetterQuerySet:
        """The letters that match; none if the filter cannot be read."""
        if self.mistake:
            return DeadLetter.objects.none()
        letters = matching(DeadLetter.objects.visible_to_owners(owners), list(self.terms))
        return letters if states_of(self.terms) else letters.open()


@route("letters.view")
def letters(request: HttpRequest) -> HttpResponse:
    """Letters that match the filter, the newest first."""
    owners, asked = visible_owners(request.user), asked_for(request.GET.get("q", ""))
    found = asked.letters(owners)
    before, after, newest = (number_of(request, name) for name in ("before", "after", "newest"))
    rows, newer, older = page_of(found, before, after, asked)
    new = found.filter(pk__gt=newest)[: MOST_COUNTED + 1].count() if newest is not None else 0
    if newest is None:
        newest = (
            rows[0].pk if rows and before is after is None else found.aggregate(last=Max("pk"))["last"]
        ) or 0
    total = found[: MOST_COUNTED + 1].count()
    context = {
        "asked": asked,
        "filtered": filter_query(request),
        "rows": rows,
        "newer": newer,
        "older": older,
        "total": min(total, MOST_COUNTED),
        "more": total > MOST_COUNTED,
        "oldest": first_of(found, asked),
        "new": new,
        **acts_on(request, asked, rows),
    }
    return render_live(request, "letters/page.html", context, seconds=10, newest=newest)


def first_of(letters: DeadLetterQuerySet, asked: Asked) -> datetime | None:
    """When the first of them died; None if there is none."""
    if asked.is_of_one_queue:
        in_order = letters.of_one_queue().reverse()
    elif asked.leaves:
        in_order = letters.filter(pk__in=oldest_ids(asked.leaves, 1, asked.one_state))
    else:
        in_order = letters.order_by("pk")
    return in_order.values_list("died_at", flat=True).first()


def asked_for(text: str) -> Asked:
    """The filter that this text is."""
    try:
        return Asked(text, tuple(parse(text)))
    except BadQuery as error:
        return Asked(
            text, (), str(error), text[: error.start], text[error.start : error.end], text[error.end :]
        )


def acts_on(request: HttpRequest, asked: Asked, rows: list[DeadLetter]) -> dict[str, Any]:
    """What can be done with the letters of the list: something only if they are known to be of one queue."""
    queue = _one_queue(asked, visible_owners(request.user))
    state = next(iter(asked.states)) if len(asked.states) == 1 else ""
    if queue is None or not rows or not may(request.user, "redrive.start", queue):
        return {"queue": queue, "state": state}
    letters = LetterSet(queue, asked.text)
    to_redrive = address("redrive-letters", letters) if state == "open" else ""
    to_settle = address("settle-letters", letters) if state in ("open", "discarded", "resolved") else ""
    return {
        "queue": queue,
        "state": state,
        "to_redrive": to_redrive,
        "to_settle": to_settle,
        "to_all": to_redrive or to_settle,
        "may_patch": state == "open" and may(request.user, "letter.edit", queue),
    }


def _one_queue(asked: Asked, owners: list[int] | None) -> SourceQueue | None:
    """The queue that the filter names, by its name or by a cluster, if these owners may see it."""
    queues = SourceQueue.objects.visible_to_owners(owners)
    names = [term.text for term in asked.terms if term.field is Field.QUEUE]
    if len(names) == 1:
        return queues.filter(name=names[0]).first()
    clusters = [pk for term in asked.terms if term.field is Field.CLUSTER for pk in term.numbers]
    return queues.filter(clusters=clusters[0]).first() if len(clusters) == 1 and not names else None


def number_of(request: HttpRequest, name: str) -> int | None:
    """The letter that an address names; None if it names none."""
    told = request.GET.get(name, "")
    return (
        int(told) if told.isascii() and told.isdigit() and len(told) < 20 and int(told) <= LARGEST else None
    )


def page_of(
    letters: DeadLetterQuerySet, before: int | None, after: int | None, asked: Asked
) -> tuple[list[DeadLetter], int | None, int | None]:
    """The rows of a page, and the ids for the links to newer and older pages (None: there are no more)."""
    if after is not None:
        rows = list(letters.listed().filter(pk__gt=after).order_by("pk")[: PAGE + 1])
        more, rows = len(rows) > PAGE, rows[:PAGE][::-1]
        return rows, (rows[0].pk if more else None), (rows[-1].pk if rows else None)
    rows = list(_older(letters.listed(), before, asked)[: PAGE + 1])
    more, rows = len(rows) > PAGE, rows[:PAGE]
    return rows, (rows[0].pk if rows and before is not None else None), (rows[-1].pk if more else None)


def _older(listed: DeadLetterQuerySet, before: int | None, asked: Asked) -> DeadLetterQuerySet:
    """The letters below `before`, by the index that has their order."""
    if asked.is_of_one_queue:
        return listed.of_one_queue(before)
    if asked.leaves:
        return listed.filter(pk__in=newest_ids(asked.leaves, PAGE + 1, asked.one_state, before))
    return listed if before is None else listed.filter(pk__lt=before)


def filter_query(request: HttpRequest) -> str:
    """The filter alone as a query string, to build links from."""
    asked = request.GET.copy()
    for name in ("before", "after", "newest", "version"):
        asked.pop(name, None)
    return asked.urlencode()
