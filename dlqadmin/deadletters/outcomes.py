"""What became of a letter that was sent back to work. Settlement calls this; redrives read it."""

from dlqadmin.clock import ClockTimestamp
from dlqadmin.deadletters.models import DeadLetter


def mark_succeeded(letter_id: int) -> bool:
    """The letter's message was processed: resolved. False if the letter was not being redriven."""
    return _settle(letter_id, DeadLetter.State.RESOLVED, DeadLetter.Resolution.SUCCEEDED)


def mark_returned(letter_id: int) -> bool:
    """The letter's message died again and has a new letter. False if the letter was not being redriven."""
    return _settle(letter_id, DeadLetter.State.RETURNED, "")


def _settle(letter_id: int, state: DeadLetter.State, resolution: str) -> bool:
    changed = DeadLetter.objects.filter(pk=letter_id, state=DeadLetter.State.REDRIVING).update(
        state=state, resolution=resolution, state_changed_at=ClockTimestamp()
    )
    return changed == 1
