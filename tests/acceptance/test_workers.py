"""Whole journeys with real Celery workers, the real broker and a real database."""

from collections.abc import Iterator

import pytest
from django.db import connection

from dlqadmin.alerts.models import Notification
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.demo import library
from dlqadmin.demo.models import Member, Notice
from dlqadmin.messages.models import Claim, Message
from dlqadmin.messages.publish import Outgoing, publish, publish_many
from dlqadmin.people.models import Owner
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.ledger import read_ledger
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.start import NO_CANARY, GateClosed, start_redrive
from tests.acceptance.processes import kill_all, wait_for
from tests.acceptance.workers import state, worker

pytestmark = [pytest.mark.acceptance, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def demo() -> Iterator[None]:
    """The demo library; its tables are not Django's to empty, so they are dropped."""
    library.load()
    yield
    with connection.schema_editor() as editor:
        editor.delete_model(Member)
        editor.delete_model(Notice)


def test_two_notices_die_are_diagnosed_and_go_back_to_work_when_their_cause_is_gone(demo, tmp_path) -> None:
    queue = SourceQueue.objects.get(name="late-notices")
    with worker(tmp_path):
        wait_for(lambda: state(queue) == (18, 0, 2), "18 processed and 2 dead")
        cluster = ErrorCluster.objects.get(queue=queue)
        assert cluster.template == "MemberNotFound: member not found (loan <int>)"
        wait_for(
            lambda: Notification.objects.filter(
                alert__queue=queue, state="sent", target="members@library.example"
            ),
            "the mail to the owner",
        )
        with pytest.raises(GateClosed):
            start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
        assert library.add_missing_members(by=None) == 2
        sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="missing members", fix="added them")
        redrive = start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
        wait_for(lambda: state(queue) == (20, 0, 0), "20 processed and 0 dead")
        wait_for(lambda: Redrive.objects.get(pk=redrive.pk).state == "done", "the redrive to finish")
    assert sorted(Notice.objects.values_list("loan_number", flat=True)) == list(range(1, 21))
    assert list((tmp_path / "mail").iterdir())


def test_a_worker_killed_in_the_middle_loses_and_repeats_nothing(tmp_path) -> None:
    queue = SourceQueue.objects.create(
        name="rough", timeout=0.5, max_attempts=2, backoff_base=0.1, max_lost=2
    )
    publish_many(queue, [Outgoing(type="effect", body={"n": n}) for n in range(400)])
    publish(queue, type="leave", body={})
    publish(queue, type="vanish", body={})
    with worker(tmp_path, "tests.acceptance.handlers") as first:
        wait_for(lambda: Owner.objects.count() > 50, "the first messages to be processed")
        kill_all(first)
    assert Message.objects.filter(queue=queue).exists()
    with worker(tmp_path, "tests.acceptance.handlers"):
        wait_for(lambda: state(queue) == (400, 0, 2), "every message to be processed or dead", seconds=90)
    assert Owner.objects.count() == 400
    assert not Claim.objects.exists()
    letters = {letter.type: letter for letter in DeadLetter.objects.all()}
    assert (letters["leave"].reason, letters["leave"].attempts) == ("handler exited", 2)
    assert (letters["vanish"].reason, letters["vanish"].lost) == ("worker lost", 2)
    accounts = read_ledger(queue.pk)
    assert accounts.received == accounts.processed + 2 == 402
