"""The overview: which queues need a person, and what is the next right step in each."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dlqadmin.alerts.urgency import QueueUrgency
from dlqadmin.redrive.ledger import Ledger, read_ledgers
from dlqadmin.redrive.stages import Progress, Stage, progress_of
from dlqadmin.web.frame import Sidebar
from dlqadmin.web.live import render_live
from dlqadmin.web.routes import route

MOST_STEPS = 12
MOST_ROWS = 50  # the most urgent; of more, a link shows all


@dataclass(frozen=True, slots=True)
class Row:
    """A queue of the overview."""

    urgency: QueueUrgency
    ledger: Ledger
    progress: Progress | None
    paused: bool


@dataclass(frozen=True, slots=True)
class Step:
    """The one right next step in a queue: what is the case, and the button that leads on."""

    row: Row
    what: str
    action: str
    url: str


@route("overview.view")
def overview(request: HttpRequest) -> HttpResponse:
    """All queues that the person may see, the most urgent first."""
    sidebar = Sidebar(request.user)
    most = len(sidebar.all_queues) if "all" in request.GET else MOST_ROWS
    rows = overview_rows(sidebar.all_queues, sidebar.paused, most)
    steps = [next_step(row) for row in rows[:MOST_STEPS] if row.urgency.letters]
    context = {
        "sidebar": sidebar,
        "rows": rows[:most],
        "more_rows": len(rows[most:]),
        "all": len(rows),
        "steps": steps,
        "more_steps": sum(1 for row in rows if row.urgency.letters) - len(steps),
    }
    return render_live(request, "overview/page.html", context | totals(rows), seconds=10)


def overview_rows(queues: list[QueueUrgency], paused: set[int], most: int) -> list[Row]:
    """The queues with their ledgers, the first `most` also with the progress of their largest clusters: two queries for
    any number."""
    ledgers = read_ledgers([queue.queue_id for queue in queues])
    progress = progress_of([queue.top_cluster for queue in queues[:most] if queue.top_cluster])
    return [
        Row(
            queue,
            ledgers[queue.queue_id],
            progress.get(queue.top_cluster or 0),
            queue.queue_id in paused,
        )
        for queue in queues
    ]


def next_step(row: Row) -> Step:
    """What a person should do next about a queue with open letters: it follows from its largest cluster."""
    queue, progress = row.urgency, row.progress
    if progress is None or queue.top_cluster is None:
        return Step(row, _("Its letters have no cluster yet"), _("Open"), reverse("queue", args=[queue.name]))
    number = {"letters": number_format(queue.top_letters, force_grouping=True)}
    if progress.gate_open:
        what = ngettext(
            "The gate is open for %(letters)s letter",
            "The gate is open for %(letters)s letters",
            queue.top_letters,
        )
        action = _("Redrive")
    elif progress.stage == Stage.NEW:
        what = ngettext(
            "%(letters)s letter of one cause has no diagnosis",
            "%(letters)s letters of one cause have no diagnosis",
            queue.top_letters,
        )
        action = _("Diagnose")
    elif progress.stage == Stage.DIAGNOSED:
        what = ngettext(
            "%(letters)s letter is diagnosed, and waits for a fix",
            "%(letters)s letters are diagnosed, and wait for a fix",
            queue.top_letters,
        )
        action = _("Declare the fix")
    elif progress.stage == Stage.CAME_BACK:
        what, action = _("The fix did not hold"), _("Diagnose again")
    else:
        what, action = _("The gate is closed"), _("Open")
    return Step(row, what % number, action, reverse("cluster", args=[queue.top_cluster]))


def totals(rows: list[Row]) -> dict[str, Any]:
    """The figures of the strip, over all rows."""
    with_letters = [row for row in rows if row.urgency.letters]
    oldest = min((row for row in with_letters), key=_oldest, default=None)
    return {
        "letters": sum(row.urgency.letters for row in rows),
        "queues_with_letters": len(with_letters),
        "oldest": oldest,
        "redriving": [row.urgency for row in rows if row.urgency.redrives],
        "redrives": sum(row.urgency.redrives for row in rows),
        "firing": sum(row.urgency.alert_state == "firing" for row in rows),
        "acknowledged": sum(row.urgency.alert_state == "acknowledged" for row in rows),
        "waiting": sum(row.ledger.waiting for row in rows),
        "running": sum(row.ledger.running for row in rows),
        "processed": sum(row.ledger.processed for row in rows),
        "received": sum(row.ledger.received for row in rows),
    }


def _oldest(row: Row) -> datetime:
    if row.urgency.oldest is None:
        raise ValueError("a queue without letters has no oldest one")
    return row.urgency.oldest
