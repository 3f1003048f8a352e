"""When a job is due. Pure."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import Protocol

from cronsim import CronSim


@dataclass(frozen=True, slots=True)
class Due:
    """The due moments of a time span: the last ones, and how many (and from when) there were before those."""

    moments: list[datetime]
    earlier: int = 0
    earlier_from: datetime | None = None
    earlier_to: datetime | None = None


class Schedule(Protocol):
    """When a job is due."""

    def due(self, after: datetime, until: datetime, most: int) -> Due:
        """The last `most` due moments in (after, until], oldest first, and what lies before them."""
        ...

    def following(self, after: datetime) -> datetime:
        """The first due moment after `after`."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """Every so many seconds, counted from 1970: all nodes agree on the moments."""

    seconds: float

    def __str__(self) -> str:
        return f"every {self.seconds:g} s"

    def due(self, after: datetime, until: datetime, most: int) -> Due:
        """See Schedule."""
        first = math.floor(after.timestamp() / self.seconds) + 1
        last = math.floor(until.timestamp() / self.seconds)
        start = max(first, last - most + 1)
        moments = [self._moment(number) for number in range(start, last + 1)]
        if start <= first:
            return Due(moments)
        return Due(moments, start - first, self._moment(first), self._moment(start - 1))

    def following(self, after: datetime) -> datetime:
        """See Schedule."""
        return self._moment(math.floor(after.timestamp() / self.seconds) + 1)

    def _moment(self, number: int) -> datetime:
        return datetime.fromtimestamp(number * self.seconds, UTC)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression, in UTC."""

    expression: str

    def __post_init__(self) -> None:
        CronSim(self.expression, datetime(2000, 1, 1, tzinfo=UTC))  # says at import what is wrong with it

    def __str__(self) -> str:
        return f"cron {self.expression}"

    def due(self, after: datetime, until: datetime, most: int) -> Due:
        """See Schedule."""
        last: deque[datetime] = deque(maxlen=most)
        earlier, first, dropped = 0, None, None
        for moment in takewhile(lambda moment: moment <= until, self._after(after)):
            if len(last) == most:
                earlier, dropped = earlier + 1, last[0]
                first = first or dropped
            last.append(moment)
        return Due(list(last), earlier, first, dropped)

    def following(self, after: datetime) -> datetime:
        """See Schedule."""
        return next(self._after(after))

    def _after(self, after: datetime) -> Iterator[datetime]:
        return CronSim(self.expression, after.astimezone(UTC))
