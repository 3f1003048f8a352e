"""The language of letter filters: every query either is read as it was meant, or is refused with the place."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlqadmin.deadletters.query import BadQuery, Field, parse, quoted


def told(text: str) -> list[tuple[str, object, str]]:
    return [(term.field.value, term.numbers or term.text or term.age, term.compared) for term in parse(text)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("  ", []),
        ("timeout", [("word", "timeout", "=")]),
        ('"no field"', [("word", "no field", "=")]),
        ('"a:b" c', [("word", "a:b", "="), ("word", "c", "=")]),
        ("body:text", [("body", "text", "=")]),
        ("queue:team/a", [("queue", "team/a", "=")]),
        ("QUEUE:a", [("queue", "a", "=")]),
        ('type:"a b"', [("type", "a b", "=")]),
        (r"type:a\ b", [("type", "a b", "=")]),
        (r'error:"say \"hi\""', [("error", 'say "hi"', "=")]),
        ('key:a"b c"d', [("key", "ab cd", "=")]),
        ("id:4,8", [("id", (4, 8), "=")]),
        ("cluster:5 template:6", [("cluster", (5,), "="), ("template", (6,), "=")]),
        ("age:>7d", [("age", timedelta(days=7), ">")]),
        ("age:<=1h", [("age", timedelta(hours=1), "<=")]),
        ("age:2w", [("age", timedelta(days=14), ">")]),
        ("attempts:>=3 generation:2", [("attempts", (3,), ">="), ("generation", (2,), "=")]),
        ("state:all", [("state", "all", "=")]),
        ("error:http://x", [("error", "http://x", "=")]),
    ],
)
def test_a_query_is_read_as_it_is_meant(text: str, terms: list[tuple[str, object, str]]) -> None:
    assert told(text) == terms


def test_a_path_in_a_body_has_names_and_a_value() -> None:
    (term,) = parse('body:"$.order.ship to=TR=1"')
    assert (term.field, term.path, term.text) == ("body", ("order", "ship to"), "TR=1")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("type:a agee:>7d", "agee"),
        ("http://x", "http"),
        ("type:", "type:"),
        ('type:""', '""'),
        ('a "open', '"open'),
        ("state:odd", "odd"),
        ("id:x", "x"),
        ("id:1,,2", "1,,2"),
        ("id:-1", "-1"),
        (f"id:{2**63}", str(2**63)),
        ("attempts:>", ">"),
        ("attempts:1,2", "1,2"),
        ("age:7", "7"),
        ("age:>xd", ">xd"),
        ("age:9999999d", "9999999d"),
        ("a\0b", "\0"),
        ("id:²", "²"),
        ("body:$.a", "$.a"),
        ("body:$=1", "$=1"),
        ("body:$..a=1", "$..a=1"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, wrong: str) -> None:
    with pytest.raises(BadQuery) as refused:
        parse(text)
    assert text[refused.value.start : refused.value.end] == wrong
    assert str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"), [("agee:>7d", "Did you mean “age”?"), ("http://x", "put it in quotes")]
)
def test_an_unknown_field_is_answered_with_what_may_be_meant(text: str, said: str) -> None:
    with pytest.raises(BadQuery, match=said.replace("?", r"\?")):
        parse(text)


@given(st.text())
def test_any_text_is_read_or_refused_within_its_bounds(text: str) -> None:
    try:
        places = [(term.start, term.end) for term in parse(text)]
    except BadQuery as error:
        places = [(error.start, error.end)]
    assert all(0 <= start <= end <= len(text) for start, end in places)


@given(
    st.sampled_from([Field.TYPE, Field.QUEUE, Field.KEY, Field.ERROR, Field.OWNER]),
    st.text(min_size=1).filter(lambda text: "\0" not in text),
)
def test_a_value_that_is_quoted_is_read_back(field: Field, value: str) -> None:
    (term,) = parse(f"{field.value}:{quoted(value)}")
    assert (term.field, term.text) == (field, value)
