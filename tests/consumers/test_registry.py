"""Declaring handlers."""

import threading

import pytest

from dlqadmin.consumers.registry import consumer, declared, find_handler, longest_timeout
from dlqadmin.consumers.timeout import time_limit


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


def test_a_claim_must_outlast_the_slowest_handler_of_its_queue() -> None:
    with (
        declared("q", type="slow", function=one, timeout=90),
        declared("q", type="quick", function=two, timeout=1),
    ):
        assert longest_timeout("q", 30) == 90
    assert longest_timeout("q", 30) == 30


def test_consumers_outside_the_main_thread_are_refused_in_words() -> None:
    said: list[str] = []

    def run() -> None:
        try:
            with time_limit(1):
                pass
        except RuntimeError as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "prefork" in said[0]
