"""`manage.py reproduce [NAME …]`: the published figures from the real code paths; exit 1 on any difference."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dlqadmin.reproduce import deadletters, leader, order

REPRODUCTIONS = {
    "thresholds": deadletters.thresholds,
    "redrive": deadletters.redrive,
    "choice": deadletters.choice,
    "leader": leader.leader,
    "order": order.order,
}


class Command(BaseCommand):
    """Print each table as measured here, beside the published one where they differ."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """The names; none means all."""
        parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(REPRODUCTIONS))

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the named reproductions."""
        names = options["names"] or list(REPRODUCTIONS)
        if unknown := set(names) - set(REPRODUCTIONS):
            raise CommandError(
                f"No reproduction {', '.join(sorted(unknown))}. There are: {', '.join(REPRODUCTIONS)}."
            )
        tables = [table for name in names for table in REPRODUCTIONS[name]()]
        for table in tables:
            self.stdout.write("\n".join(table.lines()) + "\n")
        if differences := sum(table.differences for table in tables):
            raise CommandError(f"{differences} cells differ from the published figures.")
