"""What a redrive of a set of letters would do, before it does anything: the preview."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.db import connection, transaction

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import LetterSet, sql_of
from dlqadmin.deadletters.settling import resolve
from dlqadmin.people.audit import Actor
from dlqadmin.redrive.facts import facts_of
from dlqadmin.redrive.gate import Condition, judge, unmet_of

WOULD_BE_DROPPED = "a consumer would drop it"  # the reason that the audit trail keeps

# Why a consumer would drop the message at once, as `messages.idempotency` judges; NULL: it would run.
DROPPED = """(CASE
    WHEN queue.idempotency = 'ledger' AND EXISTS (SELECT FROM dlqadmin_processedid AS ran
        WHERE ran.queue_id = letter.queue_id AND ran.message_id = letter.message_id) THEN 'duplicate'
    WHEN queue.idempotency = 'latest' AND letter.key IS NOT NULL AND letter.version IS NOT NULL THEN (
        SELECT CASE WHEN known.version = letter.version THEN 'duplicate'
            WHEN known.version > letter.version THEN 'stale' END
        FROM dlqadmin_keyversion AS known WHERE known.queue_id = letter.queue_id AND known.key = letter.key)
END)"""

# A row for each group of clusters, and first one for the whole set, which is counted by itself.
_PLAN = """
SELECT root, count(*), count(*) FILTER (WHERE dropped IS NULL), count(*) FILTER (WHERE dropped = 'duplicate'),
    count(*) FILTER (WHERE dropped = 'stale'), count(edited), max(id), count(DISTINCT key), count(DISTINCT type)
FROM (
    SELECT coalesce(leaf.merged_into_id, leaf.id) AS root, letter.id, letter.key, letter.type,
        edit.letter_id AS edited, {dropped} AS dropped
    FROM dlqadmin_deadletter AS letter JOIN dlqadmin_sourcequeue AS queue ON queue.id = letter.queue_id
    JOIN dlqadmin_errorcluster AS leaf ON leaf.id = letter.cluster_id
    LEFT JOIN dlqadmin_letteredit AS edit ON edit.letter_id = letter.id
    WHERE letter.id IN ({letters})
) AS found
GROUP BY GROUPING SETS ((), (root)) ORDER BY grouping(root) DESC, count(*) DESC, root
"""

_TO_DROP = """
SELECT dropped, array_agg(id ORDER BY id) FROM (
    SELECT letter.id, {dropped} AS dropped
    FROM dlqadmin_deadletter AS letter JOIN dlqadmin_sourcequeue AS queue ON queue.id = letter.queue_id
    WHERE letter.id IN ({letters})
) AS found WHERE dropped IS NOT NULL GROUP BY dropped
"""

_TARGET = """
SELECT (SELECT count(*) FROM dlqadmin_message WHERE queue_id = queue.id), queue.paused,
    (SELECT count(*) FROM dlqadmin_heartbeat WHERE queue.celery_queue = ANY(regexp_split_to_array(role, '[ ,]+'))
        AND seen_at > clock_timestamp() - interval '15 s')
FROM dlqadmin_sourcequeue AS queue WHERE queue.id = %(queue)s
"""


@dataclass(frozen=True, slots=True)
class Counted:
    """Letters, counted: all that are open, those that a consumer would run, and those that it would drop. `edited`:
    they go with another body than they died with."""

    open: int = 0
    to_run: int = 0
    duplicates: int = 0
    stale: int = 0
    edited: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The letters of a set, in all and by group of clusters (id of its root), and what the target is at.

    `cutoff`: the newest letter that is included; `since`: how many came after it; `redriving`: already on their way;
    `gone`: were named one by one and are neither.
    """

    letters: LetterSet
    all: Counted
    by_cluster: dict[int, Counted]
    cutoff: int | None
    keys: int
    types: int
    since: int
    redriving: int
    gone: int
    waiting: int
    paused: bool
    workers: int


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """The letters of one cluster in a plan, and what the gate says to them."""

    cluster: ErrorCluster
    letters: Counted
    conditions: list[Condition]

    @property
    def unmet(self) -> list[Condition]:
        """The conditions that keep these letters back."""
        return unmet_of(self.conditions)


@dataclass(frozen=True, slots=True)
class Judged:
    """A plan before the gate: the letters of closed gates are left out, unless every gate is closed."""

    plan: Plan
    parts: list[JudgedPart]

    @property
    def is_open(self) -> bool:
        """Whether some of the letters may go."""
        return any(not part.unmet for part in self.parts)

    @property
    def going(self) -> list[JudgedPart]:
        """What would be sent: what may go, or, as long as nothing may, all."""
        return [part for part in self.parts if not part.unmet] if self.is_open else self.parts

    @property
    def left_out(self) -> list[JudgedPart]:
        """What stays because its own gate is closed."""
        return [part for part in self.parts if part.unmet] if self.is_open else []

    @property
    def unmet(self) -> list[Condition]:
        """Each unmet condition of every closed gate, once."""
        return list(dict.fromkeys(condition for part in self.parts for condition in part.unmet))

    @property
    def sums(self) -> Counted:
        """What would be sent, and what a consumer would drop, of the letters that would go."""
        return total(part.letters for part in self.going)

    @property
    def closed(self) -> int:
        """How many letters stay because their own gate is closed."""
        return total(part.letters for part in self.left_out).open

    @property
    def difference(self) -> int:
        """Letters of the set that the parts do not show; 0."""
        sums = self.sums
        return self.plan.all.open - sums.to_run - sums.duplicates - sums.stale - self.closed


def total(parts: Iterable[Counted]) -> Counted:
    """The sums of these counts."""
    rows = [(part.open, part.to_run, part.duplicates, part.stale, part.edited) for part in parts]
    return Counted(*map(sum, zip(*rows, strict=True)))


@transaction.atomic
def resolve_without_sending(*, letters: LetterSet, by: Actor) -> int:
    """Resolve the open letters of a set whose messages a consumer would drop as duplicate or stale; how many.

    Raises CannotSettle if somebody settled them meanwhile.
    """
    query, values = sql_of(letters.letters())
    with connection.cursor() as cursor:
        cursor.execute(_TO_DROP.format(dropped=DROPPED, letters=query), values)
        found: dict[str, list[int]] = dict(cursor.fetchall())
    return sum(
        resolve(
            letters=ids,
            queue=letters.queue,
            reason=WOULD_BE_DROPPED,
            by=by,
            resolution=DeadLetter.Resolution(dropped),
        )
        for dropped, ids in sorted(found.items())
    )


def plan_redrive(letters: LetterSet) -> Plan:
    """The plan for the open letters of a set. Raises BadQuery if its filter cannot be read."""
    query, values = sql_of(letters.letters())
    with connection.cursor() as cursor:
        cursor.execute(_PLAN.format(dropped=DROPPED, letters=query), values)
        (_, *counted, newest, keys, types), *parts = cursor.fetchall()
        cursor.execute(_TARGET, {"queue": letters.queue.pk})
        waiting, paused, workers = cursor.fetchone()
    cutoff = letters.cutoff if letters.cutoff is not None else newest
    redriving = letters.letters(DeadLetter.State.REDRIVING).count()
    named = letters.named_ids()
    return Plan(
        letters=letters,
        all=Counted(*counted),
        by_cluster={root: Counted(*numbers[:5]) for root, *numbers in parts},
        cutoff=cutoff,
        keys=keys,
        types=types,
        since=letters.up_to(None).letters().filter(pk__gt=cutoff).count() if cutoff else 0,
        redriving=redriving,
        gone=len(named) - counted[0] - redriving if named else 0,
        waiting=waiting,
        paused=paused,
        workers=workers,
    )


def judge_plan(plan: Plan, starter: Actor = None) -> Judged:
    """What the gate says to each cluster of a plan. `starter`: whose own approval does not count."""
    roots = list(plan.by_cluster)
    facts = facts_of(roots, starter)
    clusters = ErrorCluster.objects.select_related("queue").in_bulk(roots)
    parts = []
    for root, counted in plan.by_cluster.items():
        asked = replace(facts[root], letters=counted.open, set_letters=plan.all.open)
        parts.append(JudgedPart(clusters[root], counted, judge(asked)))
    return Judged(plan, parts)
