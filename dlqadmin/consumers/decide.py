"""What becomes of a message whose attempt failed. Pure: a decision, no I/O."""

from dataclasses import dataclass

from dlqadmin.consumers.run import Failure
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.backoff import delay


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When attempts end and how long the waits between them are (seconds); see SourceQueue."""

    max_attempts: int
    base: float
    factor: float
    cap: float
    jitter: bool


@dataclass(frozen=True, slots=True)
class Die:
    """The message becomes a dead letter."""

    reason: DeadLetter.Reason


@dataclass(frozen=True, slots=True)
class Retry:
    """The message waits `seconds` and runs again."""

    seconds: float


def decide(failure: Failure, attempts: int, policy: RetryPolicy) -> Die | Retry:
    """Die at once if the failure says so, or when `attempts` (this one included) reaches the threshold; else retry."""
    if failure.at_once or 0 < policy.max_attempts <= attempts:
        return Die(failure.reason)
    if failure.retry_after is not None:
        return Retry(failure.retry_after)
    return Retry(
        delay(attempts, base=policy.base, factor=policy.factor, cap=policy.cap, jitter=policy.jitter),
    )
