"""The headers of a message as a page shows them. Pure."""

import base64
import binascii
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dlqadmin.web.body import bytes_text, visible

MOST_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class HeaderRow:
    """One header. `value` None: it has none. It is the `nth` `of` those with its name; `size` in bytes."""

    name: str
    type: str
    value: str | None
    size: int
    nth: int
    of: int

    @property
    def cut(self) -> bool:
        """Whether only the beginning of the value is shown."""
        return self.size > MOST_BYTES


def header_rows(headers: Sequence[Sequence[str | None]]) -> list[HeaderRow]:
    """The rows for headers as they are stored: [name, type, base64 or None] in the order they came."""
    totals = Counter(header[0] for header in headers)
    seen: Counter[str | None] = Counter()
    rows = []
    for name, kind, encoded in headers:
        seen[name] += 1
        raw = None if encoded is None else _decode(encoded)
        shown = None if raw is None else bytes_text(raw[:MOST_BYTES])
        rows.append(
            HeaderRow(
                visible(name or ""), visible(kind or ""), shown, len(raw or b""), seen[name], totals[name]
            )
        )
    return rows


def _decode(encoded: str) -> bytes:
    """The value's bytes; what is not base64 is shown as it stands."""
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return encoded.encode()
