"""What is exported is what is there: every byte in JSON Lines, and no formula in CSV."""

import base64
import csv
import io
import json
from typing import Any

import pytest

from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.export import BATCH, cell_of, csv_of, jsonl_of
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.publish import Outgoing, publish_many

pytestmark = pytest.mark.django_db(transaction=True)

BODIES = [
    None,
    b"",
    b'{"orderId":9007199254740993,"p":1.00}',
    b"\xff\x00",
    "ş\u2028\n".encode(),
    b"=1+1",
    b"x" * 70_000,
]


def letters(make_queue: Any, bodies: list[Any]) -> None:
    """A letter for each body: nothing handles their type."""
    queue = make_queue(max_attempts=1)
    publish_many(
        queue, [Outgoing(type="unknown", body=body, key=body[:9] if body else None) for body in bodies]
    )
    while consume_once(queue).outcomes:
        pass


def test_every_byte_of_a_body_and_a_key_survives_in_json_lines(make_queue) -> None:
    letters(make_queue, BODIES)
    rows = [json.loads(line) for line in b"".join(jsonl_of(DeadLetter.objects.all())).split(b"\n") if line]
    assert [bytes_of(row, "body") for row in rows] == BODIES
    assert [bytes_of(row, "key") for row in rows] == [body[:9] if body else None for body in BODIES]
    assert {row["queue"] for row in rows} == {"late-notices"}


def bytes_of(row: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in row:
        return base64.b64decode(row[f"{name}_base64"])
    return None if row[name] is None else row[name].encode()


def test_csv_is_read_back_line_by_line_and_holds_no_formula(make_queue) -> None:
    letters(make_queue, BODIES)
    text = b"".join(csv_of(DeadLetter.objects.all())).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["body"] for row in rows] == [
        "", "", BODIES[2].decode(), "(2 bytes)", "ş\u2028\n", "'=1+1", "(70000 bytes)"
    ]  # fmt: skip
    assert rows[3]["key"].startswith("base64:")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=cmd()", "'=cmd()"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@x", "'@x"),
        ("\tx", "'\tx"),
        ("a=b", "a=b"),
        (-1, "-1"),
        (None, ""),
    ],
)
def test_a_cell_that_a_spreadsheet_would_run_gets_an_apostrophe(value, cell) -> None:
    assert cell_of(value) == cell


def test_more_letters_than_a_batch_come_once_each_in_their_order(make_queue) -> None:
    letters(make_queue, [b"x"] * (BATCH + 3))
    ids = [json.loads(line)["id"] for line in jsonl_of(DeadLetter.objects.all())]
    assert ids == sorted(DeadLetter.objects.values_list("pk", flat=True))
