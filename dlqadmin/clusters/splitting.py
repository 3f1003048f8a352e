"""Which part of a leaf an error belongs to, where a person told parts apart. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import re2

from dlqadmin.clusters.masking import Parameter

LONGEST_PATTERN = 200  # characters
LONGEST_SEARCHED = 2_000  # characters of an error text


class BadPattern(ValueError):
    """The pattern cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Errors with this `value` at `position` of their parameters, or with a text in which `pattern` is found, go to
    `target`."""

    target: int
    position: int | None
    value: str
    pattern: str


def part_of(leaf: int, rules: Sequence[Rule], parameters: Sequence[Parameter], text: str) -> int:
    """The leaf that an error of `leaf` goes to: the target of the first rule that holds, or `leaf`."""
    return next((rule.target for rule in rules if holds(rule, parameters, text)), leaf)


def holds(rule: Rule, parameters: Sequence[Parameter], text: str) -> bool:
    """Whether an error with these parameters and this text is of the part."""
    if rule.position is not None:
        return rule.position < len(parameters) and parameters[rule.position].value == rule.value
    return compiled(rule.pattern).search(text[:LONGEST_SEARCHED]) is not None


@lru_cache(maxsize=1_000)
def compiled(pattern: str) -> "re.Pattern[str]":
    """The pattern of a person, in an engine whose time is linear: no pattern can hang a worker. Raises BadPattern."""
    if not pattern or len(pattern) > LONGEST_PATTERN:
        raise BadPattern(f"A pattern has 1 to {LONGEST_PATTERN} characters.")
    options = re2.Options()
    options.log_errors = False
    try:
        found: re.Pattern[str] = re2.compile(pattern, options=options)
    except re2.error as error:
        said = error.args[0] if error.args else b"it is no regular expression"
        raise BadPattern(said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from error
    return found
