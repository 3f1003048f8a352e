"""Printing what was measured beside what was published."""

from collections.abc import Sequence
from dataclasses import dataclass

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Table:
    """One published table: its title, its columns, the rows as published and as measured here."""

    title: str
    columns: Sequence[str]
    published: Sequence[Row]
    measured: Sequence[Row]

    @property
    def differences(self) -> int:
        """How many cells differ; a missing or additional row counts with all its cells."""
        width = len(self.columns)
        extra = abs(len(self.published) - len(self.measured)) * width
        pairs = zip(self.published, self.measured, strict=False)
        return extra + sum(a != b for row, other in pairs for a, b in zip(row, other, strict=True))

    def lines(self) -> list[str]:
        """The table as text; a cell that differs reads "measured (published …)"."""
        cells = [[_cell(*pair) for pair in zip(*rows, strict=True)] for rows in self._pairs()]
        widths = [
            max(len(line[n]) for line in [list(self.columns), *cells]) for n in range(len(self.columns))
        ]
        verdict = "as published" if self.differences == 0 else f"{self.differences} cells differ"
        return [
            f"{self.title}: {verdict}",
            *(
                "  " + "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
                for line in [self.columns, *cells]
            ),
        ]

    def _pairs(self) -> list[tuple[Row, Row]]:
        nothing = ["missing"] * len(self.columns)
        length = max(len(self.published), len(self.measured))
        return [
            (
                self.published[n] if n < len(self.published) else nothing,
                self.measured[n] if n < len(self.measured) else nothing,
            )
            for n in range(length)
        ]


def _cell(published: object, measured: object) -> str:
    return str(measured) if measured == published else f"{measured} (published {published})"
