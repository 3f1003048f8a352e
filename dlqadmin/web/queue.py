"""A queue: its books, its clusters, its newest letters, its redrives, and what its consumers are at."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Min
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from dlqadmin.alerts.models import Alert
from dlqadmin.clusters.concentration import concentration_of
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.ledger import read_ledgers
from dlqadmin.deadletters.models import DeadLetter, DeadLetterQuerySet
from dlqadmin.messages.pause import pause_of
from dlqadmin.people.permissions import may
from dlqadmin.queues.models import SourceQueue
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

    root: int
    template: str
    letters: int
    oldest: datetime
    newest: datetime
    share: float
    start: float
    progress: Progress


@route("queue.view", load_queue)
def queue(request: HttpRequest, queue: SourceQueue) -> HttpResponse:
    """The page of one queue."""
    letters = DeadLetter.objects.open().filter(queue=queue)
    sizes = cluster_sizes(letters)
    total = sum(size["letters"] for size in sizes)
    context = {
        "queue": queue,
        "ledger": read_ledgers([queue.pk])[queue.pk],
        "total": total,
        "causes": len(sizes),
        "concentration": concentration_of([size["letters"] for size in sizes]),
        "top_share": 100 * sizes[0]["letters"] / total if sizes else 0.0,
        "clusters": cluster_rows(sizes[:MOST_CLUSTERS], total),
        "letters": letters.listed()[:MOST_LETTERS],
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


def cluster_sizes(letters: DeadLetterQuerySet) -> list[Any]:
    """For each cluster of these letters, the largest first: `root`, `letters`, and when they died."""
    group = Coalesce("cluster__merged_into", "cluster")
    sizes = letters.values(root=group).annotate(
        letters=Count("pk"), oldest=Min("died_at"), newest=Max("died_at")
    )
    return list(sizes.order_by("-letters", "root"))


def cluster_rows(sizes: list[Any], total: int) -> list[ClusterRow]:
    """The rows of these clusters; `total`: the queue's open letters."""
    clusters = ErrorCluster.objects.in_bulk([size["root"] for size in sizes if size["root"]])
    progress = progress_of(list(clusters))
    rows, start = [], 0.0
    for size in sizes:
        share = 100 * size["letters"] / total
        if cluster := clusters.get(size["root"]):
            rows.append(
                ClusterRow(
                    **size, template=str(cluster), share=share, start=start, progress=progress[cluster.pk]
                )
            )
        start += share
    return rows
