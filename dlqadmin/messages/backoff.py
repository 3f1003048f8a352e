"""How long a message waits after a failed attempt. Pure."""

import random
from collections.abc import Callable


def delay(
    attempt: int,
    *,
    base: float,
    factor: float,
    cap: float,
    jitter: bool,
    draw: Callable[[], float] = random.random,
) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 1): `base * factor ** (attempt - 1)`, at most `cap`.

    With `jitter` a uniform share of that (full jitter: it spreads the retries of an outage best). `draw` yields [0, 1).
    """
    # The power is taken in logarithmic steps only as far as it matters: a high attempt must not overflow a float.
    wait = base
    for _ in range(attempt - 1):
        if wait >= cap or factor <= 1 or wait == 0:
            break
        wait *= factor
    wait = min(wait, cap)
    return wait * draw() if jitter else wait
