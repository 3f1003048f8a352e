"""Whatever happens in whatever order, the books balance, and claims, keys and letters agree with the messages.

Hypothesis plays a queue's life: it publishes, claims, runs, loses workers, lets time pass, redrives and discards, and
after every step all that must hold is looked at. `BOOKS_EXAMPLES=500` makes it play for longer, and at random.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters import counts
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.consumers import Permanent
from dlqadmin.consumers.batch import run_claim
from dlqadmin.consumers.claim import Claim, claim_batch, claim_single
from dlqadmin.consumers.errors import ClaimLost
from dlqadmin.consumers.settle import give_back
from dlqadmin.consumers.sweep import expire_claims
from dlqadmin.deadletters.holding import letters_settled, release_parked
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.messages.idempotency import NO_VERSION
from dlqadmin.messages.models import Claim as ClaimRow
from dlqadmin.messages.models import Discard, KeyArrival, KeyVersion, Message, QueueKey
from dlqadmin.messages.ordering import file_arrivals
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.queues import books
from dlqadmin.queues.models import AccountKind, SourceQueue
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.ledger import count_ledgers
from dlqadmin.redrive.models import Redrive, RedriveItem
from dlqadmin.redrive.run import advance_redrives, send_pending
from dlqadmin.redrive.start import NO_CANARY, start_redrive
from tests.consumers.work import LONG, effects, expire_now, leave_effect

EXAMPLES = int(os.environ.get("BOOKS_EXAMPLES", "0"))

POLICIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "ledger": {"idempotency": "ledger"},
    "latest": {"idempotency": "latest"},
    "release": {"ordered": True, "idempotency": "ledger"},
    "hold": {"ordered": True, "on_death": "hold", "idempotency": "latest"},
}
TYPES = {"note": {}, "repeatable": {"repeatable": True}, "loose": {"atomic": False}}
LIVE = (DeadLetter.State.OPEN, DeadLetter.State.REDRIVING)

queues = st.sampled_from(list(POLICIES))
numbers = st.integers(0, 20)
notes = st.fixed_dictionaries(
    {
        "type": st.sampled_from([*TYPES, "note", "unknown"]),
        "do": st.sampled_from(
            ["succeed", "succeed", "fail", "fail once", "refuse", "go on after an error", "cut off"]
        ),
        "key": st.sampled_from([None, "a", "b"]),
        "version": st.sampled_from([None, 1, 2, 3]),
        "message_id": st.sampled_from([None, None, "x", "y"]),
        "delay": st.sampled_from([0.0, 0.0, 0.0, LONG]),
    }
)


class Life(RuleBasedStateMachine):
    """The life of several queues. `declare` is given by the test: it makes a handler known."""

    declare: Callable[..., None]

    def __init__(self) -> None:
        super().__init__()
        self.example = transaction.atomic()  # is rolled back at the end
        self.example.__enter__()
        self.queues = {
            name: SourceQueue.objects.create(
                name=name, max_attempts=2, max_lost=2, backoff_base=LONG, backoff_jitter=False, **policy
            )
            for name, policy in POLICIES.items()
        }
        self.claims: list[Claim] = []
        self.published: Counter[str] = Counter()
        self.positions: dict[tuple[int, bytes], set[int]] = {}
        self.wrong: list[str] = []

    def teardown(self) -> None:
        try:
            self.everything_ends()
        finally:
            transaction.set_rollback(True)
            self.example.__exit__(None, None, None)

    # --- What happens -------------------------------------------------------------------------------------------------

    @rule(name=queues, batch=st.lists(notes, min_size=1, max_size=5))
    def publish(self, name: str, batch: list[dict[str, Any]]) -> None:
        queue = self.queues[name]
        outgoing = [
            Outgoing(**one | {"body": b"{" if do == "cut off" else {"do": do}})
            for one, do in ((dict(one), one["do"]) for one in batch)
            if one.pop("do")
        ]
        positions = publish_many(queue, outgoing)
        self.published[name] += len(batch)
        for one, position in zip(outgoing, positions, strict=True):
            if queue.ordered and one.key is not None:
                self.positions.setdefault((queue.pk, one.key.encode()), set()).add(position)

    @rule(name=queues, by_key=st.booleans(), size=st.sampled_from([1, 2, 3, 100]))
    def consume_a_batch(self, name: str, by_key: bool, size: int) -> None:
        if claim := claim_batch(self.queues[name], size, by_key=by_key):
            run_claim(claim)

    @rule(name=queues, by_key=st.booleans(), suspect=st.booleans())
    def consume_one(self, name: str, by_key: bool, suspect: bool) -> None:
        if claim := claim_single(self.queues[name], by_key=by_key, suspect=suspect):
            run_claim(claim)

    @rule(name=queues, by_key=st.booleans(), size=st.sampled_from([1, 2, 100]), suspect=st.booleans())
    def claim(self, name: str, by_key: bool, size: int, suspect: bool) -> None:
        """A worker begins; what becomes of it is told later."""
        queue = self.queues[name]
        claim = (
            claim_single(queue, by_key=by_key, suspect=True)
            if suspect
            else claim_batch(queue, size, by_key=by_key)
        )
        if claim:
            self.claims.append(claim)

    @precondition(lambda self: self.claims)
    @rule(number=numbers)
    def run(self, number: int) -> None:
        """It runs what it claimed, perhaps too late."""
        run_claim(self.claims.pop(number % len(self.claims)))

    @precondition(lambda self: self.claims)
    @rule(number=numbers)
    def give_back(self, number: int) -> None:
        try:
            give_back(self.claims.pop(number % len(self.claims)))
        except ClaimLost:
            transaction.set_rollback(False)

    @precondition(lambda self: self.claims)
    @rule(sweep=st.booleans())
    def lose_workers(self, sweep: bool) -> None:
        expire_now()
        if sweep:
            expire_claims()

    @rule()
    def sweep(self) -> None:
        expire_claims()
        release_parked()
        books.fold(most=7)

    @rule(name=queues)
    def file(self, name: str) -> None:
        file_arrivals(self.queues[name].pk)

    @rule()
    def let_time_pass(self) -> None:
        """What waits is due."""
        Message.objects.filter(available_at__gt=ClockTimestamp()).update(available_at=ClockTimestamp())
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE dlqadmin_queuekey AS known SET due_at = message.available_at FROM dlqadmin_message AS message "
                "WHERE by_key AND message.queue_id = known.queue_id AND message.key = known.key "
                "AND position = head AND due_at IS NOT NULL"
            )

    @precondition(lambda self: DeadLetter.objects.open().exists())
    @rule(number=numbers, send=st.booleans())
    def diagnose_and_redrive(self, number: int, send: bool) -> None:
        clusters = list(ErrorCluster.objects.filter(letters__state="open").distinct().order_by("id"))
        cluster = clusters[number % len(clusters)]
        sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="c", fix="f")
        redrive = start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
        if send:
            send_pending(redrive)

    @precondition(lambda self: Redrive.objects.filter(state="running").exists())
    @rule()
    def advance_redrives(self) -> None:
        advance_redrives()

    @precondition(lambda self: DeadLetter.objects.open().exists())
    @rule(number=numbers)
    def discard_a_letter(self, number: int) -> None:
        letters = list(DeadLetter.objects.open().order_by("id"))
        letter = letters[number % len(letters)]
        DeadLetter.objects.filter(pk=letter.pk).update(state=DeadLetter.State.DISCARDED)
        books.post(letter.queue_id, AccountKind.DISCARDED)
        counts.post(letter.cluster_id, opened=-1)
        if letter.key is not None:
            letters_settled(letter.queue_id, [bytes(letter.key)])

    def handle(self, message: Any) -> None:
        """The handler of all types: its body says what it does, until it is redriven."""
        row = Message.objects.get(lineage=message.lineage)
        if row.by_key and self.queues["hold"].pk == row.queue_id:
            before = DeadLetter.objects.filter(
                queue=row.queue_id, key=row.key, state__in=LIVE, position__lt=row.position
            )
            if before.exists():
                self.wrong.append(f"{row} ran although {before[0]} holds its key")
        if message.type != "loose":
            leave_effect(f"{row.queue_id} {message.id}")
        do = "succeed" if message.generation else message.data["do"]
        if do == "fail" or (do == "fail once" and message.attempt == 1):
            raise ValueError("bad")
        if do == "refuse":
            raise Permanent("never")
        if do == "go on after an error" and message.type != "loose":
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("SELECT 1 / 0")

    # --- What must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def everything_agrees(self) -> None:
        now = Now()
        self.the_books_balance()
        claims_and_what_they_hold_agree(now)
        keys_say_what_their_messages_are(now)
        letters_that_were_sent_back_are_messages(now)
        a_held_key_is_parked_at_its_first_letter(now, self.queues["hold"].pk)
        keys_go_on_in_publish_order(now, self.positions)
        self.what_is_done_is_remembered_and_nothing_else()
        assert not self.wrong

    def the_books_balance(self) -> None:
        ledgers = count_ledgers([queue.pk for queue in self.queues.values()])
        for name, queue in self.queues.items():
            ledger = ledgers[queue.pk]
            assert ledger.difference == 0, (name, ledger)
            assert ledger.received == self.published[name]
            assert min(ledger.processed, ledger.duplicate, ledger.stale, ledger.discarded) >= 0
        assert Discard.objects.count() <= sum(one.duplicate + one.stale for one in ledgers.values())

    def what_is_done_is_remembered_and_nothing_else(self) -> None:
        done = Counter(effects())
        for name in ("ledger", "release"):
            queue = self.queues[name].pk
            assert all(done[f"{queue} {one}"] <= 1 for one in "xy"), "an id was processed twice"
        assert not KeyVersion.objects.filter(version=NO_VERSION).exists()

    def everything_ends(self) -> None:
        """When workers live and time passes, no message waits for ever, but behind a letter that holds its key."""
        expire_now()
        expire_claims()
        advance_redrives()
        for _ in range(12):
            self.let_time_pass()
            for queue in self.queues.values():
                for by_key in (False, True):
                    while claim := claim_single(queue, by_key=by_key, suspect=True) or claim_batch(
                        queue, 100, by_key=by_key
                    ):
                        run_claim(claim)
        self.everything_agrees()
        for message in Message.objects.all():
            holding = DeadLetter.objects.filter(
                key=message.key, state__in=LIVE, position__lt=message.position
            )
            assert message.queue_id == self.queues["hold"].pk
            assert holding.filter(queue=message.queue_id).exists()


@dataclass
class Now:
    """The rows as they are, the messages and letters in publish order."""

    messages: list[Message] = field(default_factory=lambda: list(Message.objects.order_by("position")))
    keys: list[QueueKey] = field(default_factory=lambda: list(QueueKey.objects.all()))
    arrivals: list[KeyArrival] = field(default_factory=lambda: list(KeyArrival.objects.all()))
    claims: set[int] = field(default_factory=lambda: set(ClaimRow.objects.values_list("token", flat=True)))
    letters: list[DeadLetter] = field(
        default_factory=lambda: list(DeadLetter.objects.filter(state__in=LIVE).order_by("position"))
    )

    # What is marked as sent and has no outcome yet: `returned` and `resolved` letters have one, collected or not.
    sent: list[int] = field(
        default_factory=lambda: list(
            RedriveItem.objects.filter(outcome="sent", letter__state="redriving").values_list(
                "letter", flat=True
            )
        )
    )

    @property
    def by_key(self) -> list[Message]:
        return [one for one in self.messages if one.by_key]


def name_of(one: Message | QueueKey | KeyArrival | DeadLetter) -> tuple[int, bytes]:
    """The key of a queue that it belongs to."""
    return one.queue_id, bytes(one.key)


def claims_and_what_they_hold_agree(now: Now) -> None:
    keys = {name_of(key): key.claim_id for key in now.keys}
    held = ({one.claim_id for one in now.messages} | {key.claim_id for key in now.keys}) - {None}
    assert held <= now.claims, "a message or key points to a claim that is gone"
    assert held == now.claims, "a claim holds nothing"
    for one in now.by_key:
        assert one.claim_id in (None, keys.get(name_of(one))), "a message is held without its key"


def keys_say_what_their_messages_are(now: Now) -> None:
    arrived = {name_of(one) for one in now.arrivals}
    first = {name_of(message): message for message in reversed(now.by_key)}
    assert first.keys() <= {name_of(key) for key in now.keys} | arrived, (
        "a message that no consumer will hear of"
    )
    for key in now.keys:
        if key.claim_id is not None or name_of(key) in arrived:
            continue
        head = first.get(name_of(key))
        assert key.head == (head and head.position)
        assert head or key.parked_position is not None, "a row of a key that has nothing"
        parked = head and key.parked_position is not None and head.position > key.parked_position
        assert key.due_at == (None if parked or not head else head.available_at)
        assert key.suspect == (head.suspect if head else False)


def letters_that_were_sent_back_are_messages(now: Now) -> None:
    assert sorted(now.sent) == sorted(one.letter_id for one in now.messages if one.letter_id)


def a_held_key_is_parked_at_its_first_letter(now: Now, queue: int) -> None:
    expected = {
        name_of(one): one.position
        for one in reversed(now.letters)
        if one.queue_id == queue and one.key is not None
    }
    for key in now.keys:
        if key.claim_id is None:
            assert key.parked_position == expected.pop(name_of(key), None)
    assert expected.keys() <= {name_of(key) for key in now.keys}


def keys_go_on_in_publish_order(now: Now, published: dict[tuple[int, bytes], set[int]]) -> None:
    waiting: dict[tuple[int, bytes], set[int]] = {}
    for one in now.by_key:
        if one.generation == 0:
            waiting.setdefault(name_of(one), set()).add(one.position)
    for name, positions in published.items():
        left = waiting.get(name, set())
        assert max(positions - left, default=0) < min(left, default=2**62)


@pytest.mark.django_db
def test_whatever_happens_the_books_balance_and_nothing_is_stuck(handle, monkeypatch) -> None:
    began = time.monotonic()
    monkeypatch.setattr("dlqadmin.consumers.batch.time", SimpleNamespace(monotonic=lambda: began))
    monkeypatch.setattr("dlqadmin.redrive.send.BATCH", 2)
    current: list[Life] = []

    class Played(Life):
        def __init__(self) -> None:
            super().__init__()
            current[:] = [self]

    for name in POLICIES:
        for type, options in TYPES.items():
            handle(SourceQueue(name=name), lambda message: current[0].handle(message), type=type, **options)
    run_state_machine_as_test(
        Played,
        settings=settings(
            max_examples=EXAMPLES or 5,
            stateful_step_count=40 if EXAMPLES else 25,
            derandomize=not EXAMPLES,
            phases=[Phase.generate, Phase.shrink] if EXAMPLES else [Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
