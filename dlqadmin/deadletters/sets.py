"""Sets of letters, named by a filter: what people select, and what a redrive, an edit or a discard is about."""

import json
import operator
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from django.db import connection
from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce

from dlqadmin.clock import ClockTimestamp
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter, DeadLetterQuerySet, LetterText
from dlqadmin.deadletters.query import Field, Term, parse
from dlqadmin.deadletters.search import searchable
from dlqadmin.queues.models import SourceQueue

_SIGNS = {"=": "", ">": "__gt", ">=": "__gte", "<": "__lt", "<=": "__lte"}
# What is asked of LetterText, not of the letters.
SAID = (Field.ERROR, Field.BODY, Field.WORD)
MOST_NAMED = 2_000
# An older letter died earlier.
_EARLIER = {">": "__lt", ">=": "__lte", "<": "__gt", "<=": "__gte", "=": "__lte"}


@dataclass(frozen=True, slots=True)
class LetterSet:
    """The letters of one queue that a filter finds. `cutoff`: the newest letter that is included, None: no bound."""

    queue: SourceQueue
    text: str
    cutoff: int | None = None

    def letters(self, state: str = DeadLetter.State.OPEN) -> DeadLetterQuerySet:
        """The letters of the set in this state, whatever the filter says of states. Raises BadQuery."""
        terms = [term for term in parse(self.text) if term.field is not Field.STATE]
        letters = matching(DeadLetter.objects.filter(queue=self.queue, state=state), terms)
        return letters if self.cutoff is None else letters.filter(pk__lte=self.cutoff)

    def up_to(self, cutoff: int | None) -> "LetterSet":
        """The same set, as far as letter `cutoff`."""
        return replace(self, cutoff=cutoff)

    def named_ids(self) -> frozenset[int]:
        """The letters that were named one by one; none if the filter is of another kind. Raises BadQuery."""
        terms = [term for term in parse(self.text) if term.field is not Field.STATE]
        if not terms or any(term.field is not Field.ID for term in terms):
            return frozenset()
        return frozenset(pk for term in terms for pk in term.numbers)


def of_cluster(cluster: ErrorCluster) -> LetterSet:
    """The open letters of the cluster's group."""
    return LetterSet(cluster.queue, f"cluster:{cluster.root_id}")


def matching(letters: DeadLetterQuerySet, terms: list[Term]) -> DeadLetterQuerySet:
    """Those of the letters that every field of the terms fits."""
    by_field: dict[Field, list[Q]] = defaultdict(list)
    for term in terms:
        by_field[term.field].append(_CONDITIONS[term.field](term))
    said = [condition for field in SAID for condition in by_field.pop(field, [])]
    for field, conditions in by_field.items():
        together = operator.and_ if field in (Field.AGE, Field.ATTEMPTS, Field.GENERATION) else operator.or_
        letters = letters.filter(reduce(together, conditions))
    return _saying(letters, said) if said else letters


def _saying(letters: DeadLetterQuerySet, said: list[Q]) -> DeadLetterQuerySet:
    """Those of the letters whose indexed text fits.

    Few are named: asked so, the index is read. Of many the newest are soon found by looking at each letter.
    """
    found = LetterText.objects.filter(*said)
    named = _named(found)
    if len(named) <= MOST_NAMED:
        return letters.filter(pk__in=named)
    return letters.filter(Exists(found.filter(letter=OuterRef("pk"))))


def _named(found: QuerySet[LetterText]) -> list[int]:
    """The first ids that are found, one more than MOST_NAMED at most. Planned as if all were wanted: told of the limit,
    a planner that takes a rare word for a frequent one would read the whole table."""
    query, values = sql_of(found)
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH found AS MATERIALIZED ({query}) SELECT * FROM found LIMIT {MOST_NAMED + 1}",  # noqa: S608
            values,
        )
        return [row[0] for row in cursor.fetchall()]


def sql_of(letters: QuerySet[Any]) -> tuple[str, dict[str, Any]]:
    """The query of these rows' keys for a larger statement with named parameters, and its own parameters."""
    sql, values = letters.order_by().values_list("pk").query.sql_with_params()
    names = [f"set{number}" for number in range(len(values))]
    return sql.replace("%%", "%%%%") % tuple(f"%({name})s" for name in names), dict(
        zip(names, values, strict=True)
    )


def _queues(term: Term) -> Q:
    """By id, so that the planner knows how many letters there are."""
    return Q(queue__in=list(SourceQueue.objects.filter(name=term.text).values_list("pk", flat=True)))


def leaves_named(term: Term) -> list[int]:
    """The leaves of whatever groups the clusters of the term are part of now; of `template:` the leaves themselves."""
    if term.field is Field.TEMPLATE:
        return list(term.numbers)
    roots = ErrorCluster.objects.filter(pk__in=term.numbers).values(root=Coalesce("merged_into", "pk"))
    leaves = ErrorCluster.objects.filter(Q(pk__in=roots) | Q(merged_into__in=roots))
    return list(leaves.values_list("pk", flat=True))


def _group(term: Term) -> Q:
    return Q(cluster__in=leaves_named(term))


def _compared(column: str) -> Callable[[Term], Q]:
    return lambda term: Q(**{f"{column}{_SIGNS[term.compared]}": term.numbers[0]})


# A value as JSON writes it, other than a text.
_LITERAL = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d{1,3})?|true|false|null")


def _at_path(term: Term) -> Q:
    """A JSON body that has this value at this path, also inside lists; a text, or a number, a boolean or null."""
    place = "$" + "".join(f".{json.dumps(name)}" for name in term.path)
    wanted = [f"@ == {json.dumps(term.text)}"]
    if _LITERAL.fullmatch(term.text):
        wanted.append(f"@ == {term.text}")
    path = Func(Value(f"{place} ? ({' || '.join(wanted)})"), template="%(expressions)s::jsonpath")
    return Q(
        Func(
            F("document"), path, template="(%(expressions)s)", arg_joiner=" @? ", output_field=BooleanField()
        )
    )


_CONDITIONS: dict[Field, Callable[[Term], Q]] = {
    Field.ID: lambda term: Q(pk__in=term.numbers),
    Field.CLUSTER: _group,
    Field.TEMPLATE: _group,
    Field.QUEUE: _queues,
    Field.OWNER: lambda term: Q(queue__owner__slug=term.text) | Q(queue__owner__name=term.text),
    Field.TYPE: lambda term: Q(type=term.text),
    Field.KEY: lambda term: Q(key=term.text.encode()),
    Field.ERROR: lambda term: Q(error__contains=searchable(term.text)),
    Field.BODY: lambda term: _at_path(term) if term.path else Q(body__contains=searchable(term.text)),
    Field.WORD: lambda term: (
        Q(error__contains=searchable(term.text)) | Q(body__contains=searchable(term.text))
    ),
    Field.AGE: lambda term: Q(**{f"died_at{_EARLIER[term.compared]}": ClockTimestamp() - term.age}),
    Field.ATTEMPTS: _compared("attempts"),
    Field.GENERATION: _compared("generation"),
    Field.STATE: lambda term: Q() if term.text == "all" else Q(state=term.text),
}
