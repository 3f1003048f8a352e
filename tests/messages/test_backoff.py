"""How long a message waits after a failed attempt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlqadmin.messages.backoff import delay


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (9, 256), (10, 300), (10_000_000, 300)]
)
def test_waits_double_up_to_the_cap(attempt, seconds) -> None:
    assert delay(attempt, base=1, factor=2, cap=300, jitter=False) == seconds


@given(
    attempt=st.integers(1, 10**6),
    base=st.floats(0, 1e6),
    factor=st.floats(0, 100),
    cap=st.floats(0, 1e6),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_a_jittered_wait_lies_between_nothing_and_the_full_wait(attempt, base, factor, cap, draw) -> None:
    full = delay(attempt, base=base, factor=factor, cap=cap, jitter=False)
    assert (
        0 <= delay(attempt, base=base, factor=factor, cap=cap, jitter=True, draw=lambda: draw) <= full <= cap
    )


def test_without_a_base_there_is_no_wait() -> None:
    assert delay(50, base=0, factor=2, cap=300, jitter=True) == 0
