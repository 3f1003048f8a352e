"""Letters as CSV or JSON Lines, row by row, whatever their number and the size of their bodies.

JSON Lines is the exact form: a body that is UTF-8 stands in `body`, any other in `body_base64`, a key likewise. CSV is
for spreadsheets: a cell that one would run as a formula gets an apostrophe in front, and a body that is no text, or is
longer than a cell can be, is told by its size.
"""

import base64
import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from dlqadmin.deadletters.models import DeadLetter, DeadLetterQuerySet

BATCH = 500
SMALL_BODY = 65_536  # bytes; larger ones are read one at a time
LONGEST_CELL = 32_767  # characters; spreadsheets take no more
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

COLUMNS = (
    "id",
    "queue",
    "owner",
    "type",
    "key",
    "message_id",
    "version",
    "state",
    "resolution",
    "reason",
    "attempts",
    "generation",
    "lineage",
    "cluster",
    "error_class",
    "error_text",
    "sent_at",
    "last_attempt_at",
    "died_at",
    "content_type",
    "content_encoding",
    "headers",
    "body_size",
    "body",
)


def jsonl_of(letters: DeadLetterQuerySet) -> Iterator[bytes]:
    """A JSON object on a line for each letter, the oldest first."""
    for row in rows_of(letters):
        yield json.dumps(row, ensure_ascii=False).encode() + b"\n"


def csv_of(letters: DeadLetterQuerySet) -> Iterator[bytes]:
    """A head and a line for each letter, the oldest first; UTF-8 with the mark that spreadsheets look for."""
    yield b"\xef\xbb\xbf" + _line(COLUMNS)
    for row in rows_of(letters):
        cells = {name: row.get(name) for name in COLUMNS}
        cells["headers"] = json.dumps(row["headers"]) if row["headers"] else ""
        cells["key"] = row["key"] if "key" in row else f"base64:{row['key_base64']}"
        if "body_base64" in row or len(row["body"] or "") > LONGEST_CELL:
            cells["body"] = f"({row['body_size']} bytes)"
        yield _line([cell_of(value) for value in cells.values()])


def cell_of(value: object) -> str:
    """What stands in a cell: never a formula, whatever the value begins with."""
    text = "" if value is None else str(value)
    is_number = isinstance(value, int)
    return f"'{text}" if text.startswith(_FORMULA) and not is_number else text


def rows_of(letters: DeadLetterQuerySet) -> Iterator[dict[str, Any]]:
    """Each letter as values that JSON takes."""
    last = 0
    newest = letters.order_by("-pk").values_list("pk", flat=True).first() or 0
    while batch := list(letters.listed().filter(pk__gt=last, pk__lte=newest).order_by("pk")[:BATCH]):
        small = DeadLetter.objects.filter(pk__in=[row.pk for row in batch], body_size__lte=SMALL_BODY)
        bodies = dict(small.values_list("pk", "body"))
        for letter in batch:
            body = bodies[letter.pk] if letter.body_size <= SMALL_BODY else _large_body(letter.pk)
            yield _row(letter, None if body is None else bytes(body))
        last = batch[-1].pk


def _large_body(pk: int) -> bytes | None:
    """Read by itself, so that no more than one is kept."""
    body = DeadLetter.objects.values_list("body", flat=True).get(pk=pk)
    return None if body is None else bytes(body)


def _row(letter: DeadLetter, body: bytes | None) -> dict[str, Any]:
    row = {
        name: getattr(letter, name)
        for name in COLUMNS
        if name not in ("queue", "owner", "cluster", "key", "body")
    }
    row |= {
        "queue": letter.queue.name,
        "owner": letter.queue.owner.name if letter.queue.owner else None,
        "cluster": letter.cluster.root_id if letter.cluster else None,
        "lineage": str(letter.lineage),
    }
    for name in ("sent_at", "last_attempt_at", "died_at"):
        row[name] = row[name].isoformat() if row[name] else None
    key = None if letter.key is None else bytes(letter.key)
    return row | _bytes("key", key) | _bytes("body", body)


def _bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    """The value as text if it is UTF-8, else as base64 under another name."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _line(cells: Any) -> bytes:
    written = io.StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue().encode("utf-8", "backslashreplace")
