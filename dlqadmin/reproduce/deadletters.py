"""Section 1 of the published figures: thresholds, what a letter carries and its redrive, choosing the threshold."""

from dlqadmin.consumers.registry import declared
from dlqadmin.consumers.run import IncomingMessage
from dlqadmin.consumers.settle import Outcome
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.messages.models import Message
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.ledger import read_ledger
from dlqadmin.redrive.models import RedriveItem
from dlqadmin.redrive.run import collect_outcomes, send_pending
from dlqadmin.redrive.start import NO_CANARY, start_redrive
from dlqadmin.reproduce.scratch import rounds, scratch_queue
from dlqadmin.reproduce.table import Row, Table

TYPE = "late_notice"
LOANS = range(1, 21)
POISON = frozenset({7, 13})
ROUNDS = 8


def thresholds() -> list[Table]:
    """1a: the same queue with and without a threshold."""
    modes = [("no threshold", 0, 8), ("no threshold", 0, 24), ("threshold 3", 3, 8)]
    return [
        Table(
            "1a. A work queue with and without a threshold",
            ("mode", "rounds", "deliveries", "succeeded", "wasted", "remaining", "dead letters"),
            published=[
                ("no threshold", 8, 34, 18, 16, 2, 0),
                ("no threshold", 24, 66, 18, 48, 2, 0),
                ("threshold 3", 8, 24, 18, 6, 0, 2),
            ],
            measured=[_threshold_row(*mode) for mode in modes],
        )
    ]


def _threshold_row(mode: str, threshold: int, number: int) -> Row:
    with scratch_queue(threshold) as queue, declared(queue.name, type=TYPE, function=_needs_member):
        _publish(queue)
        done = rounds(queue, number)
        return (
            mode,
            number,
            done.deliveries,
            done.outcomes[Outcome.PROCESSED],
            done.wasted,
            Message.objects.filter(queue=queue).count(),
            DeadLetter.objects.open().filter(queue=queue).count(),
        )


def redrive() -> list[Table]:
    """1b: what the two letters carry, and that they succeed once the cause is gone."""
    missing = set(POISON)

    def handler(message: IncomingMessage) -> None:
        _fail_for(message, missing)

    with scratch_queue(3) as queue, declared(queue.name, type=TYPE, function=handler):
        _publish(queue)
        rounds(queue, ROUNDS)
        letters = [
            _letter_row(letter)
            for letter in DeadLetter.objects.open().filter(queue=queue).order_by("position")
        ]
        steps = [("first pass", *_state(queue))]
        missing.clear()
        steps.append(("redriven", *_redrive_all(queue)))
        rounds(queue, ROUNDS)
        steps.append(("second pass", *_state(queue)))
    return [
        Table(
            "1b. What a dead letter carries",
            ("body", "type", "attempts", "last error", "source is the queue"),
            published=[
                ('{"loanId": 7}', "late_notice", 3, "member not found (loan 7)", True),
                ('{"loanId": 13}', "late_notice", 3, "member not found (loan 13)", True),
            ],
            measured=[(*row[:4], row[4] == queue.name) for row in letters],
        ),
        Table(
            "1b. The redrive",
            ("moment", "processed", "waiting", "dead letters"),
            published=[("first pass", 18, 0, 2), ("redriven", 18, 2, 0), ("second pass", 20, 0, 0)],
            measured=steps,
        ),
    ]


def _letter_row(letter: DeadLetter) -> Row:
    return (
        bytes(letter.body or b"").decode(),
        letter.type,
        letter.attempts,
        letter.error_text,
        letter.queue.name,
    )


def _redrive_all(queue: SourceQueue) -> tuple[int, int, int]:
    """Diagnose and redrive every cluster of the queue through the gate; the state after sending."""
    for cluster in queue.clusters.roots():
        sign_diagnosis(
            cluster=cluster, by=None, kind="permanent", cause="members are missing", fix="members added"
        )
        run = start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
        send_pending(run)
        outcomes = collect_outcomes(run)
        if outcomes[RedriveItem.Outcome.SENT] != run.items.count():
            raise AssertionError(f"redrive {run.pk} did not send all its letters: {dict(outcomes)}")
    return _state(queue)


def _state(queue: SourceQueue) -> tuple[int, int, int]:
    """Processed, waiting, dead letters."""
    return (
        read_ledger(queue.pk).processed,
        Message.objects.filter(queue=queue).count(),
        DeadLetter.objects.open().filter(queue=queue).count(),
    )


def choice() -> list[Table]:
    """1c: what each threshold costs and what it wrongly isolates."""
    return [
        Table(
            "1c. Choosing the threshold",
            ("threshold", "processed", "wasted", "wrongly isolated", "rightly isolated"),
            published=[
                (1, 9, 11, 9, 2),
                (2, 9, 22, 9, 2),
                (3, 14, 28, 4, 2),
                (5, 18, 36, 0, 2),
                (8, 18, 42, 0, 2),
            ],
            measured=[_choice_row(threshold) for threshold in (1, 2, 3, 5, 8)],
        )
    ]


def _choice_row(threshold: int) -> Row:
    with scratch_queue(threshold) as queue, declared(queue.name, type=TYPE, function=_needs_attempts):
        _publish(queue)
        done = rounds(queue, threshold)
        dead = [
            bytes(body or b"")
            for body in DeadLetter.objects.open().filter(queue=queue).values_list("body", flat=True)
        ]
        right = sum(body == _body(loan) for body in dead for loan in POISON)
        return threshold, done.outcomes[Outcome.PROCESSED], done.wasted, len(dead) - right, right


def _publish(queue: SourceQueue) -> None:
    publish_many(
        queue, [Outgoing(type=TYPE, body=_body(loan), content_type="application/json") for loan in LOANS]
    )


def _body(loan: int) -> bytes:
    return b'{"loanId": %d}' % loan


def _needs_member(message: IncomingMessage) -> None:
    _fail_for(message, POISON)


def _fail_for(message: IncomingMessage, missing: set[int] | frozenset[int]) -> None:
    loan = message.data["loanId"]
    if loan in missing:
        raise LookupError(f"member not found (loan {loan})")


def _needs_attempts(message: IncomingMessage) -> None:
    """The population of 1c: how many attempts each message needs."""
    loan = message.data["loanId"]
    _fail_for(message, POISON)
    needed = 5 if loan % 5 == 0 else 3 if loan % 3 == 0 else 1
    if message.attempt < needed:
        raise ConnectionError(f"not yet (loan {loan}, attempt {message.attempt} of {needed})")
