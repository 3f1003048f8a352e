"""What the letters of a cluster share: type, key, body fields, headers, worker, hour; read from a bounded sample."""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from dlqadmin.clusters.overrepresented import Shared, Value, shared_values
from dlqadmin.deadletters.ends import OPEN, newest_ids, oldest_ids
from dlqadmin.text import display_safe

SAMPLE = 100  # letters, of the newest and of the oldest, here and elsewhere
MOST_OTHERS = 100  # leaves of other causes
LONGEST_BODY = 16_384  # bytes; a longer body is not read
LONGEST_VALUE = 80  # characters
DEEPEST = 6
MOST_FIELDS = 60  # of one body

# Shown as present, never as what they are.
_SECRET = re.compile(
    r"passw|secret|token|authori[sz]ation|api.?key|cookie|credential|signature|private|iban|card|cvv|ssn",
    re.IGNORECASE,
)
HIDDEN = "(hidden)"

_COLUMNS = f"""id, type, key, worker, extract(hour FROM died_at AT TIME ZONE 'UTC')::int, headers,
    CASE WHEN body_size <= {LONGEST_BODY} THEN body END"""

_READ = f"SELECT {_COLUMNS} FROM dlqadmin_deadletter WHERE id = ANY(%s)"  # noqa: S608 - made of constants

# Those that have most letters. How many have none is not asked: an index says so at once.
_OTHERS = """
SELECT id FROM dlqadmin_errorcluster WHERE queue_id = %s AND id <> ALL(%s) ORDER BY open_count DESC, id DESC LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Facets:
    """The values that are shared, and from how many letters that was told. `partly`: a sample was read, not all."""

    values: list[Shared]
    here: int
    elsewhere: int
    partly: bool


def facets_of(*, queue_id: int, leaves: Sequence[int], letters: int) -> Facets:
    """What the letters of these leaves share, against the open letters of the queue's other causes.

    `letters`: how many there are, to tell whether all were read. Reads at most 4 × SAMPLE letters.
    """
    here = _read(newest_ids(leaves, SAMPLE) + oldest_ids(leaves, SAMPLE))
    others = _others(queue_id, leaves)
    elsewhere = _read(newest_ids(others, SAMPLE, OPEN) + oldest_ids(others, SAMPLE, OPEN))
    return Facets(shared_values(here, elsewhere), len(here), len(elsewhere), letters > len(here))


def _others(queue_id: int, leaves: Sequence[int]) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(_OTHERS, [queue_id, list(leaves), MOST_OTHERS])
        return [row[0] for row in cursor.fetchall()]


def _read(ids: list[int]) -> list[list[Value]]:
    with connection.cursor() as cursor:
        cursor.execute(_READ, [ids])
        return [list(_values(*row)) for _pk, *row in cursor.fetchall()]


def _values(
    kind: str, key: bytes | None, worker: str, hour: int, headers: Any, body: bytes | None
) -> Iterator[Value]:
    yield "type", kind
    if key is not None:
        yield "key", _shown(bytes(key).decode("utf-8", "backslashreplace"))
    if worker:
        yield "worker", _shown(worker)
    yield "hour", f"{hour:02}:00 UTC"
    yield from _of_headers(json.loads(headers) if isinstance(headers, str) else headers)
    yield from _of_body(body)


def _of_headers(headers: Any) -> Iterator[Value]:
    for name, _kind, value in headers or ():
        field = f"header {_shown(str(name))}"
        if _SECRET.search(str(name)):
            yield field, HIDDEN
        elif value is not None:
            yield field, _shown(_decoded(value))


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value).decode("utf-8", "backslashreplace")
    except (binascii.Error, ValueError):
        return value


def _of_body(body: bytes | None) -> Iterator[Value]:
    if body is None:
        return
    try:
        value = json.loads(bytes(body))
    except (ValueError, RecursionError):
        return
    found: list[Value] = []
    _walk("body", value, found, 0)
    yield from found


def _walk(path: str, value: Any, found: list[Value], depth: int) -> None:
    """The scalars below `value`, by path; the place in a list is noise."""
    if len(found) >= MOST_FIELDS or depth > DEEPEST:
        return
    if isinstance(value, dict):
        for name, one in value.items():
            _walk(f"{path}.{_shown(str(name))}", one, found, depth + 1)
    elif isinstance(value, list):
        for one in value[:MOST_FIELDS]:
            _walk(f"{path}[]", one, found, depth + 1)
    elif _SECRET.search(path):
        found.append((path, HIDDEN))
    else:
        found.append((path, _shown(value if isinstance(value, str) else json.dumps(value))))


def _shown(text: str) -> str:
    return display_safe(text[:LONGEST_VALUE], LONGEST_VALUE)
