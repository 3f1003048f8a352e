"""What a redrive does next: a pure function of its rows' figures. `redrive.run` reads them and obeys.

The canary goes first, and the rest only when every one of it has succeeded. Of the rest so many letters are on their
way as the window allows, no faster than the rate. Letters that die again stop it; silence is said to be a stall.
"""

from dataclasses import dataclass
from enum import StrEnum

LEAST_OUTCOMES = 20  # of the rest, before the share that died again says anything
STALL_SECONDS = 300.0


class Act(StrEnum):
    """What to do."""

    SEND = "send"
    RELEASE = "release"  # ask the gate again; if it is open, the rest may go
    WAIT = "wait"
    HOLD = "hold"
    STALL = "stall"
    STOP = "stop"
    FINISH = "finish"


class Why(StrEnum):
    """Why a redrive is held or stopped."""

    CANARY_FAILS = "canary fails"
    CANARY_DIED = "canary died"
    SHARE_DIED = "share died"


@dataclass(frozen=True, slots=True)
class Figures:
    """The items of a redrive that is under way, counted, and its bounds.

    `canary_open`: of the canary, pending or sent. `released`: seconds since the rest may go, None: not yet.
    `on_its_way`: sent, without outcome. `silent`: seconds since something was sent or had an outcome. `canary_fails`:
    a letter of the canary failed its first attempt with the error that it died of.
    """

    pending_canary: int
    canary_open: int
    canary_died: int
    pending: int
    on_its_way: int
    settled: int
    died: int
    sent_of_rest: int
    released: float | None
    silent: float
    canary_fails: bool
    window: int | None
    rate: float | None
    stop_percent: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do; `most`: how many letters may be sent now; `why`: of a hold or a stop."""

    act: Act
    most: int = 0
    why: Why | None = None


def decide(figures: Figures) -> Decision:
    """What this redrive does next."""
    if figures.canary_died:
        return Decision(Act.STOP, why=Why.CANARY_DIED)
    if figures.settled >= LEAST_OUTCOMES and _died_too_often(figures):
        return Decision(Act.STOP, why=Why.SHARE_DIED)
    if not figures.pending and not figures.on_its_way:
        return Decision(Act.FINISH)
    if figures.canary_fails and figures.canary_open:
        return Decision(Act.HOLD, why=Why.CANARY_FAILS)
    if figures.pending_canary:
        return Decision(Act.SEND, figures.pending_canary)
    if figures.released is None and not figures.canary_open:
        return Decision(Act.RELEASE)
    most = allowed(figures)
    if most:
        return Decision(Act.SEND, most)
    if figures.on_its_way and figures.silent >= STALL_SECONDS:
        return Decision(Act.STALL)
    return Decision(Act.WAIT)


def refutes(died: int, settled: int, stop_percent: float) -> bool:
    """Whether what died again says that the fix did not hold, once all letters have an outcome."""
    return died > 0 and 100 * died / settled > stop_percent


def allowed(figures: Figures) -> int:
    """How many letters of the rest may be sent now."""
    if figures.released is None:
        return 0
    bounds = [figures.pending]
    if figures.window is not None:
        bounds.append(figures.window - figures.on_its_way)
    if figures.rate is not None:
        # The first goes at once.
        bounds.append(1 + int(figures.rate * figures.released) - figures.sent_of_rest)
    return max(0, min(bounds))


def _died_too_often(figures: Figures) -> bool:
    return refutes(figures.died, figures.settled, figures.stop_percent)
