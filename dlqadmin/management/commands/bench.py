"""`manage.py bench NAME`: measure, and compare with the bounds; exit 1 if one does not hold. See bench/README.md."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import psycopg
from amqp.exceptions import AMQPError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError
from kombu.exceptions import KombuError

from bench.errors import BenchError
from bench.registry import BENCHES
from bench.report import Report


class Command(BaseCommand):
    """Measure our code beside a peer or a limit, in one run."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """The name, and how."""
        parser.add_argument("name", metavar="NAME", help=", ".join(BENCHES))
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
        parser.add_argument("--quick", action="store_true", help="less data and fewer rounds: under 45 s")

    def handle(self, *args: Any, **options: Any) -> None:
        """Measure, print, judge."""
        name = options["name"]
        if name not in BENCHES:
            raise CommandError(f"No bench {name}. There are: {', '.join(BENCHES)}.")
        report = _measured(name, options["quick"])
        text = json.dumps(report.as_json(), indent=2) if options["json"] else "\n".join(report.lines())
        self.stdout.write(text)
        if not report.holds:
            failed = ", ".join(target.figure.name for target in report.targets if not target.holds)
            raise CommandError(f"Below the bound: {failed}.")


def _measured(name: str, quick: bool) -> Report:
    try:
        with _ended_by_signals():
            return BENCHES[name](quick, _say)
    except BenchError as error:
        raise CommandError(str(error)) from error
    except (DatabaseError, InterfaceError, psycopg.Error) as error:
        raise CommandError(
            f"The database failed ({_line(error)}): see that it runs, then measure again."
        ) from error
    except (AMQPError, KombuError, ConnectionError) as error:
        raise CommandError(
            f"RabbitMQ failed ({_line(error)}): see that it runs, then measure again."
        ) from error
    except KeyboardInterrupt:
        raise CommandError("Stopped; what was started is ended and removed.", returncode=130) from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _say(line: str) -> None:
    """Progress goes to stderr: stdout may be read by a program."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """The first signal ends the block as Ctrl-C does, so that it cleans up; further ones do not disturb that."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(number: int, frame: FrameType | None) -> None:
        for further in numbers:
            signal.signal(further, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
