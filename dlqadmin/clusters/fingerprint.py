"""Error text -> masked tokens -> fingerprint. Pure and deterministic; a change of rules is a new VERSION.

Values are noise (ids, numbers, times, addresses); names and codes are identity (classes, fields, status codes), so
only what is certainly a value is masked. Every pattern is linear: no nested repetition, and the text is cut first.
"""

import hashlib
import re
from dataclasses import dataclass

VERSION = 1
LENGTH_LIMIT = 2_000  # characters; the cause of an error stands in its first lines

# A code keeps its digits: after one of these words a number names the cause instead of counting something.
_CODE_WORD = r"(?:http|status|code|errno|error|sqlstate|exit|signal|ora|winerror)"

# In this order, the first that matches at a place wins.
_VALUE = re.compile(
    rf"""
      (?P<keep>\b{_CODE_WORD}[ :=\-/#(]{{1,3}}\d[0-9A-Z]{{0,4}}\b)
    | (?P<uuid>\b[0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}}\b)
    | (?P<time>\b\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?(?:Z|[+-]\d\d:?\d\d)?)?)
    | (?P<url>\b[a-z][a-z0-9+.]{{1,15}}://[^\s"'<>]+)
    | (?P<email>\b[\w.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,4}})
    | (?P<ip>\b\d{{1,3}}\.\d{{1,3}}\.\d{{1,3}}\.\d{{1,3}}(?::\d{{1,5}})?\b)
    | (?P<hex>\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{{8,128}}\b)
    | (?P<float>(?<![\w.])[+-]?\d+\.\d+(?![\w.]))
    | (?P<int>(?<![\w.])[+-]?\d+(?!\w))
    """,
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """`digest`: 64 hex characters, equal for equal causes. `template`: the text with values as `<kind>`."""

    digest: str
    template: str


def fingerprint(error_text: str, error_class: str = "") -> Fingerprint:
    """The fingerprint of a display-safe error text (see `dlqadmin.text.display_safe`) and its class.

    No text at all is a cause of its own, "no error recorded": nothing is invented.
    """
    normal = " ".join(error_text[:LENGTH_LIMIT].split())
    template = _VALUE.sub(_mask, normal) or (error_class or "no error recorded")
    digest = hashlib.sha256(f"{error_class}\0{template}".encode()).hexdigest()
    return Fingerprint(digest=digest, template=template)


def _mask(match: re.Match[str]) -> str:
    return match.group() if match.lastgroup == "keep" else f"<{match.lastgroup}>"
