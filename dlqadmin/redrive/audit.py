"""`manage.py books --check`: count again what the books say, and look for what no worker would ever come back to.

Everything is read in one snapshot, so the answer is right at any moment, also while workers run: each rule below holds
in every committed state, not only in a quiet one. A rule is one statement over all queues, of the rows that break it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection, transaction

from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.ledger import Ledger, count_ledgers

# Of the rows that break a rule, so many are named.
EXAMPLES = 5

_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

# The accounts of what ended as a letter, as the letters themselves tell it.
_LETTERS = """
SELECT queue_id, CASE WHEN state = 'discarded' THEN 'discarded' WHEN resolution = 'by hand' THEN 'resolved'
    WHEN resolution = 'succeeded' THEN 'processed' ELSE resolution END, count(*)
FROM dlqadmin_deadletter WHERE queue_id = ANY(%s) AND state IN ('discarded', 'resolved') GROUP BY 1, 2
"""

_BREAKING = """
SELECT queue_id, count(*), (array_agg(thing ORDER BY thing))[1:{examples}]
FROM ({breaking}) AS breaking (queue_id, thing) GROUP BY queue_id ORDER BY queue_id
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold. `breaking`: the rows that break it, each as (queue_id, id or key): a `thing` that is `wrong`."""

    expected: str
    thing: str
    wrong: str
    breaking: str

    def sentence(self, queue: str, number: int, examples: list[object]) -> str:
        """What was expected of this queue, and what was found."""
        named = ", ".join(str(example) for example in examples)
        things = self.thing if number == 1 else f"{self.thing}s"
        more = ", …" if number > len(examples) else ""
        return f"{queue}: expected {self.expected}; found {number} {things} {self.wrong} ({named}{more})."


_SENT = """letter.state = 'redriving' AND EXISTS (
    SELECT FROM dlqadmin_redriveitem WHERE letter_id = letter.id AND outcome = 'sent')"""

RULES = (
    Rule(
        "every letter that was sent back and has no outcome to have one message",
        "letter",
        "without a message",
        f"""
        SELECT queue_id, id FROM dlqadmin_deadletter AS letter WHERE queue_id = ANY(%(queues)s) AND {_SENT}
            AND NOT EXISTS (SELECT FROM dlqadmin_message WHERE letter_id = letter.id)
        """,  # noqa: S608 - made of constants
    ),
    Rule(
        "every letter that was sent back to have one message",
        "letter",
        "with several messages",
        """
        SELECT min(queue_id), letter_id FROM dlqadmin_message
        WHERE queue_id = ANY(%(queues)s) AND letter_id IS NOT NULL GROUP BY letter_id HAVING count(*) > 1
        """,
    ),
    Rule(
        "every message that comes from a letter to belong to one of its queue that was sent back and has no outcome",
        "message",
        "without such a letter",
        f"""
        SELECT queue_id, id FROM dlqadmin_message AS message
        WHERE queue_id = ANY(%(queues)s) AND letter_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM dlqadmin_deadletter AS letter
            WHERE letter.id = message.letter_id AND letter.queue_id = message.queue_id AND {_SENT}
        )
        """,  # noqa: S608 - made of constants
    ),
    Rule(
        "the count of every cluster to be the number of its open letters",
        "cluster",
        "with another count",
        """
        SELECT queue_id, id FROM dlqadmin_errorcluster AS leaf WHERE queue_id = ANY(%(queues)s)
            AND open_count + coalesce((SELECT sum(opened) FROM dlqadmin_clusterdelta WHERE cluster_id = leaf.id), 0)
                <> (SELECT count(*) FROM dlqadmin_deadletter WHERE cluster_id = leaf.id AND state = 'open')
        """,
    ),
    Rule(
        "every running message to be held by a claim of its queue",
        "message",
        "whose claim does not exist",
        """
        SELECT queue_id, id FROM dlqadmin_message AS message
        WHERE queue_id = ANY(%(queues)s) AND claim_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM dlqadmin_claim AS claim
            WHERE claim.token = message.claim_id AND claim.queue_id = message.queue_id
        )
        """,
    ),
    # A batch that is settled message by message holds nothing for a moment before it ends, or until the sweep finds it
    # if its worker is lost just then. So an empty batch is a fault only if a sweep came by long after it ran out (the
    # minute is for sessions that the server has yet to end). What is claimed singly is settled together with its claim.
    # The moment of the snapshot is wanted here, so now(), which stands still, is right.
    Rule(
        "every claim to hold a message or a key, or to be removed by the sweep",
        "claim",
        "holding nothing",
        """
        SELECT queue_id, token FROM dlqadmin_claim AS claim
        WHERE queue_id = ANY(%(queues)s)
            AND (single OR EXISTS (
                SELECT FROM dlqadmin_trigger WHERE job = 'consumers.sweep' AND state = 'done'
                    AND started_at BETWEEN claim.until + interval '1 minute' AND now()
            ))
            AND NOT EXISTS (SELECT FROM dlqadmin_message WHERE claim_id = claim.token)
            AND NOT EXISTS (SELECT FROM dlqadmin_queuekey WHERE claim_id = claim.token)
        """,
    ),
    Rule(
        "every key with messages to be known or announced",
        "key",
        "that no consumer would find",
        """
        SELECT queue_id, encode(key, 'escape') FROM (
            SELECT DISTINCT queue_id, key FROM dlqadmin_message WHERE queue_id = ANY(%(queues)s) AND by_key
        ) AS used
        WHERE NOT EXISTS (SELECT FROM dlqadmin_queuekey WHERE queue_id = used.queue_id AND key = used.key)
            AND NOT EXISTS (SELECT FROM dlqadmin_keyarrival WHERE queue_id = used.queue_id AND key = used.key)
        """,
    ),
    # Whoever lets go of a key writes down its head, whoever publishes announces it: else it would never be claimed.
    Rule(
        "the head of every key that nobody holds to be its first message, unless an arrival is on its way",
        "key",
        "with another head",
        """
        SELECT queue_id, encode(key, 'escape') FROM dlqadmin_queuekey AS known
        WHERE queue_id = ANY(%(queues)s) AND claim_id IS NULL AND head IS DISTINCT FROM (
                SELECT min(position) FROM dlqadmin_message AS message
                WHERE message.queue_id = known.queue_id AND message.key = known.key AND by_key
            )
            AND NOT EXISTS (SELECT FROM dlqadmin_keyarrival WHERE queue_id = known.queue_id AND key = known.key)
        """,
    ),
    Rule(
        "every key that is held to be held by a claim of its queue",
        "key",
        "whose claim does not exist",
        """
        SELECT queue_id, encode(key, 'escape') FROM dlqadmin_queuekey AS known
        WHERE queue_id = ANY(%(queues)s) AND claim_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM dlqadmin_claim AS claim
            WHERE claim.token = known.claim_id AND claim.queue_id = known.queue_id
        )
        """,
    ),
)

# The database does not check this for each message that is published, so the audit does.
_HOMELESS = """
SELECT queue_id, count(*) FROM dlqadmin_message AS message
WHERE NOT EXISTS (SELECT FROM dlqadmin_sourcequeue WHERE id = message.queue_id) GROUP BY queue_id ORDER BY queue_id
"""


class NoSuchQueue(Exception):
    """A name that no native queue has."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The queues that were looked at, and what is wrong with them, each in a sentence."""

    queues: list[str]
    differences: list[str]


def read_accounts(names: Iterable[str] = ()) -> dict[str, Ledger]:
    """The accounts of these native queues, or of all, by name, at one moment. Raises NoSuchQueue."""
    with _snapshot():
        queues = _native_queues(names)
        ledgers = count_ledgers(list(queues))
    return {name: ledgers[pk] for pk, name in queues.items()}


def audit_books(names: Iterable[str] = ()) -> Audit:
    """Count the accounts of these native queues, or of all, again, and look at what holds their messages.

    Reads only, in a transaction of its own: not to be called in another one. Raises NoSuchQueue.
    """
    names = set(names)
    with _snapshot():
        queues = _native_queues(names)
        ledgers = count_ledgers(list(queues))
        differences = [
            *_unbalanced(queues, ledgers),
            *_unlike_letters(queues, ledgers),
            *_broken_rules(queues),
            *([] if names else _homeless()),
        ]
    return Audit(list(queues.values()), differences)


@contextmanager
def _snapshot() -> Iterator[None]:
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute(_SNAPSHOT)
        yield


def _native_queues(names: Iterable[str]) -> dict[int, str]:
    """The names of these queues, or of all, by id, in their order."""
    asked = set(names)
    native = SourceQueue.objects.filter(kind=SourceQueue.Kind.NATIVE).order_by("name")
    found = dict((native.filter(name__in=asked) if asked else native).values_list("pk", "name"))
    if unknown := asked - set(found.values()):
        raise NoSuchQueue(f"There is no native queue of the name {', '.join(sorted(unknown))}.")
    return found


def _unbalanced(queues: dict[int, str], ledgers: dict[int, Ledger]) -> Iterator[str]:
    """Every message that was received can be shown, once."""
    for pk, ledger in ledgers.items():
        accounts = asdict(ledger)
        for kind, amount in accounts.items():
            if amount < 0:
                yield f"{queues[pk]}: expected 0 or more {kind}; found {amount}."
        if ledger.difference:
            shown = [f"{amount} {kind}" for kind, amount in accounts.items() if amount and kind != "received"]
            yield (
                f"{queues[pk]}: expected all {ledger.received} received messages to be shown once; "
                f"found {ledger.accounted_for} ({', '.join(shown) or 'none'})."
            )


def _unlike_letters(queues: dict[int, str], ledgers: dict[int, Ledger]) -> Iterator[str]:
    """Discarded and resolved are letters, each of them; what came of redriven letters is a part of three accounts."""
    letters: dict[int, dict[str, int]] = {pk: {} for pk in queues}
    for pk, kind, number in _ask(_LETTERS, [list(queues)]):
        letters[pk][kind] = number
    for pk, ledger in ledgers.items():
        accounts = asdict(ledger)
        for kind in ("discarded", "resolved"):
            number = letters[pk].get(kind, 0)
            if accounts[kind] != number:
                yield (
                    f"{queues[pk]}: expected the account {kind} to be {number}, the number of such letters; "
                    f"found {accounts[kind]}."
                )
        for kind in ("processed", "duplicate", "stale"):
            number = letters[pk].get(kind, 0)
            if number and accounts[kind] < number:
                yield (
                    f"{queues[pk]}: expected the account {kind} to be at least {number}, the number of letters "
                    f"that ended so; found {accounts[kind]}."
                )


def _broken_rules(queues: dict[int, str]) -> Iterator[str]:
    for rule in RULES:
        statement = _BREAKING.format(examples=EXAMPLES, breaking=rule.breaking)
        for pk, number, examples in _ask(statement, {"queues": list(queues)}):
            yield rule.sentence(queues[pk], number, examples)


def _homeless() -> Iterator[str]:
    for pk, number in _ask(_HOMELESS):
        yield f"Queue {pk}: expected no messages, since it does not exist; found {number}."


def _ask(query: str, values: Any = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
