"""The error of one attempt, in the form in which rows keep it."""

import traceback as tb
from dataclasses import dataclass

from dlqadmin.text import TRACEBACK_LIMIT, display_safe, raw_bytes, storable

MOST_FRAMES = 40  # the innermost; a recursion has thousands


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """`text` is the copy for people (cut and made visible), `raw` the whole text as bytes."""

    error_class: str
    text: str
    raw: bytes
    traceback: str = ""

    @classmethod
    def of_text(cls, text: str, error_class: str = "") -> "ErrorRecord":
        """An error that was no exception: the runtime's own finding."""
        return cls(storable(error_class)[:255], display_safe(text), raw_bytes(text))

    @classmethod
    def of_exception(cls, error: BaseException) -> "ErrorRecord":
        """The record of a raised exception, whatever its `__str__` does."""
        try:
            text = str(error)
        except BaseException as second:  # noqa: BLE001 - its text is asked of code that we do not know
            text = f"(its text could not be made: {type(second).__name__})"
        try:
            lines = "".join(_told(error).format())
        except BaseException:  # noqa: BLE001 - the same
            lines = ""
        return cls(
            storable(type(error).__qualname__)[:255],
            display_safe(text),
            raw_bytes(text),
            _cut(lines, TRACEBACK_LIMIT),
        )


def _told(error: BaseException) -> tb.TracebackException:
    """The traceback without the marks under the line's part that failed: finding them means to parse each line again,
    which takes as long as all the rest of a failed attempt."""
    told = tb.TracebackException(type(error), error, error.__traceback__, limit=-MOST_FRAMES)
    chain: list[tb.TracebackException | None] = [told]
    while chain:
        if one := chain.pop():
            for frame in one.stack:
                frame.colno = frame.end_colno = None
            chain += [one.__cause__, one.__context__, *(one.exceptions or [])]
    return told


def _cut(text: str, limit: int) -> str:
    """The end of a traceback says most, so a long one loses its middle."""
    if len(text) > limit:
        text = f"{text[: limit // 2]}\n…\n{text[-limit // 2 :]}"
    return display_safe(text, limit=2 * limit)
