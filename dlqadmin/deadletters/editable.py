"""Bodies in the forms that a person edits: text exactly as it is, or bytes as hexadecimal. Pure.

A browser sends every line break of a text area as CR LF, so a text is offered only if its line breaks are all of one
kind; what is read back has that kind again.
"""

import re

from django.utils.translation import gettext as _

from dlqadmin.deadletters.exact_json import NotExact, loads


class NotReadable(ValueError):
    """What was typed is no body; the text says why."""


def as_text(body: bytes, content_encoding: str = "") -> str | None:
    """The body as text that a text area gives back unchanged; None if only its bytes can be edited."""
    if content_encoding:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    returns, feeds = text.count("\r"), text.count("\n")
    if "\0" in text or (returns and not returns == feeds == text.count("\r\n")):
        return None
    return text


def from_text(typed: str, original: bytes, content_type: str = "") -> bytes:
    """The body that was typed, with the line breaks of the original. Raises NotReadable, also if JSON broke."""
    text = typed.replace("\r\n", "\n")
    if b"\r\n" in original:
        text = text.replace("\n", "\r\n")
    if "json" in content_type.lower() or _is_json(original):
        try:
            loads(text)
        except NotExact as error:
            raise NotReadable(_("The body must be JSON: %s.") % error) from error
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise NotReadable(_("It holds half of a surrogate pair, which UTF-8 has no bytes for.")) from error


def from_hex(typed: str, _original: bytes, _content_type: str = "") -> bytes:
    """The bytes that were typed as hexadecimal digits. Raises NotReadable."""
    digits = re.sub(r"\s+", "", typed)
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise NotReadable(_("Bytes are written with two digits each, 0-9 and a-f.")) from error


def to_hex(body: bytes) -> str:
    """The bytes as hexadecimal digits, sixteen bytes a line."""
    return "\n".join(body[start : start + 16].hex(" ") for start in range(0, len(body), 16))


def _is_json(body: bytes) -> bool:
    try:
        loads(body.decode())
    except (UnicodeDecodeError, NotExact):
        return False
    return True
