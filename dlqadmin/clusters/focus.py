"""The line that names the cause. Pure, linear.

1. A JSON object: its type, code and message.
2. A traceback: see `traces`.
3. Anything else: its first line that says something.
4. What stands around the error in that line is taken off: see `wrappers`.
"""

import json
import re
from typing import Any

from dlqadmin.clusters.normal import LINE_LIMIT
from dlqadmin.clusters.traces import telling_line
from dlqadmin.clusters.wrappers import unwrapped


def focus(text: str) -> str:
    """The line of a text in normal form that names the cause; "" if there is none."""
    text = text.strip()
    if not text:
        return ""
    if text[0] in "{[" and (told := _of_json(text)):
        return told[:LINE_LIMIT]
    if "\n" not in text:
        return unwrapped(text[:LINE_LIMIT])
    lines = [line[:LINE_LIMIT] for line in text.split("\n")]
    return unwrapped(telling_line(lines) or _of_lines(lines))


# --- JSON -------------------------------------------------------------------------------------------------------------

LONGEST_JSON = 8_000  # characters
DEEPEST_JSON = 6
MOST_TOLD = 12  # values
LONGEST_LIST = 4  # of a list only the first are asked

# The fields that tell a cause, in the order in which they are told.
_TELLING = {
    key: rank
    for rank, key in enumerate(
        (
            *(
                "type",
                "code",
                "errorcode",
                "error_code",
                "errortype",
                "error_type",
                "status",
                "statuscode",
                "reason",
            ),
            *(
                "title",
                "exception",
                "class",
                "name",
                "field",
                "param",
                "parameter",
                "property",
                "pointer",
                "path",
            ),
            *(
                "message",
                "errormessage",
                "error_message",
                "error_description",
                "detail",
                "description",
                "msg",
            ),
            *("error", "fault"),
        )
    )
}


def _of_json(text: str) -> str | None:
    """Type, code and message of an error that is a JSON object."""
    if len(text) > LONGEST_JSON or text[-1] not in "}]":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    told: list[str] = []
    _tell(value, told, 0)
    return ": ".join(told) or None


def _tell(value: Any, told: list[str], depth: int) -> None:
    if depth > DEEPEST_JSON or len(told) > MOST_TOLD:
        return
    if isinstance(value, list):
        for one in value[:LONGEST_LIST]:
            _tell(one, told, depth + 1)
    elif isinstance(value, dict):
        for key in sorted(value, key=lambda key: (_TELLING.get(key.lower(), len(_TELLING)), key)):
            if isinstance(value[key], dict | list):
                _tell(value[key], told, depth + 1)
            elif key.lower() in _TELLING:
                _add(key, value[key], told)


def _add(key: str, value: str | float | bool | None, told: list[str]) -> None:
    # A number alone says nothing, and is a code only behind its name.
    text = value if isinstance(value, str) else f"{key} {value}"
    if text and value is not None and not isinstance(value, bool) and text not in told:
        told.append(text)


# --- Plain lines ------------------------------------------------------------------------------------------------------

# Lines behind the message that tell of the occasion, not of the cause.
_ASIDE = re.compile(
    r"^\s*(?:DETAIL|HINT|CONTEXT|LINE \d|QUERY|STATEMENT|LOCATION|WHERE|Detail|Hint|SQL state|AYRINTI|İPUCU|DÉTAIL"
    r"|ASTUCE|TIPP|详细信息|提示|\^|~|\[SQL|\[parameters|\(Background on|Stack trace|For further information|#\d+ "
    r"|at |File \")"
)
# A line that only says that something follows.
_OPENS = re.compile(
    r"(?:[:：]\s*|\b\d+ (?:validation )?errors?\b.{0,80}|\berrors? (?:occurred|detected).{0,40}"
    r"|^Msg \d+, Level.{0,60})$"
)
MOST_FOLLOWING = 3  # lines


def _of_lines(lines: list[str]) -> str:
    said = [line for line in lines if line.strip()]
    told = [line for line in said if not _ASIDE.match(line)] or said
    if len(told) > 1 and _OPENS.search(told[0]):
        return " ".join(line.strip() for line in told[:MOST_FOLLOWING])
    return told[0]
