"""Queues whose deliveries are dropped when their work was done before."""

from dataclasses import replace

import pytest
from django.db import OperationalError

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.consumers import batch
from dlqadmin.consumers.consume import consume_batch, consume_one
from dlqadmin.consumers.settle import Outcome
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.messages.idempotency import enter_ids, known_ids
from dlqadmin.messages.models import Discard, KeyVersion, Message, ProcessedId
from dlqadmin.messages.publish import Outgoing, publish, publish_many
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.ledger import read_ledger
from dlqadmin.redrive.models import RedriveItem
from dlqadmin.redrive.run import collect_outcomes, count_outcomes, send_pending
from dlqadmin.redrive.start import NO_CANARY, start_redrive
from tests.consumers.work import LONG, Session, drain, expire_now, wait_until_blocked

HOW = pytest.mark.parametrize(
    "options",
    [{}, {"repeatable": True}, {"atomic": False}],
    ids=["with savepoints", "repeatable", "not atomic"],
)


class Work:
    """A handler that notes what ran, and fails at so many first attempts of each body, until it is redriven."""

    def __init__(self) -> None:
        self.failures: dict[int, int] = {}
        self.done: list[int] = []

    def __call__(self, message) -> None:
        n = message.data["n"]
        if message.generation == 0 and message.attempt <= self.failures.get(n, 0):
            raise ValueError("bad")
        self.done.append(n)


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def ledger(make_queue) -> SourceQueue:
    """A message id runs once."""
    return make_queue("ledger", idempotency="ledger")


@pytest.fixture
def latest(make_queue) -> SourceQueue:
    """Only newer versions of a key run."""
    return make_queue("latest", idempotency="latest")


def publish_ids(queue: SourceQueue, *ids: str) -> None:
    """One message for each of these ids, numbered."""
    publish_many(queue, [Outgoing(type="note", body={"n": n}, message_id=one) for n, one in enumerate(ids)])


def publish_versions(queue: SourceQueue, *versions: tuple[str | None, int | None]) -> None:
    """One message for each key and version, numbered."""
    publish_many(
        queue,
        [
            Outgoing(type="note", body={"n": n}, key=key, version=version)
            for n, (key, version) in enumerate(versions)
        ],
    )


def ledger_ids() -> set[str]:
    return set(ProcessedId.objects.values_list("message_id", flat=True))


def versions() -> dict[bytes, int]:
    return {bytes(key): version for key, version in KeyVersion.objects.values_list("key", "version")}


def redriven(queue: SourceQueue) -> DeadLetter:
    """Send the one letter of this queue back and consume it."""
    sign_diagnosis(cluster=ErrorCluster.objects.get(), by=None, kind="permanent", cause="c", fix="f")
    redrive = start_redrive(
        letters=of_cluster(ErrorCluster.objects.get()), by=None, options=replace(NO_CANARY, with_dropped=True)
    )
    assert send_pending(redrive) == 1
    drain(queue)
    collect_outcomes(redrive)
    assert sum(count_outcomes(redrive).values()) == 1
    return DeadLetter.objects.get()


# --- Ledger -----------------------------------------------------------------------------------------------------------


@HOW
@pytest.mark.parametrize("size", [1, 2, 100])
def test_an_id_runs_once_within_a_batch_and_over_batches(ledger, handle, work, options, size) -> None:
    handle(ledger, work, **options)
    publish_ids(ledger, "a", "b", "a", "a", "c", "b")
    assert drain(ledger, size) == {Outcome.PROCESSED: 3, Outcome.DUPLICATE: 3}
    publish_ids(ledger, "c", "d")
    assert drain(ledger, size) == {Outcome.PROCESSED: 1, Outcome.DUPLICATE: 1}
    assert work.done == [0, 1, 4, 1]
    accounts = read_ledger(ledger.pk)
    assert (accounts.received, accounts.processed, accounts.duplicate, accounts.difference) == (8, 4, 4, 0)


def test_another_queue_may_run_the_same_id(make_queue, ledger, handle, work) -> None:
    other = make_queue("other", idempotency="ledger")
    for queue in (ledger, other):
        handle(queue, work)
        publish_ids(queue, "a", "a")
        assert drain(queue) == {Outcome.PROCESSED: 1, Outcome.DUPLICATE: 1}


def test_a_plain_queue_runs_every_delivery(queue, handle, work) -> None:
    handle(queue, work)
    publish_ids(queue, "a", "a")
    publish_versions(queue, ("k", 2), ("k", 1))
    assert drain(queue) == {Outcome.PROCESSED: 4}
    assert not ProcessedId.objects.exists()
    assert not KeyVersion.objects.exists()


@HOW
def test_a_second_copy_runs_when_the_first_one_failed(make_queue, handle, work, options) -> None:
    queue = make_queue(idempotency="ledger", backoff_base=LONG)
    handle(queue, work, **options)
    work.failures = {0: 1}
    publish_ids(queue, "a", "a", "a")
    assert drain(queue) == {Outcome.RETRY: 1, Outcome.PROCESSED: 1, Outcome.DUPLICATE: 1}
    assert work.done == [1]


@HOW
def test_the_first_copy_is_a_duplicate_when_its_turn_comes_again_after_the_second(
    ledger, handle, work, options
) -> None:
    handle(ledger, work, **options)
    work.failures = {0: 1}
    publish_ids(ledger, "a", "a")
    assert drain(ledger) == {Outcome.RETRY: 1, Outcome.PROCESSED: 1, Outcome.DUPLICATE: 1}


@HOW
def test_a_failed_message_leaves_no_row_in_the_ledger(make_queue, handle, work, options) -> None:
    queue = make_queue(idempotency="ledger", backoff_base=LONG)
    handle(queue, work, **options)
    work.failures = {0: 9, 2: 9}
    publish_ids(queue, "a", "b", "c")
    publish(queue, type="unknown", body={}, message_id="d")
    publish(queue, type="note", body=b"\xff", message_id="e")
    drain(queue)
    assert ledger_ids() == {"b"}


@HOW
def test_what_was_given_back_leaves_no_row_in_the_ledger(ledger, handle, options) -> None:
    def handler(message) -> None:
        if message.data["n"] == 1:
            raise KeyboardInterrupt

    handle(ledger, handler, **options)
    publish_ids(ledger, "a", "b", "c")
    with pytest.raises(KeyboardInterrupt):
        consume_batch(ledger)
    assert ledger_ids() == (set() if options.get("atomic", True) else {"a"})


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_was_late_leaves_no_row_in_the_ledger(ledger, handle) -> None:
    def handler(message) -> None:
        session = Session()
        session.do(expire_now)
        session.close()

    handle(ledger, handler)
    publish_ids(ledger, "a", "b")
    assert consume_batch(ledger) == {Outcome.FENCED: 2}
    assert not ProcessedId.objects.exists()


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("policy", ["ledger", "latest"])
def test_a_settlement_that_the_database_took_at_the_second_try_is_remembered_all_the_same(
    make_queue, handle, work, monkeypatch, atomic, policy
) -> None:
    queue = make_queue(idempotency=policy)
    handle(queue, work, atomic=atomic)
    publish(queue, type="note", body={"n": 1}, message_id="a", key="k", version=4)
    refusals, settle = [OperationalError("the connection is lost")], batch.settle

    def refusing(*values, **named):
        if refusals:
            raise refusals.pop()
        return settle(*values, **named)

    monkeypatch.setattr(batch, "settle", refusing)
    drain(queue)
    assert not Message.objects.exists()
    assert (ledger_ids(), versions()) == (({"a"}, {}) if policy == "ledger" else (set(), {b"k": 4}))


@pytest.mark.django_db(transaction=True)
def test_two_consumers_at_the_same_id_run_it_once(ledger, handle) -> None:
    """The second one waits for the first, and then finds the id in the ledger."""
    session, second = Session(), []

    def handler(message) -> None:
        second.append(session.start(enter_ids, ledger.pk, ["a"]))
        assert wait_until_blocked(second[0])

    handle(ledger, handler)
    publish_ids(ledger, "a")
    assert consume_one(ledger) is Outcome.PROCESSED
    assert second[0].result(timeout=20) == set()
    session.close()


# --- Latest -----------------------------------------------------------------------------------------------------------


@HOW
@pytest.mark.parametrize("size", [1, 2, 100])
def test_an_equal_version_is_a_duplicate_and_a_lower_one_is_stale(
    latest, handle, work, options, size
) -> None:
    handle(latest, work, **options)
    publish_versions(latest, ("k", 3), ("k", 1), ("k", 3), ("k", 4), ("other", 1), ("k", 2), ("other", -1))
    assert drain(latest, size) == {Outcome.PROCESSED: 3, Outcome.STALE: 3, Outcome.DUPLICATE: 1}
    assert work.done == [0, 3, 4]
    assert versions() == {b"k": 4, b"other": 1}
    accounts = read_ledger(latest.pk)
    assert (accounts.received, accounts.stale, accounts.duplicate, accounts.difference) == (7, 3, 1, 0)


@HOW
def test_messages_without_key_or_version_have_nothing_to_compare_and_run(
    latest, handle, work, options
) -> None:
    handle(latest, work, **options)
    publish_versions(
        latest, ("k", None), (None, 5), (None, 5), (None, None), ("k", None), ("k", 1), ("k", None)
    )
    assert drain(latest) == {Outcome.PROCESSED: 7}
    assert versions() == {b"k": 1}


@HOW
def test_a_failed_message_leaves_no_version(make_queue, handle, work, options) -> None:
    queue = make_queue(idempotency="latest", backoff_base=LONG)
    handle(queue, work, **options)
    work.failures = {0: 9, 2: 9}
    publish_versions(queue, ("new", 1), ("k", 1), ("k", 2))
    drain(queue)
    assert versions() == {b"k": 1}


@HOW
def test_an_older_version_runs_when_the_newer_one_failed_and_that_one_still_runs_later(
    latest, handle, work, options
) -> None:
    handle(latest, work, **options)
    work.failures = {0: 1}
    publish_versions(latest, ("k", 2), ("k", 1))
    assert drain(latest) == {Outcome.RETRY: 1, Outcome.PROCESSED: 2}
    assert work.done == [1, 0]
    assert versions() == {b"k": 2}


@HOW
def test_the_lowest_and_the_highest_version_run(latest, handle, work, options) -> None:
    handle(latest, work, **options)
    publish_versions(latest, ("low", -(2**63) + 1), ("high", 2**63 - 1))
    assert drain(latest) == {Outcome.PROCESSED: 2}


def test_an_ordered_queue_can_keep_the_latest_too(make_queue, handle, work) -> None:
    queue = make_queue(idempotency="latest", ordered=True)
    handle(queue, work)
    work.failures = {1: 1}
    publish_versions(queue, ("k", 1), ("k", 2), ("k", 2), ("k", 1), ("k", 3))
    assert drain(queue) == {Outcome.PROCESSED: 3, Outcome.RETRY: 1, Outcome.DUPLICATE: 1, Outcome.STALE: 1}
    assert work.done == [0, 1, 4]


# --- Discards ---------------------------------------------------------------------------------------------------------


def test_every_discard_is_counted_and_some_of_a_batch_are_kept_as_a_sample(latest, handle, work) -> None:
    handle(latest, work)
    publish_versions(latest, ("k", 30), *[("k", n) for n in range(25)])
    drain(latest)
    assert read_ledger(latest.pk).stale == 25
    sample = Discard.objects.order_by("id")
    assert [(one.kind, bytes(one.key), one.version) for one in sample] == [
        ("stale", b"k", n) for n in range(10)
    ]
    assert sample[0].queue == latest


def test_a_sampled_discard_says_which_message_it_was(ledger, handle, work) -> None:
    handle(ledger, work)
    publish_ids(ledger, "a")
    drain(ledger)
    publish(ledger, type="note", body={"n": 1}, message_id="a", key="k", version=9)
    lineage = Message.objects.get().lineage
    drain(ledger)
    one = Discard.objects.get()
    assert (one.kind, one.message_id, bytes(one.key), one.version, one.lineage) == (
        "duplicate",
        "a",
        b"k",
        9,
        lineage,
    )


@pytest.mark.parametrize("atomic", [True, False])
def test_a_redriven_message_whose_work_was_done_meanwhile_ends_its_letter_as_duplicate(
    ledger, handle, work, atomic
) -> None:
    handle(ledger, work, atomic=atomic)
    work.failures = {0: 3}
    publish_ids(ledger, "a")
    assert drain(ledger)[Outcome.DEAD] == 1
    assert known_ids(ledger.pk, ["a"]) == set()
    publish(ledger, type="note", body={"n": 7}, message_id="a")
    drain(ledger)
    letter = redriven(ledger)
    assert (letter.state, letter.resolution) == ("resolved", "duplicate")
    assert RedriveItem.objects.get().outcome == "discarded"
    assert read_ledger(ledger.pk).difference == 0
    assert work.done == [7]


def test_a_redriven_message_that_is_outdated_ends_its_letter_as_stale(latest, handle, work) -> None:
    handle(latest, work)
    work.failures = {0: 3}
    publish_versions(latest, ("k", 1))
    assert drain(latest)[Outcome.DEAD] == 1
    publish(latest, type="note", body={"n": 7}, key="k", version=2)
    drain(latest)
    letter = redriven(latest)
    assert (letter.state, letter.resolution) == ("resolved", "stale")
    accounts = read_ledger(latest.pk)
    assert (accounts.received, accounts.processed, accounts.stale, accounts.difference) == (2, 1, 1, 0)


def test_a_redriven_message_that_was_not_done_runs(ledger, handle, work) -> None:
    handle(ledger, work)
    work.failures = {0: 3}
    publish_ids(ledger, "a")
    drain(ledger)
    assert redriven(ledger).resolution == "succeeded"
    assert ledger_ids() == {"a"}
