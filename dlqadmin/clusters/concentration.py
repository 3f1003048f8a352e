"""Whether the letters of a queue have one cause or many, in a figure and in words. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

LAST_WORD = 12  # greater numbers are written in digits


@dataclass(frozen=True, slots=True)
class Concentration:
    """`top`: the share of the largest cause, 0 to 1. `causes`: the effective number of causes, 1 or more."""

    top: float
    causes: float

    @property
    def in_words(self) -> str:
        """ "one cause", "nine causes", "about 40 causes"."""
        number = max(1, round(self.causes))
        return ngettext("%(number)s cause", "%(number)s causes", number) % {"number": _in_word(number)}


def concentration_of(letters: Sequence[int]) -> Concentration | None:
    """The concentration of causes with so many letters each; None if there is no letter.

    The effective number is the exponential of Shannon's entropy (Hill's number of order 1): as many causes of one size
    would be as mixed. Small causes hardly count: 94 % and some stragglers are "one cause".
    """
    total = sum(letters)
    if not total:
        return None
    shares = [number / total for number in letters if number]
    return Concentration(max(shares), math.exp(-sum(share * math.log(share) for share in shares)))


def _in_word(number: int) -> str:
    words = (
        *(pgettext("number of causes", "one"), _("two"), _("three"), _("four"), _("five"), _("six")),
        *(_("seven"), _("eight"), _("nine"), _("ten"), _("eleven"), _("twelve")),
    )
    return words[number - 1] if number <= LAST_WORD else str(number)
