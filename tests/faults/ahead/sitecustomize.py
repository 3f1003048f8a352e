"""Python loads this at its start when the folder is in PYTHONPATH: the machine's clock is then an hour ahead.

The steady clock stays, as on a machine whose wall clock is wrong.
"""

import datetime
import time
from typing import Any

AHEAD = 3600

_datetime = datetime.datetime
_time, _time_ns = time.time, time.time_ns


class _Kind(type):
    """What the C code makes is an instance too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _datetime)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _datetime)


class _Ahead(_datetime, metaclass=_Kind):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return _datetime.now(tz) + datetime.timedelta(seconds=AHEAD)

    @classmethod
    def utcnow(cls) -> Any:
        return _datetime.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(seconds=AHEAD)

    @classmethod
    def today(cls) -> Any:
        return cls.now()


_Ahead.__module__, _Ahead.__name__, _Ahead.__qualname__ = "datetime", "datetime", "datetime"
datetime.datetime = _Ahead  # type: ignore[misc]
time.time = lambda: _time() + AHEAD
time.time_ns = lambda: _time_ns() + AHEAD * 10**9
