"""Measuring the steady rate of something that works through a heap of messages."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.errors import BenchError

EVERY = 0.02  # seconds between two looks
RAMP = 0.1  # the share of the messages that is over before the clock starts
STALL_SECONDS = 30.0
LEAST, MOST = 50, 200_000  # messages of a round

Sample = tuple[float, int]  # a monotonic time, and the messages finished until then


class Variant(Protocol):
    """One way of working through messages. The methods are called in this order, again in each round."""

    name: str
    what: str
    warm_up: int

    def prepare(self, number: int) -> None:
        """Heap up so many messages while nobody of this variant works."""

    def start(self) -> None:
        """Let the workers begin."""

    def finished(self) -> int:
        """How many messages of this round are finished, as committed."""

    def check(self) -> None:
        """BenchError if a worker died."""

    def stop(self) -> None:
        """Nobody works any more; BenchError if messages were lost or doubled."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure: at most so many `rounds`, in which each variant takes about so many `seconds`.

    `warm_up_share`: of the variants' own warm-ups. `budget`: seconds after which no further round begins if it would
    not fit in any more.
    """

    rounds: int
    seconds: float
    warm_up_share: float = 1.0
    budget: float = math.inf

    def allows(self, done: int, elapsed: float, round_seconds: float) -> bool:
        """Whether another round may begin after `done` of them, the longest of which took `round_seconds`."""
        return done < self.rounds and (not done or elapsed + round_seconds <= self.budget)


def run(variant: Variant, number: int) -> float:
    """The steady rate (messages per second) of one variant over `number` messages."""
    variant.prepare(number)
    variant.start()
    samples = _watch(variant, number)
    variant.stop()
    return steady_rate(samples, number)


def steady_rate(samples: Sequence[Sample], number: int) -> float:
    """Messages per second from the first look at which a tenth of `number` was finished to the one that saw all.

    If there is no look between (a warm-up may be that short), from the first look on.
    """
    begin = next(sample for sample in samples if sample[1] >= RAMP * number)
    end = samples[-1]
    if begin is end:
        begin = samples[0]
    return (end[1] - begin[1]) / max(end[0] - begin[0], EVERY)


def size(rate: float, seconds: float) -> int:
    """How many messages keep a variant of this rate busy for about so long, the ramp included."""
    return int(min(max(rate * seconds / (1 - RAMP), LEAST), MOST))


def _watch(variant: Variant, number: int) -> list[Sample]:
    """Look every EVERY seconds until `number` messages are finished."""
    samples: list[Sample] = [(time.monotonic(), 0)]
    moved = time.monotonic()
    while samples[-1][1] < number:
        time.sleep(EVERY)
        variant.check()
        done = variant.finished()
        now = time.monotonic()
        if done > samples[-1][1]:
            moved = now
        elif now - moved > STALL_SECONDS:
            raise BenchError(
                f"{variant.what} ({variant.name}) stands still at {done} of {number} messages for {STALL_SECONDS:g} s: "
                "the lines above are the end of its log. Mend that, then measure again."
            )
        samples.append((now, done))
    return samples
