"""Books that balance are said to, at any moment; whatever does not add up is found and named."""

import re
from contextlib import ExitStack

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from dlqadmin.clusters import counts
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.consumers.claim import claim_batch, claim_single
from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.messages.ordering import file_arrivals
from dlqadmin.messages.publish import Outgoing, publish, publish_many
from dlqadmin.queues import books
from dlqadmin.queues.models import AccountKind, SourceQueue
from dlqadmin.redrive.audit import NoSuchQueue, audit_books, read_accounts
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.ledger import Ledger
from dlqadmin.redrive.run import send_pending
from dlqadmin.redrive.start import NO_CANARY, start_redrive
from tests.acceptance.processes import database_url, running
from tests.deadletters.busy import QUEUES

pytestmark = pytest.mark.django_db(transaction=True)


def sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def boom(message) -> None:
    raise LookupError("member not found")


@pytest.fixture
def settled(make_queue, handle) -> SourceQueue:
    """A queue with something in every account but `stale`: some folded, some not."""
    queue = make_queue(max_attempts=1, idempotency="ledger")
    handle(queue, lambda message: None)
    handle(queue, boom, type="poison")
    publish_many(queue, [Outgoing(type="note", body={}, message_id=name) for name in "abca"])
    publish(queue, type="poison", body={})
    consume_once(queue)
    cluster = ErrorCluster.objects.get()
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="missing", fix="added")
    send_pending(start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY))
    claim_single(queue)
    publish_many(queue, [Outgoing(type="poison", body={}, message_id=name) for name in "xyz"])
    consume_once(queue)
    books.fold()
    sql("UPDATE dlqadmin_deadletter SET state = 'discarded' WHERE message_id = 'x'")
    sql("UPDATE dlqadmin_deadletter SET state = 'resolved', resolution = 'by hand' WHERE message_id = 'y'")
    books.post(queue.pk, AccountKind.DISCARDED)
    books.post(queue.pk, AccountKind.RESOLVED)
    counts.post(cluster.pk, opened=-2)
    publish_many(queue, [Outgoing(type="note", body={}, message_id=f"waits-{n}") for n in range(2)])
    return queue


@pytest.fixture
def keyed(make_queue) -> SourceQueue:
    """An ordered queue: key a is held, b waits for a consumer, c has just arrived."""
    queue = make_queue("loans", ordered=True)
    publish_many(queue, [Outgoing(type="note", body={}, key="a") for _ in range(2)])
    assert claim_batch(queue, 2, by_key=True)
    publish(queue, type="note", body={}, key="b")
    file_arrivals(queue.pk)
    publish(queue, type="note", body={}, key="c")
    return queue


def check_finds(*expected: str) -> None:
    """Exactly these differences, each a pattern."""
    found = audit_books().differences
    assert len(found) == len(expected), found
    for sentence, pattern in zip(found, expected, strict=True):
        assert re.fullmatch(pattern, sentence), sentence


def test_books_that_balance_are_said_to(settled, keyed, capsys) -> None:
    call_command("books", "--check")
    assert capsys.readouterr().out == "2 queues balance.\n"
    call_command("books", "late-notices", "--check")
    assert capsys.readouterr().out == "1 queue balances.\n"


def test_the_accounts_are_read_at_one_moment_and_printed(settled, keyed, capsys) -> None:
    assert read_accounts() == {
        "late-notices": Ledger(
            received=10, processed=3, duplicate=1, waiting=2, running=1, dead=1, discarded=1, resolved=1
        ),
        "loans": Ledger(received=4, waiting=2, running=2),
    }
    call_command("books")
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "queue"
    assert header.split()[-1] == "difference"
    assert " ".join(first.split()) == "late-notices 10 3 1 0 2 1 1 1 1 0"
    assert " ".join(second.split()) == "loans 4 0 0 0 2 2 0 0 0 0"


DELTA = (
    "INSERT INTO dlqadmin_accountdelta (queue_id, kind, delta) SELECT id, '{}', {} FROM dlqadmin_sourcequeue"
)
SHOWN = r"late-notices: expected all 10 received messages to be shown once; found {} \(.*\)\."
COUNTED = r".*; found 1 cluster with another count \(\d+\)\."


@pytest.mark.parametrize(
    ("corruption", "expected"),
    [
        ("DELETE FROM dlqadmin_message WHERE message_id = 'waits-0'", [SHOWN.format(9)]),
        (
            "INSERT INTO dlqadmin_message SELECT (jsonb_populate_record(message, '{\"id\": 99999}')).* "
            "FROM dlqadmin_message AS message WHERE message_id = 'waits-0'",
            [SHOWN.format(11)],
        ),
        ("DELETE FROM dlqadmin_deadletter WHERE state = 'open'", [SHOWN.format(9), COUNTED]),
        (DELTA.format("processed", 1), [SHOWN.format(11)]),
        ("UPDATE dlqadmin_account SET total = total - 1 WHERE kind = 'processed'", [SHOWN.format(9)]),
        ("DELETE FROM dlqadmin_accountdelta WHERE kind = 'received'", [".*expected all 8 .* found 10 .*"]),
        (
            DELTA.format("stale", -1),
            [r"late-notices: expected 0 or more stale; found -1\.", SHOWN.format(9)],
        ),
        (
            f"{DELTA.format('discarded', 1)}; {DELTA.format('processed', -1)}",
            ["late-notices: expected the account discarded to be 1, the number of such letters; found 2."],
        ),
        (
            f"{DELTA.format('resolved', -1)}; {DELTA.format('processed', 1)}",
            ["late-notices: expected the account resolved to be 1, the number of such letters; found 0."],
        ),
        (
            "UPDATE dlqadmin_deadletter SET state = 'resolved', resolution = 'stale' WHERE state = 'open'",
            [SHOWN.format(9), ".*account stale to be at least 1, .*; found 0.", COUNTED],
        ),
        (
            "DELETE FROM dlqadmin_message WHERE letter_id IS NOT NULL; DELETE FROM dlqadmin_claim",
            [SHOWN.format(9), r".*; found 1 letter without a message \(\d+\)\."],
        ),
        (
            "UPDATE dlqadmin_message SET letter_id = (SELECT id FROM dlqadmin_deadletter WHERE state = 'redriving') "
            "WHERE message_id = 'waits-0'",
            [r".*; found 1 letter with several messages \(\d+\)\."],
        ),
        (
            "UPDATE dlqadmin_message SET letter_id = -id WHERE message_id LIKE 'waits%'",
            [r".*; found 2 messages without such a letter \(\d+, \d+\)\."],
        ),
        (
            "INSERT INTO dlqadmin_message SELECT (jsonb_populate_record(message, '{\"id\": 99999}')).* "
            "FROM dlqadmin_message AS message WHERE letter_id IS NOT NULL",
            [SHOWN.format(11), r".*; found 1 letter with several messages \(\d+\)\."],
        ),
        (
            "UPDATE dlqadmin_redriveitem SET outcome = 'pending'",
            [SHOWN.format(11), r".*; found 1 message without such a letter \(\d+\)\."],
        ),
        (
            "UPDATE dlqadmin_deadletter SET state = 'returned' WHERE state = 'redriving'",
            [r".*; found 1 message without such a letter \(\d+\)\."],
        ),
        ("DELETE FROM dlqadmin_claim", [r".*; found 1 message whose claim does not exist \(\d+\)\."]),
        (
            "INSERT INTO dlqadmin_claim (queue_id, worker, single, until) SELECT id, 'w', true, "
            "clock_timestamp() + interval '15 s' FROM dlqadmin_sourcequeue",
            [r".*; found 1 claim holding nothing \(\d+\)\."],
        ),
        (
            "UPDATE dlqadmin_message SET queue_id = -5 WHERE message_id = 'waits-0'",
            [SHOWN.format(9), r"Queue -5: expected no messages, since it does not exist; found 1\."],
        ),
    ],
)
def test_what_does_not_add_up_is_found(settled, corruption, expected) -> None:
    sql(corruption)
    check_finds(*expected)


@pytest.mark.parametrize(
    ("corruption", "expected"),
    [
        (
            "DELETE FROM dlqadmin_claim",
            [
                r".*; found 1 key whose claim does not exist \(a\)\.",
            ],
        ),
        (
            "DELETE FROM dlqadmin_queuekey WHERE key = 'b'",
            [r".*; found 1 key that no consumer would find \(b\)\."],
        ),
        ("DELETE FROM dlqadmin_keyarrival", [r".*; found 1 key that no consumer would find \(c\)\."]),
        ("UPDATE dlqadmin_queuekey SET head = head + 1", [r".*; found 1 key with another head \(b\)\."]),
        (
            "UPDATE dlqadmin_queuekey SET head = NULL, due_at = NULL",
            [r".*; found 1 key with another head \(b\)\."],
        ),
    ],
)
def test_keys_that_nobody_would_come_back_to_are_found(keyed, corruption, expected) -> None:
    sql(corruption)
    check_finds(*expected)


EMPTY_BATCH = """
INSERT INTO dlqadmin_claim (queue_id, worker, single, until)
SELECT id, 'w', false, clock_timestamp() + interval '{}' FROM dlqadmin_sourcequeue
"""
SWEPT = """
INSERT INTO dlqadmin_trigger (job, due_at, state, token, run_token, node, started_at, missed, error_text)
SELECT 'consumers.sweep', at, 'done', 1, 1, 'n', at, 0, ''
FROM (SELECT clock_timestamp() - interval '{}' AS at) AS clock
"""


@pytest.mark.parametrize("until", ["10 s", "-10 s", "-1 day"])
def test_a_batch_may_hold_nothing_until_the_sweep_has_had_its_chance(queue, until) -> None:
    sql(EMPTY_BATCH.format(until))
    sql(SWEPT.format("2 days"))
    check_finds()


def test_a_batch_that_holds_nothing_and_that_the_sweep_leaves_is_found(queue) -> None:
    sql(EMPTY_BATCH.format("-1 day"))
    sql(SWEPT.format("10 s"))
    check_finds(r"late-notices: expected every claim .*; found 1 claim holding nothing \(\d+\)\.")


def test_many_rows_that_break_a_rule_are_counted_and_a_few_named(queue) -> None:
    publish_many(queue, [Outgoing(type="note", body={}) for _ in range(8)])
    sql("UPDATE dlqadmin_message SET claim_id = -1")
    check_finds(r".*; found 8 messages whose claim does not exist \(\d+, \d+, \d+, \d+, \d+, …\)\.")


def test_a_difference_is_printed_and_fails_but_not_for_other_queues(settled, keyed, capsys) -> None:
    sql("DELETE FROM dlqadmin_message WHERE message_id = 'waits-0'")
    with pytest.raises(CommandError, match="1 difference in the books of 2 queues"):
        call_command("books", "--check")
    assert "late-notices: expected all 10" in capsys.readouterr().out
    call_command("books", "--check", "loans")


def test_a_queue_that_is_not_there_or_not_native_is_refused(make_queue) -> None:
    make_queue("legacy", kind="rabbitmq")
    assert read_accounts() == {}
    for name in ("legacy", "nowhere"):
        with pytest.raises(NoSuchQueue, match=name):
            audit_books([name])
        with pytest.raises(CommandError, match=name):
            call_command("books", name)


def test_the_books_balance_at_every_moment_while_everything_works(make_queue, tmp_path) -> None:
    for name, (policy, _) in QUEUES.items():
        make_queue(name, **policy)
    environment = {"DATABASE_URL": database_url(connection.settings_dict), "DLQADMIN_HOME": str(tmp_path)}
    log, audits = tmp_path / "log", 0
    with ExitStack() as stack:
        workers = [
            stack.enter_context(running(["-m", "tests.deadletters.busy", str(seed), "150"], environment, log))
            for seed in (1, 2)
        ]
        while any(worker.poll() is None for worker in workers):
            assert audit_books().differences == []
            audits += 1
        assert [worker.returncode for worker in workers] == [0, 0], log.read_text()
    assert audits > 10
    for kind in ("processed", "duplicate", "stale", "discarded", "resolved"):
        assert sum(getattr(ledger, kind) for ledger in read_accounts().values()), kind
