"""Which values stand at the masked places of a leaf's template, from its newest letters."""

from collections import Counter
from dataclasses import dataclass

from dlqadmin.clusters.fingerprint import fingerprint
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.ends import newest_ids
from dlqadmin.deadletters.models import DeadLetter

READ = 200  # letters
MOST_VALUES = 5
MOST_PLACES = 8
LONGEST = 80  # characters of a value that can be split by


@dataclass(frozen=True, slots=True)
class Place:
    """A masked place: its kind, how many different values were seen in `read` letters, and the most frequent."""

    position: int
    kind: str
    different: int
    read: int
    top: list[tuple[str, int]]

    @property
    def varies(self) -> bool:
        """Whether letters can be told apart by it: several values, and not a new one for each letter."""
        return 1 < self.different < max(self.read, 3)


def places_of(leaf: ErrorCluster) -> list[Place]:
    """The masked places of `leaf` in their order."""
    letters = DeadLetter.objects.filter(pk__in=newest_ids([leaf.pk], READ)).order_by("-pk")
    told = letters.values_list("error_text", "error_class", "traceback")
    seen: list[Counter[str]] = []
    kinds: list[str] = []
    for text, error_class, traceback in told:
        for position, parameter in enumerate(
            fingerprint(text, error_class, traceback).parameters[:MOST_PLACES]
        ):
            if position == len(seen):
                seen.append(Counter())
                kinds.append(parameter.kind)
            seen[position][parameter.value] += 1
    return [
        Place(position, kinds[position], len(values), sum(values.values()), values.most_common(MOST_VALUES))
        for position, values in enumerate(seen)
    ]
