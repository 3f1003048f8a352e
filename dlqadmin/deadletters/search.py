"""What letters are searched by: their error texts and their bodies, indexed a moment after they came.

1. Take the letters that came, some at a time.
2. Bring their texts into one form: NFC and folded, so that it does not matter how a word was typed.
3. Keep that in rows of their own, which nothing changes again.
"""

import json
import unicodedata
from typing import Any

from django.db import DataError, connection, transaction

from dlqadmin.leases.run import guarded
from dlqadmin.text import storable

PORTION = 500
BODY_BYTES = 8_192  # of a body so much is searched
LARGEST_DOCUMENT = 65_536  # bytes; a larger JSON body is not searched by path
NEW = "EXISTS (SELECT FROM dlqadmin_letterarrival)"

_TAKE = """
WITH taken AS (
    DELETE FROM dlqadmin_letterarrival WHERE id IN (
        SELECT id FROM dlqadmin_letterarrival ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
    ) RETURNING letter_id
)
SELECT letter.id, error_text, CASE WHEN body_size <= %s THEN body ELSE substring(body FROM 1 FOR %s) END, body_size
FROM dlqadmin_deadletter AS letter WHERE letter.id IN (SELECT letter_id FROM taken)
"""
_KEEP = """
INSERT INTO dlqadmin_lettertext (letter_id, error, body, document)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[]::jsonb[]) ON CONFLICT DO NOTHING
"""

Row = tuple[int, str, str, str | None]


def index_new_letters() -> None:
    """Index all letters that came."""
    while _index_portion():
        pass


@guarded()
def _index_portion() -> int:
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [PORTION, LARGEST_DOCUMENT, BODY_BYTES])
        rows = [_row(*found) for found in cursor.fetchall()]
    try:
        _keep(rows)
    except DataError:
        # A number or a character that only the database refuses: found one by one.
        for row in rows:
            _keep_one(row)
    return len(rows)


@transaction.atomic
def _keep(rows: list[Row]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            _KEEP, [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], [], []]
        )


def _keep_one(row: Row) -> None:
    try:
        _keep([row])
    except DataError:
        _keep([(*row[:3], None)])


def searchable(text: str) -> str:
    """The form in which texts are compared."""
    return storable(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()))


def _row(letter: int, error: str, body: Any, size: int) -> Row:
    text = "" if body is None else bytes(body)[:BODY_BYTES].decode("utf-8", "ignore")
    document = None if body is None or size > LARGEST_DOCUMENT else _document(bytes(body))
    return letter, searchable(error), searchable(text), document


def _document(body: bytes) -> str | None:
    """The body as the text of a JSON object or array, if it is one that a jsonb column takes."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        text = body.decode()
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    return None if "\\u0000" in text else text
