"""Declaring handlers."""

import threading

import pytest

from dlqadmin.consumers.registry import consumer, declared, find_handler
from dlqadmin.consumers.timeout import deadlines


def one(message) -> None:
    """A handler."""


def two(message) -> None:
    """Another."""


def test_two_handlers_for_one_type_are_refused() -> None:
    with declared("q", type="t", function=one), pytest.raises(ValueError, match="Two handlers"):
        consumer("q", type="t")(two)


def test_the_same_function_may_be_declared_again_as_a_reload_does() -> None:
    with declared("q", type="t", function=one):
        consumer("q", type="t", timeout=5)(one)
        assert find_handler("q", "t").timeout == 5


def test_a_temporary_handler_is_gone_afterwards() -> None:
    with declared("q", type="t", function=one):
        assert find_handler("q", "t")
    assert find_handler("q", "t") is None


def test_only_an_atomic_handler_can_be_repeatable() -> None:
    with pytest.raises(ValueError, match="atomic"):
        consumer("q", type="t", atomic=False, repeatable=True)(one)


def test_consumers_outside_the_main_thread_are_refused_in_words() -> None:
    said: list[str] = []

    def run() -> None:
        try:
            with deadlines(1):
                pass
        except RuntimeError as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "prefork" in said[0]
