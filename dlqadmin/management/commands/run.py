"""`manage.py run`: the whole of dlqadmin on this machine, until Ctrl-C."""

import os
import sys
from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, call_command

from dlqadmin import embedded
from dlqadmin.runner import Runner, RunnerError

PROCFILE = Path(__file__).resolve().parents[3] / "Procfile"


class Command(BaseCommand):
    help = "Run everything on this machine: the embedded PostgreSQL unless DATABASE_URL is set, and the Procfile."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Make sure that nothing else runs here, bring up the database, prepare it, run the services."""
        try:
            runner = Runner(
                PROCFILE, embedded.HOME, _port(), embedded_database=not os.environ.get("DATABASE_URL")
            )
            with runner.claim():
                if runner.embedded_database:
                    embedded.ensure_running()
                call_command("prepare")
                runner.supervise()
        except (RunnerError, embedded.EmbeddedError) as error:
            print(error, file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(130)


def _port() -> int:
    """The port of the web pages: $PORT, else 8000. An option would come too late: the settings name it in links."""
    port = os.environ.get("PORT") or "8000"
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise RunnerError(f"PORT={port} is no port: it is a number from 1 to 65535, such as PORT=8001.")
    return int(port)
