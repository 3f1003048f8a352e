"""One cause or many: a figure and words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlqadmin.clusters.concentration import concentration_of


@pytest.mark.parametrize(
    ("letters", "top", "words"),
    [
        ([94, 2, 2, 1, 1], 0.94, "one cause"),
        ([1], 1.0, "one cause"),
        ([26, 14, 12, 11, 10, 9, 8, 5, 5], 0.26, "eight causes"),
        ([10] * 9, 1 / 9, "nine causes"),
        ([50, 50], 0.5, "two causes"),
        ([1] * 40, 0.025, "40 causes"),
    ],
)
def test_the_effective_number_of_causes_is_said_in_words(letters, top, words) -> None:
    found = concentration_of(letters)
    assert found.top == pytest.approx(top)
    assert found.in_words == words


def test_without_letters_there_is_nothing_to_say() -> None:
    assert concentration_of([]) is None
    assert concentration_of([0, 0]) is None


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=50))
def test_it_lies_between_one_and_the_number_of_causes(letters) -> None:
    found = concentration_of(letters)
    assert 1 - 1e-9 <= found.causes <= len(letters) + 1e-9
    assert found.causes >= 1 / found.top - 1e-9
