"""`manage.py demo`: load the demo library; with --add-members, mend what its late notices die of."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from dlqadmin.demo import library


class Command(BaseCommand):
    """Load the demo, or mend it."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """`--add-members`."""
        parser.add_argument("--add-members", action="store_true", help="add members 7 and 13 to the library")

    def handle(self, *args: Any, **options: Any) -> None:
        """Load, then mend if asked."""
        loaded = library.load()
        self.stdout.write("The demo library is loaded." if loaded else "The demo library was there already.")
        if options["add_members"]:
            added = library.add_missing_members(by=None)
            self.stdout.write(f"{added} missing members were added." if added else "No member was missing.")
