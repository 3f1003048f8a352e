"""What a redrive does next follows from its figures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlqadmin.redrive.pace import Act, Decision, Figures, Why, allowed, decide, refutes

START = Figures(
    pending_canary=1,
    canary_open=1,
    canary_died=0,
    pending=100,
    on_its_way=0,
    settled=0,
    died=0,
    sent_of_rest=0,
    released=None,
    silent=0.0,
    canary_fails=False,
    window=10,
    rate=None,
    stop_percent=5.0,
)
CANARY_SENT = replace(START, pending_canary=0, pending=99, on_its_way=1)
CANARY_DONE = replace(CANARY_SENT, canary_open=0, on_its_way=0, settled=1)
RELEASED = replace(CANARY_DONE, released=1.0)


@pytest.mark.parametrize(
    ("figures", "decision"),
    [
        (START, Decision(Act.SEND, 1)),
        (CANARY_SENT, Decision(Act.WAIT)),
        (replace(CANARY_SENT, canary_fails=True), Decision(Act.HOLD, why=Why.CANARY_FAILS)),
        (replace(CANARY_SENT, silent=300.0), Decision(Act.STALL)),
        (replace(CANARY_DONE, canary_died=1, died=1), Decision(Act.STOP, why=Why.CANARY_DIED)),
        (CANARY_DONE, Decision(Act.RELEASE)),
        (RELEASED, Decision(Act.SEND, 10)),
        (replace(RELEASED, on_its_way=10), Decision(Act.WAIT)),
        (replace(RELEASED, on_its_way=10, silent=400.0), Decision(Act.STALL)),
        (replace(RELEASED, window=None), Decision(Act.SEND, 99)),
        (replace(RELEASED, rate=2.0), Decision(Act.SEND, 3)),
        (replace(RELEASED, rate=2.0, sent_of_rest=3), Decision(Act.WAIT)),
        (replace(RELEASED, settled=20, died=1), Decision(Act.SEND, 10)),
        (replace(RELEASED, settled=20, died=2), Decision(Act.STOP, why=Why.SHARE_DIED)),
        (replace(RELEASED, settled=19, died=19), Decision(Act.SEND, 10)),
        (replace(RELEASED, pending=0, on_its_way=0, settled=100), Decision(Act.FINISH)),
        (replace(RELEASED, pending=0, on_its_way=3), Decision(Act.WAIT)),
    ],
)
def test_each_situation_has_one_next_step(figures, decision) -> None:
    assert decide(figures) == decision


def test_a_few_that_died_again_refute_by_their_share_at_the_end() -> None:
    assert refutes(1, 2, 5.0)
    assert not refutes(5, 100, 5.0)
    assert refutes(6, 100, 5.0)
    assert not refutes(0, 1, 0.0)


@given(
    st.integers(0, 50),
    st.integers(0, 50),
    st.one_of(st.none(), st.integers(0, 20)),
    st.one_of(st.none(), st.floats(0.1, 100)),
    st.floats(0, 1000),
)
def test_the_window_and_the_rate_are_never_exceeded(pending, on_its_way, window, rate, released) -> None:
    figures = replace(
        RELEASED, pending=pending, on_its_way=on_its_way, window=window, rate=rate, released=released
    )
    most = allowed(figures)
    assert 0 <= most <= pending
    assert window is None or most == 0 or on_its_way + most <= window
    assert rate is None or most == 0 or most <= 1 + rate * released
