"""JSON that is read and written without touching a number: `1.00`, 9007199254740993 and 7E2 stay as they were. Pure."""

from decimal import Decimal
from typing import Any

import simplejson


class NotExact(ValueError):
    """This is no JSON, or JSON that could not be written as it was read; the text says why."""


class Number(simplejson.RawJSON):
    """A number as it was written. Equal to a number of the same value, as RFC 6902 compares them."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Number):
            return NotImplemented
        mine, others = self.encoded_json, other.encoded_json
        try:
            return mine == others or Decimal(mine) == Decimal(others)
        except ArithmeticError:  # an exponent of twenty digits
            return False

    def __repr__(self) -> str:
        return str(self.encoded_json)


def loads(text: str) -> Any:
    """The value of a JSON text, its numbers as `Number`. Raises NotExact, also if an object has a name twice."""
    try:
        return simplejson.loads(
            text,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
    except NotExact:
        raise
    except RecursionError as error:
        raise NotExact("it is nested too deeply") from error
    except ValueError as error:
        raise NotExact(f"it is no JSON: {error}") from error


def dumps(value: Any, *, ascii_only: bool) -> str:
    """The value as JSON on one line, its numbers as they were read. Raises NotExact if it is nested too deeply."""
    try:
        return str(simplejson.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only))
    except RecursionError as error:
        raise NotExact("it is nested too deeply") from error


def _refuse_constant(name: str) -> None:
    raise NotExact(f"it is no JSON: {name} is no number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotExact(f"the name {twice!r} stands twice in an object")
    return found
