"""What a redrive of a cluster would do, before it does anything: the preview."""

from dataclasses import dataclass

from django.db import connection, transaction

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.settling import resolve
from dlqadmin.people.audit import Actor

WOULD_BE_DROPPED = "a consumer would drop it"  # the reason that the audit trail keeps

GROUP = "SELECT id FROM dlqadmin_errorcluster WHERE id = %(cluster)s OR merged_into_id = %(cluster)s"

# Why a consumer would drop the message at once, as `messages.idempotency` judges; NULL: it would run.
DROPPED = """(CASE
    WHEN queue.idempotency = 'ledger' AND EXISTS (SELECT FROM dlqadmin_processedid AS ran
        WHERE ran.queue_id = letter.queue_id AND ran.message_id = letter.message_id) THEN 'duplicate'
    WHEN queue.idempotency = 'latest' AND letter.key IS NOT NULL AND letter.version IS NOT NULL THEN (
        SELECT CASE WHEN known.version = letter.version THEN 'duplicate'
            WHEN known.version > letter.version THEN 'stale' END
        FROM dlqadmin_keyversion AS known WHERE known.queue_id = letter.queue_id AND known.key = letter.key)
END)"""

_PLAN = f"""
SELECT count(*), count(*) FILTER (WHERE dropped IS NULL), count(*) FILTER (WHERE dropped = 'duplicate'),
    count(*) FILTER (WHERE dropped = 'stale'), max(id), count(DISTINCT key), count(DISTINCT type)
FROM (
    SELECT letter.id, letter.key, letter.type, {DROPPED} AS dropped
    FROM dlqadmin_deadletter AS letter JOIN dlqadmin_sourcequeue AS queue ON queue.id = letter.queue_id
    WHERE letter.cluster_id IN ({GROUP}) AND letter.state = 'open'
        AND (%(cutoff)s::bigint IS NULL OR letter.id <= %(cutoff)s)
) AS found
"""  # noqa: S608 - made of constants

_TO_DROP = f"""
SELECT dropped, array_agg(id ORDER BY id) FROM (
    SELECT letter.id, {DROPPED} AS dropped
    FROM dlqadmin_deadletter AS letter JOIN dlqadmin_sourcequeue AS queue ON queue.id = letter.queue_id
    WHERE letter.cluster_id IN ({GROUP}) AND letter.state = 'open'
) AS found WHERE dropped IS NOT NULL GROUP BY dropped
"""  # noqa: S608 - made of constants
_SINCE = f"""
SELECT count(*) FROM dlqadmin_deadletter WHERE cluster_id IN ({GROUP}) AND state = 'open' AND id > %(cutoff)s
"""  # noqa: S608 - made of constants
_REDRIVING = f"""
SELECT count(*) FROM dlqadmin_deadletter WHERE cluster_id IN ({GROUP}) AND state = 'redriving'
"""  # noqa: S608 - made of constants

_TARGET = """
SELECT (SELECT count(*) FROM dlqadmin_message WHERE queue_id = queue.id), queue.paused,
    (SELECT count(*) FROM dlqadmin_heartbeat WHERE queue.celery_queue = ANY(regexp_split_to_array(role, '[ ,]+'))
        AND seen_at > clock_timestamp() - interval '15 s')
FROM dlqadmin_sourcequeue AS queue WHERE queue.id = %(queue)s
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The letters that are open, those that would be sent, those that a consumer would drop, and what the target is at.

    Each is counted, none derived. `cutoff`: the newest letter that is included; `since`: how many came after it;
    `redriving`: already on their way.
    """

    open: int
    to_send: int
    duplicates: int
    stale: int
    cutoff: int | None
    keys: int
    types: int
    since: int
    redriving: int
    waiting: int
    paused: bool
    workers: int

    @property
    def difference(self) -> int:
        """Open letters that the parts do not show; 0."""
        return self.open - self.to_send - self.duplicates - self.stale


@transaction.atomic
def resolve_without_sending(*, cluster: ErrorCluster, by: Actor) -> int:
    """Resolve the open letters whose messages a consumer would drop as duplicate or stale; how many.

    Raises CannotSettle if somebody settled them meanwhile.
    """
    with connection.cursor() as cursor:
        cursor.execute(_TO_DROP, {"cluster": cluster.root_id})
        found: dict[str, list[int]] = dict(cursor.fetchall())
    return sum(
        resolve(
            letters=letters,
            queue=cluster.queue,
            reason=WOULD_BE_DROPPED,
            by=by,
            resolution=DeadLetter.Resolution(dropped),
        )
        for dropped, letters in sorted(found.items())
    )


def plan_redrive(cluster: ErrorCluster, cutoff: int | None = None) -> Plan:
    """The plan for the open letters of the group of `cluster`, as far as letter `cutoff`."""
    values = {"cluster": cluster.root_id, "queue": cluster.queue_id, "cutoff": cutoff}
    with connection.cursor() as cursor:
        cursor.execute(_PLAN, values)
        open_letters, to_send, duplicates, stale, newest, keys, types = cursor.fetchone()
        values["cutoff"] = cutoff if cutoff is not None else newest
        cursor.execute(_SINCE, values)
        since = cursor.fetchone()[0] if values["cutoff"] else 0
        cursor.execute(_REDRIVING, values)
        redriving = cursor.fetchone()[0]
        cursor.execute(_TARGET, values)
        waiting, paused, workers = cursor.fetchone()
    return Plan(
        open_letters,
        to_send,
        duplicates,
        stale,
        values["cutoff"],
        keys,
        types,
        since,
        redriving,
        waiting,
        paused,
        workers,
    )
