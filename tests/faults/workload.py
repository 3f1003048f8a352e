"""What is published in the fault run of the consumers: queues for each promise, and messages that misbehave.

A message's number `n` is unique over all queues. It is published in one transaction with its row in
`fault_published`, which therefore says exactly what was published; a handler leaves its rows in `fault_effect`, where
nothing keeps a second one out.
"""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

KEYS = 10
ATTEMPTS = 3
MAX_LOST = 2

# A handler that is frozen outlives its claim (15 s), and is not killed before that for running too long.
_OFTEN = {"timeout": 20.0, "backoff_base": 0.05, "backoff_jitter": False}
# Only the messages that kill their worker may die of that; harms may by chance hit another one more than once.
_STEADY = _OFTEN | {"max_lost": 20}

QUEUES: dict[str, dict[str, Any]] = {
    "atomic-rep": _STEADY,
    "atomic": _OFTEN | {"max_attempts": ATTEMPTS, "max_lost": MAX_LOST},
    "each": _STEADY,
    "keyed": _STEADY | {"ordered": True},
    "ledger": _STEADY | {"idempotency": "ledger"},
}

# Of each queue's messages, the share of those that fail at their first attempt, and of those that fail at every one.
FAIL_ONCE = {"atomic-rep": 0.01, "atomic": 0.1, "keyed": 0.02, "ledger": 0.02}
FAIL_ALWAYS = {"atomic": 0.05}
PUBLISHED_AGAIN = 0.2  # of the message ids of `ledger`

TABLES = """
CREATE TABLE fault_published (n bigint PRIMARY KEY, queue text, type text, key text, message_id text,
    at timestamptz DEFAULT clock_timestamp());
CREATE TABLE fault_effect (id bigserial PRIMARY KEY, n bigint, attempt int, node text,
    at timestamptz DEFAULT clock_timestamp());
CREATE VIEW fault_letter AS SELECT (convert_from(body, 'UTF8')::json ->> 'n')::bigint AS n, reason, attempts, lost,
    (SELECT count(*) FROM dlqadmin_attempt AS attempt WHERE attempt.lineage = letter.lineage) AS kept
    FROM dlqadmin_deadletter AS letter;
CREATE VIEW fault_outcome AS SELECT published.*, coalesce(effects, 0) AS effects, reason, letters FROM fault_published
    AS published LEFT JOIN (SELECT n, count(*) AS effects FROM fault_effect GROUP BY n) AS done USING (n) LEFT JOIN
    (SELECT n, min(reason) AS reason, count(*) AS letters FROM fault_letter GROUP BY n) AS dead USING (n);
"""


@dataclass(frozen=True)
class Draft:
    """A message that may be published."""

    n: int
    queue: str
    type: str
    key: str | None
    message_id: str


@dataclass
class Drafts:
    """Makes messages, in batches for one queue each."""

    chance: random.Random
    n: int = 0
    _ids: deque[str] = field(default_factory=lambda: deque(maxlen=200))  # that may be published again

    def batch(self) -> list[Draft]:
        """One to eight messages for one queue, well-behaved or failing."""
        queue = self.chance.choice(list(QUEUES))
        return [self._draft(queue, self._type(queue)) for _ in range(self.chance.randint(1, 8))]

    def killer(self) -> list[Draft]:
        """One message that kills its worker, among well-behaved ones."""
        types = ["effect", "effect", "vanish", "effect"]
        return [self._draft("atomic", type) for type in types]

    def _draft(self, queue: str, type: str) -> Draft:
        self.n += 1
        key = f"key {self.chance.randrange(KEYS)}" if queue == "keyed" else None
        return Draft(self.n, queue, type, key, self._message_id(queue))

    def _type(self, queue: str) -> str:
        die = self.chance.random()
        if die < FAIL_ALWAYS.get(queue, 0):
            return "fail"
        return "once" if die < FAIL_ALWAYS.get(queue, 0) + FAIL_ONCE.get(queue, 0) else "effect"

    def _message_id(self, queue: str) -> str:
        """A new one; in the ledger's queue at times one of the last that were published once."""
        if queue != "ledger":
            return f"m{self.n}"
        # Of n ids, PUBLISHED_AGAIN * n come again.
        if self._ids and self.chance.random() < PUBLISHED_AGAIN / (1 + PUBLISHED_AGAIN):
            again = self.chance.choice(self._ids)
            self._ids.remove(again)
            return again
        self._ids.append(f"m{self.n}")
        return f"m{self.n}"
