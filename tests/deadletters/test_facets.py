"""What letters of a cluster share is read from a bounded sample, and no secret is shown."""

import base64
import json
from typing import Any

import pytest

from dlqadmin.deadletters import facets
from dlqadmin.deadletters.facets import HIDDEN, facets_of
from dlqadmin.deadletters.models import DeadLetter
from tests.clusters.told import letters_of

pytestmark = pytest.mark.django_db


def told(queue: Any, leaf_text: str, bodies: list[object], **fields: Any) -> int:
    """Letters of one cluster with these bodies; its leaf."""
    made = letters_of(queue, [leaf_text] * len(bodies))
    for letter, body in zip(made, bodies, strict=True):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        DeadLetter.objects.filter(pk=letter.pk).update(body=raw, body_size=len(raw), **fields)
    return made[0].cluster.pk


def test_the_field_that_sets_them_apart_is_found_deep_in_the_body(queue) -> None:
    leaf = told(queue, "a is lost", [{"member": {"country": "TR", "id": n}} for n in range(30)])
    told(queue, "b has gone", [{"member": {"country": "DE", "id": n}} for n in range(30)])
    found = facets_of(queue_id=queue.pk, leaves=[leaf], letters=30)
    first = found.values[0]
    assert (first.field, first.value, first.telling) == ("body.member.country", "TR", True)
    assert (found.here, found.elsewhere, found.partly) == (30, 30, False)
    assert not any(one.field == "body.member.id" for one in found.values)


def test_lists_headers_keys_and_workers_are_compared(queue) -> None:
    header = ["app-version", "str", base64.b64encode(b"4.12").decode()]
    leaf = told(
        queue,
        "a is lost",
        [{"lines": [{"sku": "A"}, {"sku": "B"}]}] * 20,
        headers=[header],
        key=b"k\xff",
        worker="w-1",
    )
    told(queue, "b has gone", [{"lines": []}] * 20)
    found = {(one.field, one.value) for one in facets_of(queue_id=queue.pk, leaves=[leaf], letters=20).values}
    assert {
        ("body.lines[].sku", "A"),
        ("header app-version", "4.12"),
        ("key", "k\\xff"),
        ("worker", "w-1"),
    } <= found


def test_no_secret_is_shown(queue) -> None:
    header = ["Authorization", "str", base64.b64encode(b"Bearer s3cret").decode()]
    leaf = told(
        queue, "a is lost", [{"login": {"password": "s3cret"}, "api_key": "s3cret"}] * 5, headers=[header]
    )
    values = facets_of(queue_id=queue.pk, leaves=[leaf], letters=5).values
    assert not [one for one in values if "s3cret" in one.value]
    assert {one.field for one in values if one.value == HIDDEN} == {
        "body.login.password",
        "body.api_key",
        "header Authorization",
    }


@pytest.mark.parametrize("body", [b"\xff\x00", b"", b"[" * 5_000, b'"text"', b"{" + b" " * 20_000 + b"}"])
def test_a_body_that_cannot_be_read_or_is_long_is_left_out(queue, body) -> None:
    leaf = told(queue, "a is lost", [body] * 3)
    assert facets_of(queue_id=queue.pk, leaves=[leaf], letters=3).here == 3


def test_of_many_letters_a_sample_is_read_and_that_is_said(queue, monkeypatch) -> None:
    monkeypatch.setattr(facets, "SAMPLE", 5)
    leaf = told(queue, "a is lost", [{}] * 30)
    found = facets_of(queue_id=queue.pk, leaves=[leaf], letters=30)
    assert (found.here, found.partly) == (10, True)


def test_without_letters_nothing_is_shared(queue) -> None:
    assert facets_of(queue_id=queue.pk, leaves=[-1], letters=0).values == []
