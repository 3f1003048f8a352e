"""Texts of one cause in several formats are one group, whatever came first; names are never joined."""

import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlqadmin.clusters.fingerprint import fingerprint
from dlqadmin.clusters.grouping import group_texts
from dlqadmin.clusters.joining import Judgement, KeyKind, judge, keys_of

FRUITS = ("apple", "pear", "plum", "cherry", "quince", "medlar", "peach", "grape", "fig")
TEXTS = [
    'relation "loans" does not exist',
    'psycopg.errors.UndefinedTable: relation "loans" does not exist',
    '(UndefinedTable) relation "loans" does not exist',
    'relation "members" does not exist',
    "lease of node 7 is gone",
    "LeaseError: lease of node 9 is gone",
    "lease of node 9 is gone (after 3 s)",
    "connection refused",
    "search: connection refused",
    "mail: connection refused",
    *(f"the {fruit} basket of loan {n} is empty" for n, fruit in enumerate(FRUITS)),
    *(f"no column {fruit} in file {n}" for n, fruit in enumerate(FRUITS)),
    *(f"limit reached: tenant={fruit} used={n}" for n, fruit in enumerate(FRUITS)),
]


def groups(texts: list[str]) -> set[frozenset[str]]:
    found: dict[str, set[str]] = {}
    for text, group in zip(texts, group_texts(texts), strict=True):
        found.setdefault(group, set()).add(text)
    return {frozenset(group) for group in found.values()}


def together(*texts: str) -> bool:
    return len(set(group_texts(texts))) == 1


def test_a_wrapped_text_joins_the_bare_one_when_that_was_seen_itself() -> None:
    assert together(*TEXTS[0:3])
    assert together(*TEXTS[4:7])
    assert not together(*TEXTS[1:3])


def test_names_are_never_joined() -> None:
    assert not together(TEXTS[0], TEXTS[3])
    assert len(groups([text for text in TEXTS if "column" in text])) == len(FRUITS)


def test_what_the_system_says_to_everyone_joins_nothing() -> None:
    assert len(groups(TEXTS[7:10])) == 3


def test_a_slot_with_eight_fills_is_a_slot_for_values_and_with_seven_it_is_not() -> None:
    baskets = [text for text in TEXTS if "basket" in text]
    assert together(*baskets[:8])
    assert len(groups(baskets[:7])) == 7


def test_what_a_key_is_set_to_is_a_slot_too() -> None:
    assert together(*(text for text in TEXTS if "tenant=" in text))


@pytest.mark.parametrize(
    ("number", "judgement"),
    [(1, "none"), (2, "none"), (3, "proposed"), (7, "proposed"), (8, "sure"), (50, "sure")],
)
def test_three_to_seven_fills_are_a_question_to_a_person(number, judgement) -> None:
    assert judge(KeyKind.SLOT, {str(n) for n in range(number)}) is Judgement(judgement)


def test_a_suffix_needs_the_bare_text_and_a_wrapped_one() -> None:
    assert judge(KeyKind.SUFFIX, {"", "x"}) is Judgement.SURE
    assert judge(KeyKind.SUFFIX, {""}) is Judgement.NONE
    assert judge(KeyKind.SUFFIX, {"x", "y"}) is Judgement.NONE


@given(st.permutations(TEXTS), st.integers(0, len(TEXTS)))
@settings(max_examples=40, deadline=None)
def test_the_partition_is_the_same_for_any_order_of_arrival(order, doubled) -> None:
    assert groups([*order, *order[:doubled]]) == groups(TEXTS)


def test_the_groups_are_the_same_for_any_seed_of_hashes() -> None:
    code = (
        "import json, sys; from dlqadmin.clusters.grouping import group_texts; "
        "print(json.dumps(group_texts(json.load(sys.stdin))))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(TEXTS),
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert found == {json.dumps(group_texts(TEXTS)) + "\n"}


def test_four_processes_find_the_fingerprints_that_one_finds() -> None:
    with ProcessPoolExecutor(4) as pool:
        assert list(pool.map(fingerprint, TEXTS)) == list(map(fingerprint, TEXTS))


@given(st.text(max_size=300))
def test_any_template_has_keys_that_can_be_stored(text) -> None:
    for key in keys_of(fingerprint(text).template):
        assert len(key.digest) == 32
        assert len(key.fill) <= 100
        assert "\x00" not in key.fill
