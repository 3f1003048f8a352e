"""`manage.py redrive CLUSTER`, or `--queue NAME --filter TEXT`: preview a redrive, start it, watch it.

The gate is asked as on the page.
"""

import time
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.query import BadQuery
from dlqadmin.deadletters.sets import LetterSet, of_cluster
from dlqadmin.people.permissions import may
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.models import Redrive, RedriveItem
from dlqadmin.redrive.plan import Judged, judge_plan, plan_redrive
from dlqadmin.redrive.run import count_outcomes
from dlqadmin.redrive.start import BadOptions, GateClosed, NothingToRedrive, Options, start_redrive

BAR = 40
ENDED = (Redrive.State.DONE, Redrive.State.STOPPED, Redrive.State.CANCELLED)


class Command(BaseCommand):
    """Plan, start and watch a redrive."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """The letters, and what to do with them."""
        usual = Options()
        parser.add_argument("cluster", type=int, nargs="?", help="the cluster's number, as its page says it")
        parser.add_argument("--queue", help="instead of a cluster: a queue, and which of its letters")
        parser.add_argument("--filter", default="", help='as in the list of letters: type:note age:">7d"')
        parser.add_argument("--start", action="store_true", help="start it; without this nothing is sent")
        parser.add_argument("--by", metavar="USER", help="who starts it; must be allowed to")
        parser.add_argument("--watch", action="store_true", help="follow it until it has ended")
        parser.add_argument("--canary", type=int, default=usual.canary)
        parser.add_argument("--window", type=int, default=usual.window)
        parser.add_argument("--rate", type=float, help="letters a second")
        parser.add_argument("--stop-percent", type=float, default=usual.stop_percent)

    def handle(self, *args: Any, **options: Any) -> None:
        """Say what would happen, or do it."""
        letters = _letters(options)
        try:
            judged = judge_plan(plan_redrive(letters))
        except BadQuery as error:
            raise CommandError(f"The filter cannot be read: {error}") from error
        self._preview(judged)
        if not options["start"]:
            return
        redrive = _start(letters.up_to(judged.plan.cutoff), options)
        self.stdout.write(f"Redrive {redrive.pk} has started.")
        if options["watch"]:
            self._watch(redrive)

    def _preview(self, judged: Judged) -> None:
        plan, sums = judged.plan, judged.sums
        self.stdout.write(f"{plan.letters.queue}: {plan.letters.text or 'all open letters'}")
        self.stdout.write(
            f"{sums.to_run} letters would be sent, {sums.edited} of them edited; {sums.duplicates} duplicates and "
            f"{sums.stale} stale are left out, and {judged.closed} behind closed gates."
        )
        self.stdout.write(
            f"{plan.waiting} messages wait in the queue{', which is paused' if plan.paused else ''}; "
            f"{plan.workers} workers listen."
        )
        for part in judged.parts:
            self.stdout.write(f"Cluster {part.cluster.pk}, {part.letters.open} letters: {part.cluster}")
            for condition in part.conditions:
                mark = "x" if condition.met else " "
                self.stdout.write(f"[{mark}] {condition.text}  {condition.detail}".rstrip())

    def _watch(self, redrive: Redrive) -> None:
        while True:
            redrive.refresh_from_db()
            counts = count_outcomes(redrive)
            open_items = counts[RedriveItem.Outcome.PENDING] + counts[RedriveItem.Outcome.SENT]
            ended = counts.total() - open_items
            filled = BAR * ended // max(counts.total(), 1)
            said = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
            self.stdout.write(f"[{'#' * filled}{'.' * (BAR - filled)}] {redrive.state}: {said}")
            if redrive.state in ENDED and not counts[RedriveItem.Outcome.SENT]:
                break
            time.sleep(1)
        if redrive.state != Redrive.State.DONE or counts[RedriveItem.Outcome.DIED_AGAIN]:
            raise CommandError(redrive.state_reason or f"The redrive is {redrive.state}.")


def _letters(options: dict[str, Any]) -> LetterSet:
    if options["queue"] and options["cluster"] is None:
        queue = SourceQueue.objects.filter(name=options["queue"]).first()
        if queue is None:
            raise CommandError(f"There is no queue {options['queue']}.")
        return LetterSet(queue, options["filter"])
    if options["cluster"] is None or options["queue"] or options["filter"]:
        raise CommandError("Name a cluster, or with --queue and --filter letters of a queue.")
    cluster = ErrorCluster.objects.select_related("queue").filter(pk=options["cluster"]).first()
    if cluster is None:
        raise CommandError(f"There is no cluster {options['cluster']}.")
    return of_cluster(cluster)


def _start(letters: LetterSet, options: dict[str, Any]) -> Redrive:
    by = get_user_model().objects.filter(username=options["by"], is_active=True).first()
    if by is None:
        raise CommandError("Say with --by who starts it: there is no active user of that name.")
    if not may(by, "redrive.start", letters.queue):
        raise CommandError(f"{options['by']} may not start a redrive in this queue.")
    asked = Options(options["canary"], options["window"], options["rate"], options["stop_percent"])
    try:
        return start_redrive(letters=letters, by=by, options=asked)
    except GateClosed as closed:
        raise CommandError(f"The gate is closed, nothing was sent: {closed}.") from closed
    except (NothingToRedrive, BadOptions) as error:
        raise CommandError(str(error)) from error
