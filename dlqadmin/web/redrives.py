"""Redrives: how many letters went back, and what became of each."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count
from django.http import HttpRequest, HttpResponse

from dlqadmin.people.permissions import may, visible_owners
from dlqadmin.redrive.models import Redrive, RedriveItem
from dlqadmin.redrive.run import count_outcomes
from dlqadmin.web.live import render_live
from dlqadmin.web.load import load_redrive
from dlqadmin.web.routes import route

MOST_REDRIVES = 100
MOST_ITEMS = 50
MOST_COUNTED = 20_000
NOT_SENT = (RedriveItem.Outcome.PENDING, RedriveItem.Outcome.SKIPPED, RedriveItem.Outcome.FAILED)
FINISHED = (Redrive.State.DONE, Redrive.State.STOPPED, Redrive.State.CANCELLED)


@dataclass(frozen=True, slots=True)
class Part:
    """One outcome in the ledger and in the bar. `start` and `share` in per cent of all letters."""

    outcome: str
    css: str
    number: int
    start: float
    share: float


# The order of the ledger, with the class of each part of the bar.
_PARTS = [
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
    found = Redrive.objects.select_related("queue", "cluster").order_by("-pk")
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
    counts = counts_for_page(redrive)
    total, parts = counts.total(), parts_of(counts)
    open_items = counts[RedriveItem.Outcome.PENDING] + counts[RedriveItem.Outcome.SENT]
    finished = redrive.state in FINISHED
    context = {
        "redrive": redrive,
        "queue": redrive.queue,
        "parts": parts,
        "total": total,
        "difference": total - sum(part.number for part in parts),
        "settled": total - open_items,
        "settled_percent": 100 * (total - open_items) / total if total else 0.0,
        "died": counts[RedriveItem.Outcome.DIED_AGAIN],
        "pending": counts[RedriveItem.Outcome.PENDING],
        "sent": total - sum(counts[outcome] for outcome in NOT_SENT),
        "items": _items(redrive),
        "most_items": MOST_ITEMS,
        "finished": finished,
        "may_control": may(request.user, "redrive.control", redrive),
    }
    return render_live(request, "redrives/page.html", context, seconds=2, finished=finished)


def counts_for_page(redrive: Redrive) -> Counter[str]:
    """The items by outcome. Of a large redrive that is under way as of the job's last turn: counting a million items
    for each look would take longer than a look should."""
    kept = Counter[str](redrive.outcomes)
    if redrive.state not in FINISHED and kept.total() > MOST_COUNTED:
        return kept
    return count_outcomes(redrive)


def parts_of(counts: Counter[str]) -> list[Part]:
    """The outcomes in their order, with their places in a bar."""
    total, start, parts = counts.total(), 0.0, []
    for outcome, css in _PARTS:
        share = 100 * counts[outcome] / total if total else 0.0
        parts.append(Part(outcome.value, css, counts[outcome], start, share))
        start += share
    return parts


def with_counts(redrives: Iterable[Redrive]) -> list[Any]:
    """The redrives, each with `total`, `succeeded` and `died`: one query for all."""
    rows = list(redrives)
    items = RedriveItem.objects.filter(redrive__in=rows).values_list("redrive_id", "outcome").order_by()
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for redrive_id, outcome, number in items.annotate(number=Count("pk")):
        counts[redrive_id][outcome] = number
    for row in rows:
        found = counts[row.pk]
        row.total = found.total()  # type: ignore[attr-defined]
        row.succeeded = found[RedriveItem.Outcome.SUCCEEDED]  # type: ignore[attr-defined]
        row.died = found[RedriveItem.Outcome.DIED_AGAIN]  # type: ignore[attr-defined]
    return rows


def _items(redrive: Redrive) -> Any:
    """The items that ended or were sent last, without the bodies of their letters."""
    items = redrive.items.select_related("letter").order_by("-settled_at", "-sent_at", "-pk")
    return items.only("outcome", "why", "sent_at", "settled_at", "letter__key", "letter__type", "redrive")[
        :MOST_ITEMS
    ]
