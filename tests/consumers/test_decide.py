"""What becomes of a message whose attempt failed."""

import pytest

from dlqadmin.consumers.decide import Die, Retry, RetryPolicy, decide
from dlqadmin.consumers.run import Failure
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.failure import ErrorRecord

Reason = DeadLetter.Reason
ERROR = ErrorRecord.of_text("boom")


def policy(max_attempts: int) -> RetryPolicy:
    return RetryPolicy(max_attempts=max_attempts, base=1, factor=2, cap=60, jitter=False)


@pytest.mark.parametrize("threshold", range(1, 9))
@pytest.mark.parametrize("attempt", range(1, 12))
def test_the_failed_attempt_with_the_thresholds_number_is_the_last(threshold, attempt) -> None:
    decision = decide(Failure(Reason.THRESHOLD, ERROR), attempt, policy(threshold))
    assert isinstance(decision, Die) is (attempt >= threshold)


@pytest.mark.parametrize("attempt", [1, 2, 1_000, 1_000_000])
def test_without_a_threshold_a_message_is_retried_for_ever(attempt) -> None:
    assert isinstance(decide(Failure(Reason.THRESHOLD, ERROR), attempt, policy(0)), Retry)


@pytest.mark.parametrize("threshold", [0, 5])
def test_a_permanent_error_dies_at_once_whatever_the_threshold(threshold) -> None:
    failure = Failure(Reason.PERMANENT, ERROR, at_once=True)
    assert decide(failure, 1, policy(threshold)) == Die(Reason.PERMANENT)


def test_a_handler_may_say_when_to_try_again_but_not_beyond_the_threshold() -> None:
    failure = Failure(Reason.THRESHOLD, ERROR, retry_after=17.5)
    assert decide(failure, 1, policy(3)) == Retry(17.5)
    assert decide(failure, 3, policy(3)) == Die(Reason.THRESHOLD)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_letter_names_the_reason_of_its_last_failure(reason) -> None:
    assert decide(Failure(reason, ERROR), 3, policy(3)) == Die(reason)
