"""What was changed in a body, as lines for a page. Pure."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from dlqadmin.web.body import HEAD_BYTES, view_body

CONTEXT = 2  # lines around a change
MOST_LINES = 400


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line. `sign`: "+" came in, "-" went out, " " stayed, "…" lines that are not shown."""

    sign: str
    text: str


def diff_bodies(before: bytes, after: bytes) -> list[DiffLine]:
    """The lines that differ, of JSON indented, else of the text or the bytes; of large bodies the first part."""
    return _cut(_compare(_lines(before), _lines(after)))


def _lines(body: bytes) -> list[str]:
    view = view_body(body[:HEAD_BYTES], len(body))
    if view.form == "pretty":
        return ["".join(piece.text for piece in line) for line in view.lines]
    return view.text.splitlines()


def _compare(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=True)
    for number, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if number:
            yield DiffLine("…", "")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (DiffLine(" ", text) for text in before[old_start:old_end])
                continue
            yield from (DiffLine("-", text) for text in before[old_start:old_end])
            yield from (DiffLine("+", text) for text in after[new_start:new_end])


def _cut(lines: Iterator[DiffLine]) -> list[DiffLine]:
    found: list[DiffLine] = []
    for line in lines:
        if len(found) == MOST_LINES:
            return [*found, DiffLine("…", "")]
        found.append(line)
    return found
