"""A value is telling if it is clearly more frequent here than elsewhere, and not by chance."""

import pytest

from dlqadmin.clusters.overrepresented import g2, shared_values


def letters(number: int, **fields: str) -> list[list[tuple[str, str]]]:
    return [list(fields.items()) for _ in range(number)]


def test_what_only_letters_here_have_is_told_first() -> None:
    here = letters(90, country="TR", kind="late") + letters(10, country="DE", kind="late")
    elsewhere = letters(22, country="TR", kind="late") + letters(78, country="DE", kind="late")
    first, second = shared_values(here, elsewhere)
    assert (first.field, first.value, first.telling, first.others) == ("country", "TR", True, 1)
    assert first.lift == pytest.approx(90 / 22)
    assert (second.field, second.telling) == ("kind", False)


def test_a_value_as_frequent_as_elsewhere_is_not_telling_but_shown_when_common() -> None:
    (only,) = shared_values(letters(50, kind="late"), letters(50, kind="late"))
    assert not only.telling
    assert (only.share, only.usual) == (1.0, 1.0)


def test_what_few_letters_share_is_chance() -> None:
    assert not [one for one in shared_values(letters(2, a="x"), letters(9, a="y")) if one.telling]
    here = [[("id", str(n))] for n in range(100)]
    assert shared_values(here, letters(100, id="z")) == []


def test_without_other_causes_nothing_is_telling() -> None:
    (only,) = shared_values(letters(50, kind="late"), [])
    assert not only.telling
    assert only.usual is None
    assert shared_values([], letters(5, a="x")) == []


def test_a_value_counts_once_for_a_letter() -> None:
    (only,) = shared_values([[("sku", "A"), ("sku", "A")]] * 5, [])
    assert only.here == 5


def test_the_ratio_is_zero_for_equal_shares_and_grows_with_their_difference() -> None:
    assert g2(10, 100, 20, 200) == pytest.approx(0, abs=1e-9)
    assert g2(50, 100, 20, 200) > g2(30, 100, 20, 200) > 0
