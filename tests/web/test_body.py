"""A body is shown as it is: no digit changes, nothing is hidden, nothing is guessed."""

import json
import time

import pytest

from dlqadmin.web.body import HEAD_BYTES, MOST_LINES, BodyView, view_body
from dlqadmin.web.headers import header_rows


def view(body: bytes | None, asked: str = "") -> BodyView:
    return view_body(None if body is None else body[:HEAD_BYTES], len(body or b""), asked)


def pretty(body: bytes) -> str:
    return "\n".join("".join(piece.text for piece in line) for line in view(body, "pretty").lines)


@pytest.mark.parametrize(
    "number",
    [
        "123456789012345678901234567890",
        "1.00",
        "1E400",
        "-0.0",
        "0.1000000000000000055511151231257827",
        "9" * 9000,
    ],
)
def test_numbers_keep_every_digit(number: str) -> None:
    assert pretty(b'{"n":%s}' % number.encode()) == f'{{\n  "n": {number}\n}}'


def test_json_is_indented_as_people_expect_it() -> None:
    value = {"a": [], "b": {}, "c": [1, [2, {"x": None}]], "d": "x: {y}, [z]"}
    assert pretty(json.dumps(value).encode()) == json.dumps(value, indent=2)


def test_a_key_that_comes_twice_is_shown_twice() -> None:
    assert pretty(b'{"a":1,"a":2}').count('"a"') == 2


def test_keys_are_told_from_values() -> None:
    pieces = [piece for line in view(b'{"a":"b"}').lines for piece in line if piece.text.startswith('"')]
    assert [(piece.kind, piece.text) for piece in pieces] == [("key", '"a"'), ("value", '"b"')]


def test_no_body_is_not_an_empty_body() -> None:
    assert view(None).form == "none"
    assert view(b"").form == "empty"


@pytest.mark.parametrize("body", [b"plain", b"{broken", b"[1,]", b"[NaN]", b"12", b'"text"'])
def test_what_is_not_a_json_container_is_shown_as_text(body: bytes) -> None:
    assert view(body).form == "raw"
    assert view(body).text == body.decode()
    assert view(body).forms == ("raw", "hex")


@pytest.mark.parametrize("body", [b"a\0b", b"\xff\xfe", b"\xed\xa0\x80", b"\x1f\x8b\x08\0"])
def test_nul_and_what_is_not_utf8_is_shown_as_hex_by_default(body: bytes) -> None:
    assert view(body).form == "hex"
    assert body[:1].hex() in view(body).text


def test_hex_shows_offset_bytes_and_characters() -> None:
    assert view(bytes(range(60, 80)), "hex").text.splitlines() == [
        "00000000  3c 3d 3e 3f 40 41 42 43  44 45 46 47 48 49 4a 4b   <=>?@ABCDEFGHIJK",
        "00000010  4c 4d 4e 4f                                        LMNO",
    ]


def test_text_that_could_hide_or_reverse_itself_is_made_visible() -> None:
    text = view("a\u202eb\0c\x1b[31m\u2066\x7f".encode(), "raw").text
    assert text == "a⟨U+202E⟩b␀c␛[31m⟨U+2066⟩␡"


def test_raw_text_is_not_normalised() -> None:
    assert view("e\u0301 \ttab\r\n".encode(), "raw").text == "e\u0301 \ttab\r\n"


def test_one_line_of_a_megabyte_is_cut_and_says_so() -> None:
    found = view(b"x" * 1_000_000)
    assert (found.form, len(found.text), found.cut) == ("raw", HEAD_BYTES, True)


def test_a_cut_inside_a_character_does_not_make_the_text_binary() -> None:
    body = b"x" + "é".encode() * HEAD_BYTES
    assert view(body).form == "raw"
    assert view(body).text.endswith("é")


def test_json_that_is_cut_is_indented_as_far_as_it_goes() -> None:
    found = view(json.dumps([{"n": "x" * 100}] * 2000).encode())
    assert found.form == "pretty"
    assert found.cut


def test_deep_nesting_and_many_elements_stay_small_and_quick() -> None:
    start = time.monotonic()
    for body in (
        b"[" * 10**6,
        b"[" * 30_000 + b"]" * 30_000,
        b"[" + b"1," * 10**6 + b"1]",
        b'{"a":' * 10**5,
        b" " * 10**6,
    ):
        found = view(body)
        assert len(found.lines) <= MOST_LINES
        assert sum(len(piece.text) for line in found.lines for piece in line) < 10 * HEAD_BYTES
    assert time.monotonic() - start < 5


def test_headers_keep_order_doubles_and_nulls() -> None:
    rows = header_rows(
        [
            ["x", "text", "YQ=="],
            ["x", "bytes", "/wA="],
            ["y", "null", None],
            ["z", "text", ""],
            ["w", "?", "%"],
        ]
    )
    assert [(row.name, row.value, row.nth, row.of) for row in rows] == [
        ("x", "a", 1, 2),
        ("x", "\\xff␀", 2, 2),
        ("y", None, 1, 1),
        ("z", "", 1, 1),
        ("w", "%", 1, 1),
    ]
