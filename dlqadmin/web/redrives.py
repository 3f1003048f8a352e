"""Redrives: how many letters went back, and what became of each."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Prefetch, prefetch_related_objects
from django.http import HttpRequest, HttpResponse

from dlqadmin.people.permissions import may, visible_owners
from dlqadmin.redrive.models import Redrive, RedriveItem, RedrivePart
from dlqadmin.web.live import render_live
from dlqadmin.web.load import load_redrive
from dlqadmin.web.routes import route

MOST_REDRIVES = 100
MOST_ITEMS = 50
MOST_COUNTED = 20_000
MOST_PARTS = 50
NOT_SENT = (RedriveItem.Outcome.PENDING, RedriveItem.Outcome.SKIPPED, RedriveItem.Outcome.FAILED)
FINISHED = (Redrive.State.DONE, Redrive.State.STOPPED, Redrive.State.CANCELLED)


@dataclass(frozen=True, slots=True)
class Bar:
    """One outcome in the ledger and in the bar. `start` and `share` in per cent of all letters."""

    outcome: str
    css: str
    number: int
    start: float
    share: float


# What a person would look at, in this order.
LOOK_FIRST = (
    RedriveItem.Outcome.DIED_AGAIN,
    RedriveItem.Outcome.FAILED,
    RedriveItem.Outcome.SENT,
    RedriveItem.Outcome.DISCARDED,
    RedriveItem.Outcome.SKIPPED,
    RedriveItem.Outcome.SUCCEEDED,
    RedriveItem.Outcome.PENDING,
)

# The order of the ledger, with the class of each part of the bar.
_BARS = [
    (RedriveItem.Outcome.SUCCEEDED, "part-ok"),
    (RedriveItem.Outcome.DIED_AGAIN, "part-critical"),
    (RedriveItem.Outcome.DISCARDED, "part-skip"),
    (RedriveItem.Outcome.SKIPPED, "part-skip"),
    (RedriveItem.Outcome.FAILED, "part-2"),
    (RedriveItem.Outcome.SENT, "part-4"),
    (RedriveItem.Outcome.PENDING, "part-wait"),
]


@route("redrives.view")
def redrives(request: HttpRequest) -> HttpResponse:
    """The newest redrives of the queues that the person may see."""
    owners = visible_owners(request.user)
    found = Redrive.objects.select_related("queue").order_by("-pk")
    if owners is not None:
        found = found.filter(queue__owner_id__in=owners)
    rows = with_counts(found[:MOST_REDRIVES])
    context = {
        "redrives": rows,
        "running": sum(row.state not in FINISHED for row in rows),
        "most": MOST_REDRIVES,
    }
    return render_live(request, "redrives/list.html", context, seconds=10)


@route("redrive.view", load_redrive)
def redrive(request: HttpRequest, redrive: Redrive) -> HttpResponse:
    """The page of one redrive; it polls until the redrive has ended."""
    counts = counts_of([redrive])[redrive.pk]
    total, bars = counts.total(), bars_of(counts)
    open_items = counts[RedriveItem.Outcome.PENDING] + counts[RedriveItem.Outcome.SENT]
    finished = redrive.state in FINISHED
    parts = list(redrive.parts.select_related("cluster", "diagnosis").order_by("left_out", "-letters", "pk"))
    context = {
        "redrive": redrive,
        "queue": redrive.queue,
        "bars": bars,
        "total": total,
        "difference": total - sum(bar.number for bar in bars),
        "settled": total - open_items,
        "settled_percent": 100 * (total - open_items) / total if total else 0.0,
        "died": counts[RedriveItem.Outcome.DIED_AGAIN],
        "pending": counts[RedriveItem.Outcome.PENDING],
        "sent": total - sum(counts[outcome] for outcome in NOT_SENT),
        "parts": parts[:MOST_PARTS],
        "only": parts[0] if len(parts) == 1 else None,
        "items": items_to_look_at(redrive),
        "most_items": MOST_ITEMS,
        "finished": finished,
        "may_control": may(request.user, "redrive.control", redrive),
    }
    return render_live(request, "redrives/page.html", context, seconds=2, finished=finished)


def counts_of(redrives: list[Redrive]) -> dict[int, Counter[str]]:
    """The items by outcome of each redrive. Of large ones as of the job's last turn: counting a million items for each
    look would take longer than a look should."""
    counts = {row.pk: Counter[str](row.outcomes) for row in redrives}
    small = [pk for pk, kept in counts.items() if kept.total() <= MOST_COUNTED]
    items = RedriveItem.objects.filter(redrive__in=small).values_list("redrive_id", "outcome").order_by()
    counts |= {pk: Counter() for pk in small}
    for redrive_id, outcome, number in items.annotate(number=Count("pk")):
        counts[redrive_id][outcome] = number
    return counts


def bars_of(counts: Counter[str]) -> list[Bar]:
    """The outcomes in their order, with their places in a bar."""
    total, start, bars = counts.total(), 0.0, []
    for outcome, css in _BARS:
        share = 100 * counts[outcome] / total if total else 0.0
        bars.append(Bar(outcome.value, css, counts[outcome], start, share))
        start += share
    return bars


def with_counts(redrives: Iterable[Redrive]) -> list[Any]:
    """The redrives, each with `total`, `succeeded`, `died`, and its parts: two queries for all."""
    rows = list(redrives)
    counts = counts_of(rows)
    prefetch_related_objects(
        rows, Prefetch("parts", RedrivePart.objects.select_related("cluster").order_by("pk"))
    )
    for row in rows:
        found = counts[row.pk]
        row.total = found.total()  # type: ignore[attr-defined]
        row.succeeded = found[RedriveItem.Outcome.SUCCEEDED]  # type: ignore[attr-defined]
        row.died = found[RedriveItem.Outcome.DIED_AGAIN]  # type: ignore[attr-defined]
    return rows


def items_to_look_at(redrive: Redrive) -> list[RedriveItem]:
    """The newest items, those first whose outcome wants a look; without the bodies of their letters."""
    found: list[RedriveItem] = []
    for outcome in LOOK_FIRST:
        # By the index on (redrive, outcome, id): a sort of a million items takes longer than a look should.
        items = redrive.items.filter(outcome=outcome).select_related("letter").order_by("-pk")
        wanted = items.only(
            "outcome", "why", "sent_at", "settled_at", "letter__key", "letter__type", "redrive"
        )
        found += wanted[: MOST_ITEMS - len(found)]
        if len(found) == MOST_ITEMS:
            break
    return found
