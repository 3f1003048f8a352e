"""What people do with letters that are not sent back: discard them, or say that their work was done; and undo it.

Every change of a letter's state goes with its entry in the books, its cluster's count, and its key, which may go on.
"""

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction
from django.utils.translation import gettext as _

from dlqadmin.clusters import counts
from dlqadmin.deadletters.holding import letters_settled
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.people.audit import Actor, record
from dlqadmin.queues import books
from dlqadmin.queues.models import AccountKind, SourceQueue

State, Resolution = DeadLetter.State, DeadLetter.Resolution

_SETTLE = f"""
WITH settled AS (
    UPDATE dlqadmin_deadletter SET state = %(state)s, resolution = %(resolution)s, state_changed_at = clock_timestamp()
    WHERE queue_id = %(queue)s AND id = ANY(%(letters)s) AND state = 'open' RETURNING id, cluster_id, key
), counted AS (
    {counts.POST} SELECT cluster_id, -count(*), 0 FROM settled WHERE cluster_id IS NOT NULL GROUP BY cluster_id
), posted AS (
    {books.POST} SELECT %(queue)s, %(account)s, count(*) FROM settled HAVING count(*) > 0
)
SELECT id, key FROM settled
"""  # noqa: S608 - made of constants

# A key that went on cannot be called back: what came after this letter may have run.
_REOPEN = f"""
WITH opened AS (
    UPDATE dlqadmin_deadletter AS letter
    SET state = 'open', resolution = '', state_changed_at = clock_timestamp()
    FROM dlqadmin_sourcequeue AS queue
    WHERE letter.queue_id = %(queue)s AND letter.id = ANY(%(letters)s) AND queue.id = letter.queue_id
        AND (letter.state = 'discarded' OR letter.resolution IN ('by hand', 'duplicate', 'stale'))
        AND letter.outcome_at IS NULL
        AND NOT (queue.ordered AND queue.on_death = 'hold' AND letter.key IS NOT NULL)
    RETURNING letter.id, letter.cluster_id
), counted AS (
    {counts.POST} SELECT cluster_id, count(*), 0 FROM opened WHERE cluster_id IS NOT NULL GROUP BY cluster_id
)
SELECT letter.id, CASE WHEN letter.state = 'discarded' THEN 'discarded' WHEN letter.resolution = 'by hand'
    THEN 'resolved' ELSE letter.resolution END
FROM dlqadmin_deadletter AS letter JOIN opened ON opened.id = letter.id
"""  # noqa: S608 - made of constants


class CannotSettle(ValueError):
    """Nothing was changed; the text says why."""


def discard(*, letters: Sequence[int], queue: SourceQueue, reason: str, by: Actor) -> int:
    """Give these open letters of one queue up; how many. Raises CannotSettle without a reason."""
    if not reason.strip():
        raise CannotSettle(_("Say why these messages are not needed."))
    return _settle(letters, queue, State.DISCARDED, "", AccountKind.DISCARDED, reason.strip(), by)


def resolve(
    *,
    letters: Sequence[int],
    queue: SourceQueue,
    reason: str,
    by: Actor,
    resolution: DeadLetter.Resolution = Resolution.BY_HAND,
) -> int:
    """Say that the work of these open letters is done: by hand, or because a consumer would drop them as duplicate or
    stale; how many. Raises CannotSettle without a reason."""
    if not reason.strip():
        raise CannotSettle(_("Say how their work was done."))
    account = {
        Resolution.BY_HAND: AccountKind.RESOLVED,
        Resolution.DUPLICATE: AccountKind.DUPLICATE,
        Resolution.STALE: AccountKind.STALE,
    }[resolution]
    return _settle(letters, queue, State.RESOLVED, resolution.value, account, reason.strip(), by)


@transaction.atomic
def undo_settling(*, letters: Sequence[int], queue: SourceQueue, by: Actor) -> int:
    """Open letters again that a person settled; how many. Of a queue that holds its keys none with a key is opened.

    Raises CannotSettle if none can be.
    """
    with connection.cursor() as cursor:
        cursor.execute(_REOPEN, {"queue": queue.pk, "letters": list(letters)})
        # The outer part of the statement sees the letters as they were before.
        opened = cursor.fetchall()
    if not opened:
        raise CannotSettle(
            _("They cannot be opened again: they are open, were sent back, or their key went on.")
        )
    for account in sorted({account for _pk, account in opened}):
        books.post(queue.pk, AccountKind(account), -sum(1 for _pk, of in opened if of == account))
    record(by=by, action="letter.reopen", target=queue, after=_told([pk for pk, _account in opened]))
    return len(opened)


@transaction.atomic
def _settle(
    letters: Sequence[int],
    queue: SourceQueue,
    state: DeadLetter.State,
    resolution: str,
    account: AccountKind,
    reason: str,
    by: Actor,
) -> int:
    values: dict[str, Any] = {"letters": list(letters), "queue": queue.pk, "account": account.value}
    with connection.cursor() as cursor:
        cursor.execute(_SETTLE, values | {"state": state.value, "resolution": resolution})
        settled = cursor.fetchall()
    if not settled:
        raise CannotSettle(_("None of these letters is open any more."))
    letters_settled(queue.pk, sorted({bytes(key) for _pk, key in settled if key is not None}))
    action = "letter.discard" if state is State.DISCARDED else "letter.resolve"
    record(by=by, action=action, target=queue, reason=reason, after=_told([pk for pk, _key in settled]))
    return len(settled)


def _told(letters: list[int]) -> dict[str, object]:
    """What an audit entry says of many letters: all of them could be a million."""
    return {"letters": len(letters), "first": min(letters), "last": max(letters)}
