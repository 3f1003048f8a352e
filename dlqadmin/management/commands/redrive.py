"""`manage.py redrive CLUSTER`: preview a redrive, start it, watch it; the gate is asked as on the page."""

import time
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.people.permissions import may
from dlqadmin.redrive.facts import gate_facts
from dlqadmin.redrive.gate import judge
from dlqadmin.redrive.models import Redrive, RedriveItem
from dlqadmin.redrive.plan import plan_redrive
from dlqadmin.redrive.run import count_outcomes
from dlqadmin.redrive.start import BadOptions, GateClosed, NothingToRedrive, Options, start_redrive

BAR = 40
ENDED = (Redrive.State.DONE, Redrive.State.STOPPED, Redrive.State.CANCELLED)


class Command(BaseCommand):
    """Plan, start and watch a redrive."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """The cluster, and what to do with it."""
        usual = Options()
        parser.add_argument("cluster", type=int, help="the cluster's number, as its page says it")
        parser.add_argument("--start", action="store_true", help="start it; without this nothing is sent")
        parser.add_argument("--by", metavar="USER", help="who starts it; must be allowed to")
        parser.add_argument("--watch", action="store_true", help="follow it until it has ended")
        parser.add_argument("--canary", type=int, default=usual.canary)
        parser.add_argument("--window", type=int, default=usual.window)
        parser.add_argument("--rate", type=float, help="letters a second")
        parser.add_argument("--stop-percent", type=float, default=usual.stop_percent)

    def handle(self, *args: Any, **options: Any) -> None:
        """Say what would happen, or do it."""
        cluster = ErrorCluster.objects.select_related("queue").filter(pk=options["cluster"]).first()
        if cluster is None:
            raise CommandError(f"There is no cluster {options['cluster']}.")
        self._preview(cluster)
        if not options["start"]:
            return
        redrive = _start(cluster, options)
        self.stdout.write(f"Redrive {redrive.pk} has started.")
        if options["watch"]:
            self._watch(redrive)

    def _preview(self, cluster: ErrorCluster) -> None:
        plan = plan_redrive(cluster)
        self.stdout.write(f"{cluster.queue}: {cluster}")
        self.stdout.write(
            f"{plan.to_send} letters would be sent, {plan.duplicates} duplicates and {plan.stale} stale are left out."
        )
        self.stdout.write(
            f"{plan.waiting} messages wait in the queue{', which is paused' if plan.paused else ''}; "
            f"{plan.workers} workers listen."
        )
        for condition in judge(gate_facts(cluster)):
            self.stdout.write(
                f"[{'x' if condition.met else ' '}] {condition.text}  {condition.detail}".rstrip()
            )

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


def _start(cluster: ErrorCluster, options: dict[str, Any]) -> Redrive:
    by = get_user_model().objects.filter(username=options["by"], is_active=True).first()
    if by is None:
        raise CommandError("Say with --by who starts it: there is no active user of that name.")
    if not may(by, "redrive.start", cluster):
        raise CommandError(f"{options['by']} may not start a redrive of this cluster.")
    asked = Options(options["canary"], options["window"], options["rate"], options["stop_percent"])
    try:
        return start_redrive(cluster=cluster, by=by, options=asked)
    except GateClosed as closed:
        raise CommandError(f"The gate is closed, nothing was sent: {closed}.") from closed
    except NothingToRedrive as nothing:
        raise CommandError("No open letter is left.") from nothing
    except BadOptions as error:
        raise CommandError(str(error)) from error
