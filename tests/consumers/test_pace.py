"""How many messages a batch takes."""

from itertools import product

import pytest

from dlqadmin.consumers.pace import BATCH_SECONDS, BATCH_SIZE, Pace

SIZES = [1, 2, 7, 64, 99, 100]


def test_a_queue_begins_with_one_message_and_doubles_while_that_is_quick() -> None:
    pace, sizes = Pace(), []
    for _ in range(9):
        sizes.append(pace.size)
        pace.ran(pace.size, 0.001)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 100, 100]


def test_a_size_is_always_between_one_and_the_most() -> None:
    for size, share, seconds in product(SIZES, range(11), [0.0, 0.04, 0.05, 0.1, 60]):
        pace = Pace(size)
        pace.ran(size * share // 10, seconds)
        assert 1 <= pace.size <= BATCH_SIZE


@pytest.mark.parametrize("size", SIZES)
def test_after_a_batch_that_its_time_did_not_suffice_for_come_as_many_as_it_sufficed_for(size) -> None:
    for ran in range(size):
        pace = Pace(size)
        pace.ran(ran, BATCH_SECONDS)
        assert pace.size == max(1, ran)


@pytest.mark.parametrize("size", SIZES)
def test_a_batch_that_just_fits_stays_as_it_is(size) -> None:
    pace = Pace(size)
    pace.ran(size, BATCH_SECONDS / 2)
    pace.ran(size, BATCH_SECONDS * 2)
    assert pace.size == size


@pytest.mark.parametrize("size", SIZES[1:])
def test_a_batch_that_was_not_full_says_nothing_if_it_was_quick(size) -> None:
    pace = Pace(size)
    pace.ran(size - 1, 0.0)
    assert pace.size == size


def cautious_batches(pace: Pace) -> int:
    """How many batches go with savepoints until one may go without."""
    number = 0
    while not pace.may_be_optimistic():
        number += 1
    return number


def test_after_a_failure_batches_have_savepoints_for_a_while_and_longer_after_each_further_one() -> None:
    pace, waits = Pace(), []
    for _ in range(9):
        pace.optimism_failed()
        waits.append(cautious_batches(pace))
    assert waits == [4, 8, 16, 32, 64, 128, 256, 256, 256]


def test_a_batch_without_failure_restores_confidence() -> None:
    pace = Pace()
    for _ in range(3):
        pace.optimism_failed()
        cautious_batches(pace)
    pace.optimism_held()
    pace.optimism_failed()
    assert cautious_batches(pace) == 4
