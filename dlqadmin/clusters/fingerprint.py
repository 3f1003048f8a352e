"""Error text -> fingerprint. Pure and deterministic; a change of rules is a new VERSION.

    text -> normal form -> the line that names the cause -> template with typed placeholders -> digest

Values are noise (ids, numbers, times, addresses); names and codes are identity (classes, fields, status codes). The
digest is made of the template's skeleton, in which every placeholder is the same: an id may be a number today and a
uuid tomorrow. Nothing is folded to lower case.
"""

import hashlib
import re
from functools import lru_cache
from typing import NamedTuple

from dlqadmin.clusters.focus import focus
from dlqadmin.clusters.masking import KINDS, Parameter, mask
from dlqadmin.clusters.normal import normal_form
from dlqadmin.clusters.traces import needs_trace

VERSION = 2
TEMPLATE_LIMIT = 1_000  # characters
MOST_PARAMETERS = 50
REMEMBERED = 500  # characters: longer texts repeat seldom
NO_ERROR = "no error recorded"

_PLACEHOLDER = re.compile(rf"<(?:{'|'.join(sorted(KINDS))})>")
_QUOTES = str.maketrans("", "", "'\"`“”„‘’«»‹›")
# "<1 sec" is a value as "1 sec" is, and so is a negative one.
_SIGN = re.compile(r"[<>] ?(?=\*(?!>))|(?<=_)-(?=\*)")
# Values in a row, with what stands between them, are one; so is one in brackets, or none.
_ROW = re.compile(r"\*(?:[\s,.:;/+#=_~@%&|\-]{0,3}[(\[]{0,2}\*[)\]]{0,2})+")
# The unit of a value is as much noise as the value.
_UNIT = re.compile(
    r"\* (?:[kKMGTP]?i?[bB]|bytes?|[nuµm]?s|m?secs?|(?:milli|micro|nano)?seconds?|mins?|minutes?|hours?|days?)\b"
)
_EMPTY = re.compile(r"(?<=[\w*]) ?[(\[]\*?[)\]]|(?<=[.。!]) \*\.?$")


class Fingerprint(NamedTuple):
    """`digest`: 64 hex characters, equal for equal causes. `template`: the line that names the cause, with values as
    `<kind>`. `parameters`: those values, in their order, at most MOST_PARAMETERS."""

    digest: str
    template: str
    parameters: tuple[Parameter, ...] = ()


def fingerprint(error_text: str, error_class: str = "", traceback: str = "") -> Fingerprint:
    """The fingerprint of an error's text, its class and its traceback, where they are known.

    The traceback is asked only when class and text do not say what went wrong. No text at all is a cause of its own,
    "no error recorded": nothing is invented.
    """
    line = line_of(error_text) if len(error_text) <= REMEMBERED else focus(normal_form(error_text))
    if error_class:
        line = _with_class(line, error_class)
    if traceback and needs_trace(line):
        line = focus(normal_form(traceback)) or line
    return of_line(line)


@lru_cache(maxsize=2_000)
def line_of(text: str) -> str:
    return focus(normal_form(text))


def _with_class(line: str, error_class: str) -> str:
    simple = error_class.rpartition(".")[2]
    if line.startswith((f"{error_class}:", f"{simple}:")) or line in (error_class, simple):
        return line
    return f"{error_class}: {line}" if line else error_class


@lru_cache(maxsize=2_000)
def of_line(line: str) -> Fingerprint:
    template, parameters = mask(" ".join(line.split()))
    template = template[:TEMPLATE_LIMIT] or NO_ERROR
    digest = hashlib.sha256(skeleton(template).encode("utf-8", "surrogatepass")).hexdigest()
    return Fingerprint(digest, template, tuple(parameters[:MOST_PARAMETERS]))


def skeleton(template: str) -> str:
    """The template with every placeholder as `*`, and rows of them as one."""
    plain = template.translate(_QUOTES)
    if "<" in plain:
        plain = _PLACEHOLDER.sub("*", plain)
    if "*" in plain:
        plain = _UNIT.sub(
            "*", _SIGN.sub("", plain) if "<" in plain or ">" in plain or "_-*" in plain else plain
        )
        if plain.count("*") > 1:
            plain = _ROW.sub("*", plain)
    if "(" in plain or "[" in plain or "*" in plain[-2:]:
        plain = _EMPTY.sub("", plain)
    return plain.strip(" .:")
