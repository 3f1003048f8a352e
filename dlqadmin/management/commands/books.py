"""`manage.py books [QUEUE …]`: the accounts of native queues; with --check counted again, exit 1 on any difference."""

from dataclasses import astuple, fields
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dlqadmin.redrive.audit import NoSuchQueue, audit_books, read_accounts
from dlqadmin.redrive.ledger import Ledger

COLUMNS = ("queue", *(field.name for field in fields(Ledger)), "difference")


class Command(BaseCommand):
    """Print the accounts, or check them."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """The names, none means all; `--check`."""
        parser.add_argument(
            "queues", nargs="*", metavar="QUEUE", help="names of native queues; none means all"
        )
        parser.add_argument("--check", action="store_true", help="count again, and say what does not add up")

    def handle(self, *args: Any, **options: Any) -> None:
        """One of the two."""
        try:
            if options["check"]:
                self._check(options["queues"])
            else:
                self._print(options["queues"])
        except NoSuchQueue as error:
            raise CommandError(str(error)) from error

    def _check(self, names: list[str]) -> None:
        audit = audit_books(names)
        queues = _counted(len(audit.queues), "queue")
        if audit.differences:
            self.stdout.write("\n".join(audit.differences))
            raise CommandError(f"{_counted(len(audit.differences), 'difference')} in the books of {queues}.")
        self.stdout.write(f"{queues} balance{'s' if len(audit.queues) == 1 else ''}.")

    def _print(self, names: list[str]) -> None:
        accounts = read_accounts(names)
        rows = [(name, *astuple(ledger), ledger.difference) for name, ledger in accounts.items()]
        lines = [COLUMNS, *([str(cell) for cell in row] for row in rows)]
        widths = [max(len(line[n]) for line in lines) for n in range(len(COLUMNS))]
        for first, *others in lines:
            cells = [
                first.ljust(widths[0]),
                *(cell.rjust(w) for cell, w in zip(others, widths[1:], strict=True)),
            ]
            self.stdout.write("  ".join(cells))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
