"""Two beats with the real Celery: one leads, and hands over."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from dlqadmin.leases.models import Lease, TakeOver, Trigger
from tests.acceptance.processes import database_url, kill_all, running, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.django_db(transaction=True)]


@contextmanager
def beat(folder: Path, name: str) -> Iterator[Any]:
    """A beat process."""
    environment = {
        "DATABASE_URL": database_url(connection.settings_dict),
        "DLQADMIN_HOME": str(folder),
        "DLQADMIN_DEMO": "1",
        "DLQADMIN_DEMO_EVERY": "2",
    }
    with running(["-m", "celery", "-A", "dlqadmin", "beat"], environment, folder / name) as process:
        yield process


def leader() -> int:
    """The process id of the beat that leads, 0 for none."""
    holder = Lease.objects.values_list("holder", flat=True).first() or "0"
    return int(holder.rpartition(":")[2])


def seconds_without_leader(token: int, *, released: bool) -> float:
    """How long the lease was free before the take-over with this token."""
    taken = TakeOver.objects.get(token=token, released=released)
    assert taken.free_since
    return (taken.at - taken.free_since).total_seconds()


def test_a_beat_that_is_told_to_end_hands_over_in_under_a_second_and_a_killed_one_within_the_lease(
    tmp_path,
) -> None:
    with beat(tmp_path, "a") as one, beat(tmp_path, "b") as two, beat(tmp_path, "c") as three:
        nodes = {node.pid: node for node in (one, two, three)}
        first = wait_for(leader, "a leader")
        wait_for(Trigger.objects.exists, "triggers")
        nodes[first].send_signal(signal.SIGTERM)
        second = wait_for(lambda: leader() not in (0, first) and leader(), "the next leader")
        assert seconds_without_leader(2, released=True) < 1
        assert nodes[first].wait(10) == 0
        kill_all(nodes[second])
        wait_for(lambda: TakeOver.objects.filter(token=3).exists(), "the third leader", seconds=10)
        assert seconds_without_leader(3, released=False) < 1
    moments = Trigger.objects.filter(job="demo.trickle").order_by("due_at").values_list("due_at", "missed")
    stood_for = [missed + 1 for _, missed in moments]
    seconds = (moments.last()[0] - moments.first()[0]).total_seconds()  # type: ignore[index]
    assert sum(stood_for[1:]) * 2 == seconds, "a due moment is neither run nor stood for"
