"""Keys that wait for a letter: in an ordered queue that holds its keys, what comes after a dead message must not run.

While a key has an open or redriving letter it is parked at the first such letter's position: only messages up to there
may run, that is the letter's own when it is redriven, and older ones. A letter that is settled lets the key go on.
"""

from collections.abc import Sequence

from django.db import connection

from dlqadmin.leases.run import guarded
from dlqadmin.messages import ordering

_PARK = """
UPDATE dlqadmin_queuekey AS known SET parked_position = held.position,
    parked_at = CASE WHEN held.position IS NOT NULL THEN coalesce(known.parked_at, clock_timestamp()) END
FROM (
    SELECT asked.id, (
        SELECT min(letter.position) FROM dlqadmin_deadletter AS letter WHERE letter.queue_id = asked.queue_id
            AND letter.key = asked.key AND letter.state IN ('open', 'redriving')
    ) AS position FROM dlqadmin_queuekey AS asked WHERE asked.id = ANY(%s)
) AS held WHERE held.id = known.id
"""

_STILL_PARKED = """
SELECT known.id FROM dlqadmin_queuekey AS known JOIN dlqadmin_sourcequeue AS queue ON queue.id = known.queue_id
WHERE queue.on_death = 'release' AND known.parked_position IS NOT NULL AND known.claim_id IS NULL
ORDER BY known.key LIMIT %s FOR UPDATE OF known SKIP LOCKED
"""


def park_at_letters(ids: Sequence[int]) -> None:
    """Park these keys at their first unsettled letter, or unpark them. Ids of rows that the transaction holds."""
    with connection.cursor() as cursor:
        cursor.execute(_PARK, [list(ids)])


def letters_settled(queue_id: int, keys: Sequence[bytes]) -> None:
    """Let keys go on whose letters a person has settled, in the transaction that did so."""
    held = ordering.hold_free_keys(queue_id, keys)
    park_at_letters(held)
    ordering.let_go(held)


# Whether there is anything for `release_parked`: the leader's question, see leases.jobs.
STILL_PARKED = """
EXISTS (SELECT FROM dlqadmin_queuekey AS known JOIN dlqadmin_sourcequeue AS queue ON queue.id = known.queue_id
    WHERE queue.on_death = 'release' AND known.parked_position IS NOT NULL)
"""


@guarded()
def release_parked(most: int = 1000) -> int:
    """Unpark keys of queues that do not hold their keys any more; how many."""
    with connection.cursor() as cursor:
        cursor.execute(_STILL_PARKED, [most])
        ids = [row[0] for row in cursor.fetchall()]
        if ids:
            cursor.execute(
                "UPDATE dlqadmin_queuekey SET parked_position = NULL, parked_at = NULL WHERE id = ANY(%s)",
                [ids],
            )
            ordering.let_go(ids)
    return len(ids)
