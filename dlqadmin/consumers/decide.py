"""What becomes of a message whose attempt failed. Pure: a decision, no I/O."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dlqadmin.consumers.run import Failure
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.backoff import delay


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When attempts end and how long the waits between them are (seconds); see SourceQueue.

    `permanent`, `transient`: names of exception classes, with or without their module.
    """

    max_attempts: int
    base: float
    factor: float
    cap: float
    jitter: bool
    permanent: Collection[str] = ()
    transient: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Die:
    """The message becomes a dead letter."""

    reason: DeadLetter.Reason


@dataclass(frozen=True, slots=True)
class Retry:
    """The message waits `seconds` and runs again."""

    seconds: float


def decide(failure: Failure, attempts: int, policy: RetryPolicy) -> Die | Retry:
    """Die at once if the failure or its class says so, or when `attempts` (this one included) reaches the threshold."""
    if failure.at_once:
        return Die(failure.reason)
    if is_permanent(failure.classes, policy.permanent, policy.transient):
        return Die(DeadLetter.Reason.PERMANENT)
    if 0 < policy.max_attempts <= attempts:
        return Die(failure.reason)
    if failure.retry_after is not None:
        return Retry(failure.retry_after)
    return Retry(
        delay(attempts, base=policy.base, factor=policy.factor, cap=policy.cap, jitter=policy.jitter),
    )


def is_permanent(classes: Sequence[str], permanent: Collection[str], transient: Collection[str]) -> bool:
    """Whether the nearest of an exception's classes that is named in either list is named as permanent.

    `classes`: "module.Name" of the class and its bases, nearest first; the lists may leave the module out. Named
    nowhere: not permanent. Named in both: transient, because a retry can be undone and a death not.
    """
    for name in classes:
        names = {name, name.rpartition(".")[2]}
        if not names.isdisjoint(transient):
            return False
        if not names.isdisjoint(permanent):
            return True
    return False
