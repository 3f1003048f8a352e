"""Which values letters of a cluster share, compared with the rest of their queue. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# A value is telling if it is this much more frequent here, often enough, and not by chance: the log-likelihood ratio
# (Dunning 1993) of its two shares is beyond what one comparison in a thousand reaches, with room for many comparisons.
LEAST_LIFT = 1.5
LEAST_LETTERS = 3
LEAST_SHARE = 0.2
LEAST_G2 = 15.0
# What most letters here have in common is shown too, though it is as usual.
COMMON_SHARE = 0.6

Value = tuple[str, str]  # field, value


@dataclass(frozen=True, slots=True)
class Shared:
    """A value of a field: how many letters have it here and elsewhere in the queue, of how many. `telling`: it is
    over-represented here. `others`: how many other values the field has here."""

    field: str
    value: str
    here: int
    of_here: int
    elsewhere: int
    of_elsewhere: int
    telling: bool
    others: int = 0

    @property
    def share(self) -> float:
        """The share here, 0 to 1."""
        return self.here / self.of_here

    @property
    def usual(self) -> float | None:
        """The share elsewhere; None if there is nothing to compare with."""
        return self.elsewhere / self.of_elsewhere if self.of_elsewhere else None

    @property
    def percent(self) -> float:
        """The share here in per cent."""
        return 100 * self.share

    @property
    def usual_percent(self) -> float | None:
        """The share elsewhere in per cent."""
        return None if self.usual is None else 100 * self.usual

    @property
    def lift(self) -> float | None:
        """How many times as frequent as elsewhere; None: it is not found there."""
        return self.share / self.usual if self.usual else None


def shared_values(
    here: Sequence[Iterable[Value]], elsewhere: Sequence[Iterable[Value]], most: int = 12
) -> list[Shared]:
    """The values that letters `here` share, the most telling first, then what is common but usual; one for a field.

    Each letter is given by its values; a value counts once for a letter.
    """
    inside = Counter(value for letter in here for value in set(letter))
    outside = Counter(value for letter in elsewhere for value in set(letter))
    different = Counter(field for field, _ in inside)
    found: dict[str, Shared] = {}
    candidates = [
        _judge(value, inside[value], len(here), outside[value], len(elsewhere), different[value[0]] - 1)
        for value in inside
    ]
    for one in sorted(candidates, key=_rank):
        if one.telling or one.share >= COMMON_SHARE:
            found.setdefault(one.field, one)
    return list(found.values())[:most]


def g2(here: int, of_here: int, elsewhere: int, of_elsewhere: int) -> float:
    """The log-likelihood ratio that both shares are one: 0 if they are equal."""
    total = (here + elsewhere) / (of_here + of_elsewhere)
    return 2 * sum(
        _term(observed, of * expected)
        for count, of in ((here, of_here), (elsewhere, of_elsewhere))
        for observed, expected in ((count, total), (of - count, 1 - total))
    )


def _term(observed: float, expected: float) -> float:
    return observed * math.log(observed / expected) if observed and expected else 0.0


def _judge(value: Value, here: int, of_here: int, elsewhere: int, of_elsewhere: int, others: int) -> Shared:
    share, usual = here / of_here, elsewhere / of_elsewhere if of_elsewhere else 1.0
    telling = (
        here >= LEAST_LETTERS
        and share >= LEAST_SHARE
        and share >= LEAST_LIFT * usual
        and g2(here, of_here, elsewhere, of_elsewhere) >= LEAST_G2
    )
    return Shared(*value, here, of_here, elsewhere, of_elsewhere, telling, others)


def _rank(one: Shared) -> tuple[bool, float, str, str]:
    strength = g2(one.here, one.of_here, one.elsewhere, one.of_elsewhere) if one.telling else one.share
    return (not one.telling, -strength, one.field, one.value)
