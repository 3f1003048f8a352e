"""What became of letters that were sent back to work. Settlement calls this; redrives read it."""

from collections.abc import Sequence

from dlqadmin.clock import ClockTimestamp
from dlqadmin.deadletters.models import DeadLetter


def mark_resolved(letters: Sequence[int], resolution: DeadLetter.Resolution) -> int:
    """Their messages ended: processed, or discarded as duplicate or stale; how many were being redriven."""
    return _settle(letters, DeadLetter.State.RESOLVED, resolution)


def mark_returned(letters: Sequence[int]) -> int:
    """Their messages died again and have new letters; how many were being redriven."""
    return _settle(letters, DeadLetter.State.RETURNED, "")


def _settle(letters: Sequence[int], state: DeadLetter.State, resolution: str) -> int:
    redriving = DeadLetter.objects.filter(pk__in=letters, state=DeadLetter.State.REDRIVING)
    now = ClockTimestamp()
    return redriving.update(state=state, resolution=resolution, state_changed_at=now, outcome_at=now)
