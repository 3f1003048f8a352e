"""Printing what was measured beside what was published."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Table:
    """One published table: its title, its columns, the rows as published and as measured here.

    `not_compared`: columns that depend on how a system is built, printed beside the published ones without judgement.
    """

    title: str
    columns: Sequence[str]
    published: Sequence[Row]
    measured: Sequence[Row]
    not_compared: Collection[str] = ()

    @property
    def differences(self) -> int:
        """How many cells differ; a missing or additional row counts with all its compared cells."""
        return sum(
            column not in self.not_compared and published != measured
            for row in self._cells()
            for column, published, measured in row
        )

    def lines(self) -> list[str]:
        """The table as text; a cell that differs or is not compared reads "measured (published …)"."""
        cells = [
            [
                str(measured)
                if published == measured and column not in self.not_compared
                else f"{measured} (published {published})"
                for column, published, measured in row
            ]
            for row in self._cells()
        ]
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

    def _cells(self) -> list[list[tuple[str, object, object]]]:
        """Row by row: column, published, measured. A row that one side lacks differs in every cell."""
        missing = ["missing"] * len(self.columns)
        return [
            list(zip(self.columns, published, measured, strict=True))
            for published, measured in zip_longest(self.published, self.measured, fillvalue=missing)
        ]
