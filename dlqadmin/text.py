"""Text from outside, made safe to store and to show. Raw bytes are kept beside it, so nothing is lost here."""

import re
import unicodedata

ERROR_TEXT_LIMIT = 16_384
TRACEBACK_LIMIT = 65_536
TYPE_LIMIT = 255

# CSI and OSC sequences of terminals; both alternatives are linear (no nested repetition).
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\^_]")
_CONTROL = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n\r"}
_CONTROL[0x7F] = "\u2421"
# Bidirectional overrides can make a text read as something else; each is shown as a replacement character.
_BIDI = dict.fromkeys([0x202A, 0x202B, 0x202C, 0x202D, 0x202E, 0x2066, 0x2067, 0x2068, 0x2069], "\ufffd")
_VISIBLE = str.maketrans({chr(code): shown for code, shown in (_CONTROL | _BIDI).items()})


def raw_bytes(text: str) -> bytes:
    """The text as UTF-8; a lone surrogate, which UTF-8 has no form for, is kept as its escape."""
    return text.encode("utf-8", "backslashreplace")


def storable(text: str) -> str:
    """The same text in a form that a PostgreSQL `text` column takes: no NUL, no lone surrogate."""
    return raw_bytes(text).decode().translate({0: "\u2400"})


def display_safe(text: str, limit: int = ERROR_TEXT_LIMIT) -> str:
    """A copy for people: NFC, terminal sequences gone, control and bidi characters visible, at most `limit` characters.

    What is cut off is said in the last line ("… 12,345 more characters").
    """
    if text.isascii() and text.isprintable() and len(text) <= limit:
        return text
    cut = text[:limit]
    safe = storable(unicodedata.normalize("NFC", _ANSI.sub("", cut))).translate(_VISIBLE)
    if len(text) > limit:
        safe += f"\n… {len(text) - limit:,} more characters"
    return safe
