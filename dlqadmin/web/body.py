"""Showing the bytes of a body as they are: JSON indented without touching a digit, text, or hex. Pure."""

import codecs
import json
import re
from dataclasses import dataclass
from itertools import count

HEAD_BYTES = 65_536  # a page shows no more of a body; the whole is a download
MOST_LINES = 5_000
DEEPEST_INDENT = 20  # deeper nesting is not indented further: "[[[[…" would grow with its square

_TOKEN = re.compile(
    r"""
      (?P<text>"(?:[^"\\\x00-\x1f]|\\.)*")
    | (?P<value>-?\d[\d.eE+-]*|true|false|null)
    | (?P<mark>[][{}:,])
    | (?P<space>[ \t\r\n]+)
    """,
    re.VERBOSE,
)
_OPEN, _CLOSE = "[{", "]}"

# What a browser would hide, or use to make a text read as something else, is shown as a sign or by its number.
_HIDDEN = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n\r"} | {0x7F: "\u2421"}
_HIDDEN |= {
    code: f"⟨U+{code:04X}⟩"
    for code in [*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0xFEFF]
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line. `kind`: mark, key, or value."""

    kind: str
    text: str


Line = list[Piece]


@dataclass(frozen=True, slots=True)
class BodyView:
    """A body, ready for a page. `form` is what is shown: none, empty, pretty, raw or hex; `forms` what could be."""

    form: str
    forms: tuple[str, ...]
    lines: list[Line]
    text: str
    cut: bool


def view_body(head: bytes | None, size: int, asked: str = "") -> BodyView:
    """The first bytes (at most HEAD_BYTES) of a body of `size` bytes, as `asked`: pretty, raw or hex.

    What is asked but not possible, or not asked, is the best that is: JSON indented, text as it is, else hex. Text that
    holds a NUL or is not UTF-8 is shown as hex unless asked otherwise.
    """
    if not head:
        return BodyView("none" if head is None else "empty", (), [], "", False)
    cut = size > len(head)
    text = _decode(head, cut)
    lines = _indent(text, cut) if text is not None else None
    forms = tuple(
        form for form, there in (("pretty", lines is not None), ("raw", True), ("hex", True)) if there
    )
    form = asked if asked in forms else _best(text, lines)
    if form == "pretty" and lines is not None:
        return BodyView(form, forms, lines, "", cut or len(lines) == MOST_LINES)
    if form == "raw":
        return BodyView(form, forms, [], visible(text if text is not None else bytes_text(head)), cut)
    return BodyView("hex", forms, [], _hex(head), cut)


def visible(text: str) -> str:
    """The text with control and direction characters made visible; everything else untouched."""
    return text.translate(_HIDDEN)


def bytes_text(value: bytes) -> str:
    """Bytes for people: as UTF-8, with what is not UTF-8 as \\x.. and what cannot be seen made visible."""
    return visible(bytes(value).decode("utf-8", "backslashreplace"))


def _best(text: str | None, lines: list[Line] | None) -> str:
    if text is None or "\0" in text:
        return "hex"
    return "raw" if lines is None else "pretty"


def _decode(head: bytes, cut: bool) -> str | None:
    """The text, or None if it is not UTF-8. A character that the cut went through is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(head, final=not cut)
    except UnicodeDecodeError:
        return None


def _indent(text: str, cut: bool) -> list[Line] | None:
    """A line for each element, every token as it was written; None if the text is no JSON object or array."""
    if text.lstrip()[:1] not in (*_OPEN,) or not (cut or _is_json(text)):
        return None
    lines: list[Line] = [[]]
    depth, place = 0, 0
    while place < len(text) and len(lines) < MOST_LINES:
        match = _TOKEN.match(text, place)
        if match is None:  # only where the head was cut
            lines[-1].append(Piece("value", visible(text[place:])))
            break
        place = match.end()
        if match.lastgroup != "space":
            depth = _place(match, text, lines, depth)
    return lines


def _place(match: re.Match[str], text: str, lines: list[Line], depth: int) -> int:
    """Write one token, with the line breaks that belong to it; the depth after it."""
    sign = match.group()
    if sign in _CLOSE:
        depth -= 1
        if not _is_last_open(lines[-1]):
            _new_line(lines, depth)
        lines[-1].append(Piece("mark", sign))
    elif match.lastgroup == "mark":
        lines[-1].append(Piece("mark", sign + (" " if sign == ":" else "")))
        depth += sign in _OPEN
        if sign == "," or (sign in _OPEN and _next(text, match.end()) not in _CLOSE):
            _new_line(lines, depth)
    else:
        is_key = match.lastgroup == "text" and _next(text, match.end()) == ":"
        lines[-1].append(Piece("key" if is_key else "value", visible(sign)))
    return depth


def _new_line(lines: list[Line], depth: int) -> None:
    lines.append([Piece("space", "  " * min(max(depth, 0), DEEPEST_INDENT))])


def _is_last_open(line: Line) -> bool:
    return bool(line) and line[-1].kind == "mark" and line[-1].text in _OPEN


def _next(text: str, place: int) -> str:
    """The next character that is not space, or "?" at the end."""
    for index in count(place):
        if index >= len(text):
            break
        if text[index] not in " \t\r\n":
            return text[index]
    return "?"


def _is_json(text: str) -> bool:
    """Whether the whole text is JSON. Numbers stay text: a huge one would take long to become an int."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(name: str) -> str:
    raise ValueError(name)


def _hex(head: bytes) -> str:
    """Sixteen bytes a line: offset, hex, and the ASCII characters among them."""
    lines = []
    for start in range(0, len(head), 16):
        row = head[start : start + 16]
        digits = f"{row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}"
        shown = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        lines.append(f"{start:08x}  {digits}   {shown}")
    return "\n".join(lines)
