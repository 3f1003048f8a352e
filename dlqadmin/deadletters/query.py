"""The language of letter filters: `queue:invoices type:invoice.created error:"no field" age:>7d`. Pure.

A query is words that are parted by blanks. `field:value` asks a field; a word without a field is looked for in error
texts and bodies. `body:$.order.country=TR` asks for a value in a JSON body. A value with blanks stands in double
quotes; a backslash keeps the next character as it is. Numbers and ages take `>`, `>=`, `<` or `<=` in front; `id`,
`cluster` and `template` (one of a cluster's) take a list, `id:4,8`. The same field twice: either value will do; of
words every one must be there.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum

from django.utils.translation import gettext as _

MOST_IDS = 150  # more do not fit into an address
MOST_CHARACTERS = 4_000
LARGEST = 2**63 - 1

_PATH = re.compile(r"\$((?:\.[^.=]+)+)=(.+)", re.DOTALL)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_WORD = re.compile(r'(?:[^\s"\\]|\\.|"(?:[^"\\]|\\.)*(?:"|$))+', re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)("?)|\\(.)|([^"\\])', re.DOTALL)


class Field(StrEnum):
    """What can be asked."""

    QUEUE = "queue"
    OWNER = "owner"
    TYPE = "type"
    KEY = "key"
    CLUSTER = "cluster"
    TEMPLATE = "template"
    ERROR = "error"
    BODY = "body"
    WORD = "word"
    AGE = "age"
    ATTEMPTS = "attempts"
    GENERATION = "generation"
    STATE = "state"
    ID = "id"


STATES = ("open", "redriving", "resolved", "returned", "discarded", "all")


class BadQuery(ValueError):
    """The query cannot be read. The text says why; `start` and `end`: where, in characters."""

    def __init__(self, text: str, start: int, end: int) -> None:
        super().__init__(text)
        self.start, self.end = start, end


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: by the field a text, numbers of which one must fit, an age, or a text at a path in a JSON body.

    `compared`: "=", or how the number or the age must compare. `start`, `end`: its place.
    """

    field: Field
    text: str = ""
    numbers: tuple[int, ...] = ()
    age: timedelta = timedelta()
    path: tuple[str, ...] = ()
    compared: str = "="
    start: int = 0
    end: int = 0


def parse(text: str) -> list[Term]:
    """The terms of a query in their order. Raises BadQuery."""
    if len(text) > MOST_CHARACTERS:
        raise BadQuery(_("The filter is too long."), MOST_CHARACTERS, len(text))
    if "\0" in text:
        raise BadQuery(_("A filter holds no NUL character."), text.index("\0"), text.index("\0") + 1)
    return [_term(word, start, end) for word, start, end in _words(text)]


def states_of(terms: Iterable[Term]) -> set[str]:
    """The states that the terms ask for; none if they say nothing of states."""
    return {term.text for term in terms if term.field is Field.STATE}


def quoted(value: str) -> str:
    """The value as it stands in a query."""
    if value and not re.search(r'[\s"\\:<>,]', value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _words(text: str) -> Iterator[tuple[str, int, int]]:
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        match = _WORD.match(text, place)
        if match is None:  # a backslash at the very end
            raise BadQuery(_("A backslash stands before the character that it keeps."), place, len(text))
        yield match.group(), place, match.end()
        place = match.end()


def _term(word: str, start: int, end: int) -> Term:
    name, colon, rest = word.partition(":")
    if not colon or '"' in name or "\\" in name:
        return Term(Field.WORD, _plain(word, start, end), start=start, end=end)
    try:
        field = Field(name.lower())
    except ValueError:
        raise BadQuery(_unknown(name), start, start + len(name)) from None
    if not rest:
        raise BadQuery(_("“%s:” has no value.") % name, start, end)
    value_start = end - len(rest)
    if field in (Field.ATTEMPTS, Field.GENERATION, Field.AGE):
        return _compared(field, rest, start, value_start, end)
    value = _plain(rest, value_start, end)
    if field in (Field.ID, Field.CLUSTER, Field.TEMPLATE):
        return Term(field, numbers=_numbers(value, value_start, end), start=start, end=end)
    if field is Field.STATE and value not in STATES:
        said = _("A state is one of: %s.") % ", ".join(STATES)
        raise BadQuery(said, value_start, end)
    if field is Field.BODY and value.startswith("$"):
        path, text = _at_path(value, value_start, end)
        return Term(field, text, path=path, start=start, end=end)
    return Term(field, value, start=start, end=end)


def _unknown(name: str) -> str:
    fields = [field.value for field in Field if field is not Field.WORD]
    near = get_close_matches(name.lower(), fields, n=1)
    if near:
        return _("There is no field “%(name)s”. Did you mean “%(near)s”?") % {"name": name, "near": near[0]}
    told = {"name": name, "known": ", ".join(fields)}
    return (
        _("There is no field “%(name)s”. Fields are: %(known)s. To look for the word, put it in quotes.")
        % told
    )


def _at_path(value: str, start: int, end: int) -> tuple[tuple[str, ...], str]:
    match = _PATH.fullmatch(value)
    if match is None:
        raise BadQuery(_("A path in a body is written so: body:$.order.country=TR."), start, end)
    path, text = match.groups()
    return tuple(path[1:].split(".")), text


def _plain(word: str, start: int, end: int) -> str:
    """The word without its quotes and backslashes."""
    pieces = []
    for match in _QUOTED.finditer(word):
        inner, closed, kept, other = match.groups()
        if inner is not None and not closed:
            raise BadQuery(_("The quote is not closed."), start + match.start(), end)
        pieces.append(re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL) if inner is not None else kept or other)
    if not (plain := "".join(pieces)):
        raise BadQuery(_("An empty value finds nothing."), start, end)
    return plain


def _compared(field: Field, rest: str, start: int, value_start: int, end: int) -> Term:
    sign = next((sign for sign in (">=", "<=", ">", "<") if rest.startswith(sign)), "")
    told = rest[len(sign) :]
    if field is Field.AGE:
        age = _age(told, value_start, end)
        return Term(field, age=age, compared=sign or ">", start=start, end=end)
    numbers = _numbers(told, value_start, end)
    if len(numbers) > 1:
        raise BadQuery(_("One number is needed here."), value_start, end)
    return Term(field, numbers=numbers, compared=sign or "=", start=start, end=end)


def _age(told: str, start: int, end: int) -> timedelta:
    number, unit = told[:-1], told[-1:].lower()
    if unit not in _UNITS or not (number.isascii() and number.isdigit()) or len(number) > 6:
        raise BadQuery(_("An age is a number and s, m, h, d or w: age:>7d."), start, end)
    return timedelta(seconds=int(number) * _UNITS[unit])


def _numbers(told: str, start: int, end: int) -> tuple[int, ...]:
    numbers = told.split(",")
    if not all(number.isascii() and number.isdigit() and len(number) < 20 for number in numbers):
        raise BadQuery(_("A number is needed here."), start, end)
    found = tuple(int(number) for number in numbers)
    if max(found) > LARGEST:
        raise BadQuery(_("The number is too large."), start, end)
    if len(found) > MOST_IDS:
        raise BadQuery(_("At most %d numbers can be named.") % MOST_IDS, start, end)
    return found
