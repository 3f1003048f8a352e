"""What a measurement says: figures, targets, and whether they hold. Pure."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

Op = Literal[">=", "<="]
_COMPARE = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity. `unit`: "messages/s", "ratio", "ms" … `rounds`: its value in each round, at least one."""

    name: str
    what: str
    unit: str
    rounds: Sequence[float]

    @property
    def value(self) -> float:
        """The median over the rounds."""
        return median(self.rounds)

    def as_json(self) -> dict[str, Any]:
        """Median and spread, rounded to what can be read off."""
        digits = 1 if self.unit.endswith("/s") else 3
        return {
            "what": self.what,
            "unit": self.unit,
            "value": round(self.value, digits),
            "min": round(min(self.rounds), digits),
            "max": round(max(self.rounds), digits),
            "rounds": [round(value, digits) for value in self.rounds],
        }


def ratio(over: Figure, under: Figure) -> Figure:
    """`over` as a multiple of `under`, divided round by round, so that what slows a whole round down cancels out."""
    values = [one / other for one, other in zip(over.rounds, under.rounds, strict=True)]
    return Figure(f"{over.name} / {under.name}", f"{over.what} / {under.what}", "ratio", values)


@dataclass(frozen=True, slots=True)
class Target:
    """A bound for the median of a figure."""

    figure: Figure
    op: Op
    bound: float

    @property
    def holds(self) -> bool:
        """Whether the median, unrounded, keeps to the bound."""
        return bool(_COMPARE[self.op](self.figure.value, self.bound))

    def as_json(self) -> dict[str, Any]:
        """The form that `manage.py bench` publishes."""
        return {
            "name": self.figure.name,
            "value": round(self.figure.value, 3),
            "op": self.op,
            "bound": self.bound,
            "holds": self.holds,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a measurement. `machine`: what it ran on, by name."""

    name: str
    machine: dict[str, Any]
    figures: list[Figure]
    targets: list[Target] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether every target does."""
        return all(target.holds for target in self.targets)

    def as_json(self) -> dict[str, Any]:
        """One object: name, machine, figures by name, targets."""
        return {
            "name": self.name,
            "machine": self.machine,
            "figures": {figure.name: figure.as_json() for figure in self.figures},
            "targets": [target.as_json() for target in self.targets],
        }

    def lines(self) -> list[str]:
        """The same as a table to be read."""
        machine = [f"{name}: {value}" for name, value in self.machine.items()]
        head = f"{'':12}{'median':>10}{'min':>10}{'max':>10}"
        return [*machine, "", head, *map(_row, self.figures), "", *map(_verdict, self.targets)]


def _row(figure: Figure) -> str:
    form = ",.0f" if figure.unit.endswith("/s") else ",.2f"
    values = "".join(f"{value:>10{form}}" for value in (figure.value, min(figure.rounds), max(figure.rounds)))
    unit = "" if figure.unit == "ratio" else f" ({figure.unit})"
    return f"{figure.name:12}{values}  {figure.what}{unit}"


def _verdict(target: Target) -> str:
    said = "holds" if target.holds else "DOES NOT HOLD"
    return f"{target.figure.name:12}{target.figure.value:>10,.2f} {target.op} {target.bound:g}: {said}"
