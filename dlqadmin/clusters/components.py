"""Which leaves are one group: joins, and the word of people over them. Pure; independent of any order of its input."""

from collections.abc import Iterable, Mapping, Sequence

Pair = tuple[str, str]


def partition(
    joins: Mapping[str, Iterable[str]], same: Iterable[Pair] = (), different: Iterable[Pair] = ()
) -> dict[str, str]:
    """name -> the smallest name of its group, for every name that is mentioned.

    `joins`: for each sure key the names that share it. `same` and `different`: pairs, as people said. A pair that is
    said to be different stays apart, whatever joins it; of the joins those with the smaller keys come first.
    """
    groups = _Groups(different)
    for one, other in sorted(map(_ordered, same)):
        groups.join(one, other)
    for _, names in sorted((key, sorted(set(names))) for key, names in joins.items()):
        for at in range(1, len(names)):
            # The first that it may be with: a name that is told apart from one member may still join the others.
            next((True for before in names[:at] if groups.join(before, names[at])), False)
        groups.add(names)
    return groups.smallest()


def _ordered(pair: Pair) -> Pair:
    return (min(pair), max(pair))


class _Groups:
    """Disjoint sets with pairs that must not meet."""

    def __init__(self, different: Iterable[Pair]) -> None:
        self._members: dict[str, set[str]] = {}
        self._apart: dict[str, set[str]] = {}
        for one, other in different:
            self._apart.setdefault(one, set()).add(other)
            self._apart.setdefault(other, set()).add(one)
        self.add(self._apart)

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            self._members.setdefault(name, {name})

    def join(self, one: str, other: str) -> bool:
        """Put the groups of both together; False if somebody said that they are different."""
        self.add((one, other))
        mine, theirs = self._members[one], self._members[other]
        if mine is theirs:
            return True
        small, large = sorted((mine, theirs), key=len)
        if any(not large.isdisjoint(self._apart.get(name, ())) for name in small):
            return False
        large |= small
        for name in small:
            self._members[name] = large
        return True

    def smallest(self) -> dict[str, str]:
        least = {id(group): min(group) for group in self._members.values()}
        return {name: least[id(group)] for name, group in self._members.items()}


def root_of(group: Sequence[str], worked_on: Mapping[str, object]) -> str:
    """The leaf that stands for its group: what people worked on last, else the smallest name."""
    touched = [name for name in group if worked_on.get(name) is not None]
    return max(touched, key=lambda name: (worked_on[name], name)) if touched else min(group)
