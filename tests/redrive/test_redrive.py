"""Sending dead letters back to work."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.messages.models import Message
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.people.models import AuditEntry
from dlqadmin.redrive.diagnose import current_diagnosis, sign_diagnosis
from dlqadmin.redrive.ledger import read_ledger
from dlqadmin.redrive.models import Redrive, RedriveItem
from dlqadmin.redrive.run import advance_redrives, count_outcomes, send_pending
from dlqadmin.redrive.start import NO_CANARY, GateClosed, NothingToRedrive, start_redrive
from tests.consumers.work import Session, wait_until_blocked

State = DeadLetter.State


class Library:
    """A handler that fails for members that are missing."""

    def __init__(self) -> None:
        self.missing = {7, 13}
        self.done: list[int] = []

    def __call__(self, message) -> None:
        if message.data["n"] in self.missing:
            raise LookupError(f"member not found (loan {message.data['n']})")
        self.done.append(message.data["n"])


@pytest.fixture
def library(queue, handle) -> Library:
    """Twenty messages were consumed; 7 and 13 are dead."""
    library = Library()
    handle(queue, library)
    publish_many(queue, [Outgoing(type="note", body={"n": n}, key=f"k{n}", version=n) for n in range(1, 21)])
    for _ in range(3):
        consume_once(queue)
    return library


@pytest.fixture
def cluster(library) -> ErrorCluster:
    return ErrorCluster.objects.get()


def diagnose(cluster, **values) -> None:
    defaults = {"kind": "permanent", "cause": "members are missing", "fix": "members added"}
    sign_diagnosis(cluster=cluster, by=None, **defaults | values)


def test_without_a_diagnosis_nothing_is_sent(cluster) -> None:
    with pytest.raises(GateClosed) as refused:
        start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
    assert "Nobody has diagnosed it" in str(refused.value)
    assert not Redrive.objects.exists()
    assert DeadLetter.objects.open().count() == 2


def test_redriven_letters_start_at_attempt_0_with_the_same_identity_and_succeed(
    queue, library, cluster
) -> None:
    letters = {letter.message_id: letter for letter in DeadLetter.objects.all()}
    library.missing.clear()
    diagnose(cluster)
    redrive = start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
    assert send_pending(redrive) == 2
    for message in Message.objects.all():
        letter = letters[message.message_id]
        assert (message.attempts, message.lost, message.generation) == (0, 0, 1)
        assert (message.lineage, message.position, message.version) == (
            letter.lineage,
            letter.position,
            letter.version,
        )
        assert (bytes(message.body or b""), bytes(message.key or b"")) == (
            bytes(letter.body or b""),
            bytes(letter.key or b""),
        )
        assert (message.headers, message.published_at) == (letter.headers, letter.sent_at)
    consume_once(queue)
    advance_redrives()
    redrive.refresh_from_db()
    assert redrive.state == Redrive.State.DONE
    assert count_outcomes(redrive) == {RedriveItem.Outcome.SUCCEEDED: 2}
    assert set(DeadLetter.objects.values_list("state", "resolution")) == {("resolved", "succeeded")}
    assert sorted(library.done) == list(range(1, 21))
    accounts = read_ledger(queue.pk)
    assert (accounts.received, accounts.processed) == (20, 20)


def test_letters_that_die_again_are_linked_refute_the_diagnosis_and_close_the_gate(
    queue, library, cluster
) -> None:
    diagnose(cluster)
    redrive = start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
    send_pending(redrive)
    for _ in range(3):
        consume_once(queue)
    advance_redrives()
    redrive.refresh_from_db()
    assert redrive.state == Redrive.State.DONE
    assert "died again" in redrive.state_reason
    assert count_outcomes(redrive) == {RedriveItem.Outcome.DIED_AGAIN: 2}
    second = DeadLetter.objects.open().order_by("position").first()
    assert second
    assert (second.generation, second.attempts) == (2, 3)
    assert second.previous
    assert (second.previous.state, second.previous.lineage) == (State.RETURNED, second.lineage)
    assert second.attempt_rows().count() == 3
    assert current_diagnosis(cluster).refuted_at
    with pytest.raises(GateClosed):
        start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)


def test_a_new_diagnosis_after_the_cause_is_gone_opens_the_gate_again(queue, library, cluster) -> None:
    diagnose(cluster)
    send_pending(start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY))
    for _ in range(3):
        consume_once(queue)
    advance_redrives()
    library.missing.clear()
    diagnose(cluster, cause="really")
    send_pending(start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY))
    consume_once(queue)
    advance_redrives()
    assert not DeadLetter.objects.open().exists()
    assert read_ledger(queue.pk).processed == 20


def test_the_set_is_frozen_at_the_start(queue, library, cluster) -> None:
    diagnose(cluster)
    redrive = start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
    library.missing.add(99)
    publish_many(queue, [Outgoing(type="note", body={"n": 99})])
    for _ in range(3):
        consume_once(queue)
    send_pending(redrive)
    assert redrive.items.count() == 2
    assert DeadLetter.objects.open().count() == 1


def test_a_letter_tried_after_the_fix_closes_the_gate(queue, library, cluster) -> None:
    diagnose(cluster)
    library.missing.add(99)
    publish_many(queue, [Outgoing(type="note", body={"n": 99})])
    for _ in range(3):
        consume_once(queue)
    with pytest.raises(GateClosed, match="1 letter died after the fix"):
        start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)


def test_a_cluster_without_open_letters_has_nothing_to_redrive(library, cluster) -> None:
    diagnose(cluster)
    start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
    with pytest.raises(NothingToRedrive):
        start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
    assert Redrive.objects.count() == 1


def test_a_redrive_is_audited(library, cluster, make_user) -> None:
    diagnose(cluster)
    redrive = start_redrive(letters=of_cluster(cluster), by=make_user(), options=NO_CANARY)
    entry = AuditEntry.objects.get(action="redrive.start")
    assert (entry.actor, entry.object_id, entry.after["letters"]) == ("operator", str(redrive.pk), 2)


def test_more_letters_than_one_batch_are_sent_in_publish_order(queue, library, cluster, monkeypatch) -> None:
    monkeypatch.setattr("dlqadmin.redrive.send.BATCH", 3)
    library.missing |= set(range(100, 120))
    publish_many(queue, [Outgoing(type="note", body={"n": n}) for n in range(100, 120)])
    for _ in range(3):
        consume_once(queue)
    library.missing.clear()
    library.done.clear()
    diagnose(cluster)
    redrive = start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
    assert send_pending(redrive) == 22
    consume_once(queue)
    assert library.done == [7, 13, *range(100, 120)]


def test_a_redrive_that_was_interrupted_anywhere_goes_on_from_its_rows(
    queue, library, cluster, monkeypatch
) -> None:
    library.missing.clear()
    diagnose(cluster)
    redrive = start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
    monkeypatch.setattr("dlqadmin.redrive.send.BATCH", 1)
    monkeypatch.setattr("dlqadmin.redrive.run.send_pending", lambda redrive: None)
    advance_redrives()  # nothing was sent, nothing is finished
    redrive.refresh_from_db()
    assert redrive.state == Redrive.State.RUNNING
    monkeypatch.undo()
    advance_redrives()
    consume_once(queue)
    advance_redrives()
    assert count_outcomes(redrive) == {RedriveItem.Outcome.SUCCEEDED: 2}


@pytest.mark.django_db(transaction=True)
def test_of_two_people_who_start_at_once_one_is_told_so(queue, library, cluster) -> None:
    diagnose(cluster)

    def start(_: int) -> str:
        try:
            start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
            return "started"
        except NothingToRedrive:
            return "nothing left"
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(start, range(2))) == ["nothing left", "started"]
    redrive = Redrive.objects.get()
    assert send_pending(redrive) == 2
    assert Message.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_letter_is_sent_once_when_two_processes_advance_its_redrive(queue, library, cluster) -> None:
    diagnose(cluster)
    redrive = start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
    other = Session()
    try:
        with transaction.atomic():
            assert send_pending(redrive) == 2
            late = other.start(send_pending, redrive)
            wait_until_blocked(late)
        late.result(timeout=30)
    finally:
        other.close()
    assert Message.objects.filter(queue=queue).count() == 2
    assert read_ledger(queue.pk).difference == 0
