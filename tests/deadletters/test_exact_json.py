"""Bodies that people and patches change keep every digit that nobody changed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlqadmin.deadletters.editable import NotReadable, as_text, from_hex, from_text, to_hex
from dlqadmin.deadletters.exact_json import NotExact, dumps, loads
from dlqadmin.deadletters.json_patch import BadPatch, CannotPatch, read_patch

EXACT = b'{"orderId":9007199254740993,"p":1.00,"n":123456789012345678901234567890,"e":7E2,"m":-0}'

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_what_is_read_is_written_again_the_same(value: Any) -> None:
    text = json.dumps(value, separators=(",", ":"))
    assert dumps(loads(text), ascii_only=True) == text


def test_c17_every_digit_survives_a_patch_of_another_field() -> None:
    patched = read_patch('[{"op": "add", "path": "/taxCode", "value": 1.50}]').apply(EXACT)
    assert patched == EXACT[:-1] + b',"taxCode":1.50}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a":1,"a":2}', "twice"),
        ("[1,", "no JSON"),
        ("NaN", "no number"),
        ("[" * 100_000 + "]" * 100_000, "deeply"),
        ("", "no JSON"),
    ],
)
def test_json_that_would_not_survive_is_refused(text: str, why: str) -> None:
    with pytest.raises(NotExact, match=why):
        loads(text)


@pytest.mark.parametrize(
    ("operations", "before", "after"),
    [
        (
            '[{"op":"test","path":"/a","value":1.0},{"op":"replace","path":"/a","value":2}]',
            '{"a":1}',
            '{"a":2}',
        ),
        ('[{"op":"remove","path":"/a"}]', '{"a":1,"b":2}', '{"b":2}'),
        ('[{"op":"move","from":"/a","path":"/c"}]', '{"a":1}', '{"c":1}'),
        ('[{"op":"copy","from":"/a/0","path":"/a/-"}]', '{"a":[1]}', '{"a":[1,1]}'),
        ('[{"op":"add","path":"/a~1b","value":"ş"}]', "{}", '{"a/b":"\\u015f"}'),
        ('[{"op":"add","path":"/b","value":"ş"}]', '{"a":"ğ"}', '{"a":"ğ","b":"ş"}'),
        ('[{"op":"replace","path":"/a","value":1}]', '{ "a": 1.0 }', '{ "a": 1.0 }'),
    ],
)
def test_a_patch_does_what_rfc_6902_says(operations: str, before: str, after: str) -> None:
    assert read_patch(operations).apply(before.encode()).decode() == after


@pytest.mark.parametrize(
    ("operations", "body", "why"),
    [
        ('[{"op":"test","path":"/a","value":2}]', b'{"a":1}', "Operation 1: the test of /a does not hold"),
        ('[{"op":"test","path":"/s","value":"x"}]', b'{"s":"secret"}', "Operation 1: the test of /s"),
        (
            '[{"op":"remove","path":"/a"},{"op":"remove","path":"/a"}]',
            b'{"a":1}',
            "Operation 2: /a is not there",
        ),
        ('[{"op":"add","path":"/a/b/c","value":1}]', b'{"a":"secret"}', "Operation 1"),
        ('[{"op":"remove","path":"/a"}]', b"secret", "no JSON"),
        ('[{"op":"remove","path":"/a"}]', b"\xff", "UTF-8"),
        ('[{"op":"add","path":"/b","value":"\\ud800"}]', '{"a":"ş"}'.encode(), "surrogate"),
    ],
)
def test_a_body_that_a_patch_does_not_fit_is_left_with_a_reason_that_quotes_nothing_of_it(
    operations: str, body: bytes, why: str
) -> None:
    with pytest.raises(CannotPatch, match=why) as refused:
        read_patch(operations).apply(body)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "[1]", '[{"op":"explode","path":"/a"}]', '[{"op":"add"}]', '[{"op":"add","path":"a","value":1}]',
     '[{"op":"add","path":"/a"}]', "[" + ",".join(['{"op":"remove","path":"/a"}'] * 101) + "]", '[{"op":1,"path":2}]'],
)  # fmt: skip
def test_what_is_no_patch_is_refused(text: str) -> None:
    with pytest.raises(BadPatch):
        read_patch(text)


def through_a_browser(text: str) -> str:
    """What a browser sends of a text area: every line break as CR LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")


@given(st.binary() | st.text(alphabet="a\r\n\0ş").map(str.encode))
def test_a_body_that_is_offered_as_text_comes_back_unchanged(body: bytes) -> None:
    text = as_text(body)
    if text is not None and b"\0" not in body:
        assert from_text(through_a_browser(text), body) == body


@given(st.binary())
def test_bytes_come_back_unchanged(body: bytes) -> None:
    assert from_hex(through_a_browser(to_hex(body)), b"") == body


def test_c06_bytes_and_compressed_bodies_are_not_offered_as_text() -> None:
    assert as_text(bytes.fromhex("089601fffe00c328")) is None
    assert as_text(b"text", content_encoding="gzip") is None
    assert as_text(b"mixed\r\nline\nbreaks") is None


@pytest.mark.parametrize("original", [b'{"a":1}', b"not JSON"])
def test_json_that_was_broken_while_editing_is_refused(original: bytes) -> None:
    with pytest.raises(NotReadable, match="JSON"):
        from_text('{"a":', original, "application/json")
    with pytest.raises(NotReadable, match="two digits"):
        from_hex("0x1", original)
