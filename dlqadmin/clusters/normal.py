"""The normal form of an error text: what differs only in how it was written down is made equal. Pure, linear."""

import re
import unicodedata

HEAD_LIMIT = 6_000  # characters; the line that names the cause stands at the start …
TAIL_LIMIT = 3_000  # … or, in a traceback of Python, at the end
LINE_LIMIT = 1_000  # characters of one line: longer ones hold a payload

# A colour, a cursor movement, a window title.
_ANSI = re.compile(r"\x1b(?:\[[0-9;:?<=>]{0,32}[ -/]?[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff\ufffd␀-␟]"
)


def normal_form(text: str) -> str:
    """`text` cut to a bound, with one kind of line end, in NFC, without colours and control characters."""
    if len(text) > HEAD_LIMIT + TAIL_LIMIT:
        text = f"{text[:HEAD_LIMIT]}\n{text[-TAIL_LIMIT:]}"
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if text.isascii():
        return text if text.isprintable() else _CONTROL.sub("", text)
    return _CONTROL.sub("", unicodedata.normalize("NFC", text))
