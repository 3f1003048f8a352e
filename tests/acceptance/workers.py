"""Real Celery workers on the test database, and what came of the messages that they were given."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from django.db import connection

from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.models import Message
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.ledger import read_ledger
from tests.acceptance.processes import database_url, running

HANDLERS = "tests.acceptance.handlers"
ALL_QUEUES = "consumers,system"
_AS_IN_PROCFILE = ["--without-gossip", "--without-mingle", "--without-heartbeat"]


@contextmanager
def worker(
    folder: Path,
    handlers: str = "",
    *options: str,
    queues: str = ALL_QUEUES,
    beat: bool = True,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[subprocess.Popen[bytes]]:
    """One Celery worker with two processes, and beat in it. Its log is `folder / "log"`."""
    ours = {
        "DATABASE_URL": database_url(connection.settings_dict),
        "DLQADMIN_HOME": str(folder),
        "DLQADMIN_HANDLERS": handlers,
        "DLQADMIN_DEMO_EVERY": "3600",
    }
    arguments = [
        "-m",
        "celery",
        "-A",
        "dlqadmin",
        "worker",
        "-Q",
        queues,
        "-c",
        "2",
        *_AS_IN_PROCFILE,
        *options,
    ]
    with running([*arguments, *(["-B"] if beat else [])], {**environment, **ours}, folder / "log") as process:
        yield process


def state(queue: SourceQueue) -> tuple[int, int, int]:
    """Processed, waiting or running, dead."""
    return (
        read_ledger(queue.pk).processed,
        Message.objects.filter(queue=queue).count(),
        DeadLetter.objects.open().filter(queue=queue).count(),
    )
