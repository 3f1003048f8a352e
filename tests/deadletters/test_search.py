"""What letters are found by: words of error texts and bodies, however they are typed, and values in JSON bodies."""

import unicodedata
from typing import Any

import pytest

from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.models import DeadLetter, LetterArrival, LetterText
from dlqadmin.deadletters.search import index_new_letters
from dlqadmin.deadletters.sets import LetterSet
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.queues.models import SourceQueue

pytestmark = pytest.mark.django_db(transaction=True)

BODIES: list[Any] = [
    {"order": {"country": "TR", "lines": [{"sku": 7}]}, "paid": True, "total": 1.50, "note": None},
    {"order": {"country": "DE"}, "id": 9007199254740993},
    "Straße ve ÇİÇEK",
    b"\xff\xfe binary tail",
    None,
    b'{"zero": "\\u0000", "a": 1}',
    b'{"huge": 1e999999999}',
    b'{"half": "\\ud800"}',
    b"[" * 50_000,
]


@pytest.fixture
def searched(make_queue: Any) -> SourceQueue:
    """A letter for each body, indexed."""
    queue: SourceQueue = make_queue(max_attempts=1)
    publish_many(queue, [Outgoing(type="unknown", body=body) for body in BODIES])
    while consume_once(queue).outcomes:
        pass
    index_new_letters()
    return queue


def found(queue: SourceQueue, text: str) -> list[int]:
    """Which of BODIES."""
    first = DeadLetter.objects.earliest("pk").pk
    return [pk - first for pk in LetterSet(queue, text).letters().order_by("pk").values_list("pk", flat=True)]


@pytest.mark.parametrize(
    ("text", "which"),
    [
        ("body:country", [0, 1]),
        ("lines sku", [0]),
        ('error:"no handler for type"', list(range(len(BODIES)))),
        ("error:country", []),
        ("handler", list(range(len(BODIES)))),
        ("body:strasse", [2]),
        ("body:ÇİÇEK", [2]),
        ('body:"binary tail"', [3]),
        ("body:$.order.country=TR", [0]),
        ("body:$.order.lines.sku=7", [0]),
        ("body:$.paid=true", [0]),
        ("body:$.total=1.5", [0]),
        ("body:$.note=null", [0]),
        ("body:$.id=9007199254740993", [1]),
        ("body:$.id=9007199254740992", []),
        ("body:$.a=1", []),
        ("body:%", []),
        ("body:_", []),
    ],
)
def test_letters_are_found_by_what_they_say(searched, text, which) -> None:
    assert found(searched, text) == which


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_it_does_not_matter_how_a_letter_with_a_mark_was_typed(make_queue, form) -> None:
    queue = make_queue(max_attempts=1)
    publish_many(queue, [Outgoing(type="unknown", body=unicodedata.normalize("NFD", "çiçekçi"))])
    consume_once(queue)
    index_new_letters()
    assert LetterSet(queue, unicodedata.normalize(form, "body:Çiçekçi")).letters().count() == 1


def test_every_letter_is_indexed_once_whatever_its_body_is(searched) -> None:
    assert LetterText.objects.count() == len(BODIES)
    assert not LetterArrival.objects.exists()
    documents = LetterText.objects.exclude(document=None).order_by("pk").values_list("pk", flat=True)
    assert len(documents) == 2
    LetterArrival.objects.create(letter_id=LetterText.objects.latest("pk").pk)
    LetterArrival.objects.create(letter_id=-1)
    index_new_letters()
    assert LetterText.objects.count() == len(BODIES)
