"""The ledger of a queue: what was received equals what can be shown.

    received = processed + duplicate + stale + waiting + running + dead + discarded + resolved

What ended is read from the books (`queues.books`), what is still there is counted where it lies.
"""

from dataclasses import dataclass

from django.db import connection

from dlqadmin.clusters.counts import OPEN_LEAVES

# One statement sees one snapshot, so the sum is right at any moment, also while consumers work. Each live account has
# a branch of its own, which an index answers.
_READ = """
SELECT queue_id, kind, sum(amount)::bigint FROM (
    SELECT queue_id, kind, total AS amount FROM dlqadmin_account WHERE queue_id = ANY(%(queues)s)
    UNION ALL
    SELECT queue_id, kind, delta FROM dlqadmin_accountdelta WHERE queue_id = ANY(%(queues)s)
    UNION ALL
    SELECT queue_id, 'waiting', count(*) FROM dlqadmin_message
    WHERE queue_id = ANY(%(queues)s) AND claim_id IS NULL GROUP BY 1
    UNION ALL
    SELECT queue_id, 'running', count(*) FROM dlqadmin_message
    WHERE queue_id = ANY(%(queues)s) AND claim_id IS NOT NULL GROUP BY 1
    UNION ALL -- what was taken of claimed keys is not marked as such
    SELECT taken.queue_id, shown.kind, count(*) * shown.sign FROM dlqadmin_claim AS claim
    JOIN dlqadmin_message AS taken ON taken.id = ANY(claim.message_ids) AND taken.claim_id IS NULL
    CROSS JOIN (VALUES ('running', 1), ('waiting', -1)) AS shown (kind, sign)
    WHERE claim.queue_id = ANY(%(queues)s) GROUP BY 1, 2, shown.sign
    UNION ALL
    {open}
    UNION ALL
    SELECT queue_id, 'dead', count(*) FROM dlqadmin_deadletter AS letter
    WHERE queue_id = ANY(%(queues)s) AND state = 'redriving'
        AND NOT EXISTS (SELECT FROM dlqadmin_redriveitem WHERE letter_id = letter.id AND outcome = 'sent') GROUP BY 1
) AS entries GROUP BY queue_id, kind
"""

_COUNTED = """SELECT queue_id, 'dead', count(*) FROM dlqadmin_deadletter
    WHERE queue_id = ANY(%(queues)s) AND state = 'open' GROUP BY 1"""

# A page does not read a million letters: their clusters know how many they are.
_SUMMED = f"""SELECT queue_id, 'dead', sum(letters) FROM ({OPEN_LEAVES}) AS leaves
    WHERE queue_id = ANY(%(queues)s) GROUP BY 1
    UNION ALL
    SELECT queue_id, 'dead', count(*) FROM dlqadmin_deadletter
    WHERE queue_id = ANY(%(queues)s) AND cluster_id IS NULL AND state = 'open' GROUP BY 1"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True)
class Ledger:
    """The accounts of a queue, in messages. `dead`: open letters, and those in a redrive that are not sent yet."""

    received: int = 0
    processed: int = 0
    duplicate: int = 0
    stale: int = 0
    waiting: int = 0
    running: int = 0
    dead: int = 0
    discarded: int = 0
    resolved: int = 0

    @property
    def accounted_for(self) -> int:
        """The sum of everything that can be shown."""
        ended = self.processed + self.duplicate + self.stale + self.discarded + self.resolved
        return ended + self.waiting + self.running + self.dead

    @property
    def difference(self) -> int:
        """Received messages that cannot be shown: 0 if nothing is lost, negative if something is counted twice."""
        return self.received - self.accounted_for


def read_ledger(queue_id: int) -> Ledger:
    """The ledger of one queue now, everything counted."""
    return count_ledgers([queue_id])[queue_id]


def read_ledgers(queue_ids: list[int]) -> dict[int, Ledger]:
    """The ledgers of these queues at one moment, open letters as their clusters' counts have them: for pages."""
    return _read(queue_ids, _SUMMED)


def count_ledgers(queue_ids: list[int]) -> dict[int, Ledger]:
    """The ledgers of these queues at one moment, everything counted where it lies."""
    return _read(queue_ids, _COUNTED)


def _read(queue_ids: list[int], open_letters: str) -> dict[int, Ledger]:
    found: dict[int, dict[str, int]] = {queue_id: {} for queue_id in queue_ids}
    with connection.cursor() as cursor:
        cursor.execute(_READ.format(open=open_letters), {"queues": queue_ids})
        for queue_id, kind, amount in cursor.fetchall():
            found[queue_id][kind] = amount
    return {queue_id: Ledger(**amounts) for queue_id, amounts in found.items()}
