"""How many messages a batch of a queue takes, and whether it may do without savepoints. Pure; kept per process.

A batch is to be committed after BATCH_SECONDS. A queue begins with one message at a time and doubles while that is
quick, so slow handlers never hold messages that another worker could run.
"""

from dataclasses import dataclass

BATCH_SIZE = 100
BATCH_SECONDS = 0.1

# After a failure in a batch without savepoints, so many batches have them; each further failure doubles the number.
_CAUTION = 4
_MOST_CAUTION = 256


@dataclass(slots=True)
class Pace:
    """What this process has learned about the handlers of a queue. `size`: messages in the next batch."""

    size: int = 1
    _cautious: int = 0
    _caution: int = _CAUTION

    def ran(self, messages: int, seconds: float) -> None:
        """A batch took so long; `messages`: how many of it were run before its time was over."""
        if messages < self.size and seconds >= BATCH_SECONDS:
            self.size = max(1, messages)
        elif messages >= self.size and seconds < BATCH_SECONDS / 2:
            self.size = min(BATCH_SIZE, self.size * 2)

    def may_be_optimistic(self) -> bool:
        """Whether the next batch of repeatable handlers goes without savepoints; asked once for each batch."""
        if self._cautious:
            self._cautious -= 1
            return False
        return True

    def optimism_held(self) -> None:
        """No message failed in a batch without savepoints."""
        self._caution = _CAUTION

    def optimism_failed(self) -> None:
        """A message failed, and the batch had to be run again."""
        self._cautious = self._caution
        self._caution = min(self._caution * 2, _MOST_CAUTION)


_paces: dict[int, Pace] = {}


def pace_of(queue_id: int) -> Pace:
    """The pace of a queue in this process."""
    return _paces.setdefault(queue_id, Pace())
