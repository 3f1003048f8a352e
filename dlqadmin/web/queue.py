"""A queue: its books, its clusters, its newest letters, its redrives, and what its consumers are at."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from dlqadmin.alerts.models import Alert
from dlqadmin.clusters.concentration import concentration_of
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.open_groups import OpenGroup, open_groups
from dlqadmin.messages.pause import pause_of
from dlqadmin.people.permissions import may
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.ledger import read_ledgers
from dlqadmin.redrive.stages import Progress, progress_of
from dlqadmin.web.live import render_live
from dlqadmin.web.load import load_queue
from dlqadmin.web.redrives import with_counts
from dlqadmin.web.routes import route
from dlqadmin.web.runtime import BOUND, MOST_KEYS, at_work, blocked_rows, last_discards

MOST_CLUSTERS = 25
MOST_LETTERS = 8
MOST_REDRIVES = 5


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster with its open letters. `share`: per cent of the queue's open letters; `start`: of those before it."""

    group: OpenGroup
    template: str
    share: float
    start: float
    progress: Progress


@route("queue.view", load_queue)
def queue(request: HttpRequest, queue: SourceQueue) -> HttpResponse:
    """The page of one queue."""
    letters = DeadLetter.objects.open().filter(queue=queue)
    groups = open_groups(queue.pk, aged=MOST_CLUSTERS)
    total = sum(group.letters for group in groups)
    context = {
        "queue": queue,
        "ledger": read_ledgers([queue.pk])[queue.pk],
        "total": total,
        "causes": len(groups),
        "concentration": concentration_of([group.letters for group in groups]),
        "top_share": 100 * groups[0].letters / total if groups else 0.0,
        "clusters": cluster_rows(groups[:MOST_CLUSTERS], total),
        "letters": letters.listed().of_one_queue()[:MOST_LETTERS],
        "redrives": with_counts(queue.redrives.select_related("queue").order_by("-pk")[:MOST_REDRIVES]),
        "alert": Alert.objects.filter(queue=queue, closed_at=None).order_by("-severity", "opened_at").first(),
        "may_configure": may(request.user, "queue.configure", queue),
    }
    if queue.kind == SourceQueue.Kind.NATIVE:
        context |= runtime_of(queue) | {"may_pause": may(request.user, "queue.pause", queue)}
    return render_live(request, "queue/page.html", context, seconds=10)


def runtime_of(queue: SourceQueue) -> dict[str, Any]:
    """What only a queue has whose messages run here."""
    return {
        "native": True,
        "pause": pause_of(queue),
        "work": at_work(queue),
        "blocked": blocked_rows(queue),
        "most_keys": MOST_KEYS,
        "bound": BOUND,
        "discards": last_discards(queue),
        "now": timezone.now(),
    }


def cluster_rows(groups: list[OpenGroup], total: int) -> list[ClusterRow]:
    """The rows of these groups; `total`: the queue's open letters."""
    clusters = ErrorCluster.objects.in_bulk([group.root for group in groups])
    progress = progress_of(list(clusters))
    rows, start = [], 0.0
    for group in groups:
        share = 100 * group.letters / total
        rows.append(ClusterRow(group, str(clusters[group.root]), share, start, progress[group.root]))
        start += share
    return rows
