"""Letters and leaves of errors that are only told."""

from collections.abc import Sequence

from dlqadmin.clusters.assign import Told, assign_all
from dlqadmin.clusters.counts import post
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.queues.models import SourceQueue

FRUITS = ("apple", "pear", "plum", "cherry", "quince", "medlar", "peach", "grape", "fig", "lemon")


def baskets(number: int) -> list[str]:
    """So many texts that differ in one word."""
    return [f"the {fruit} basket of the loan is empty" for fruit in FRUITS[:number]]


def leaves_of(queue: SourceQueue, texts: Sequence[str]) -> list[int]:
    """The leaves of these texts, in their order."""
    return assign_all(queue_id=queue.pk, errors=[Told("", text) for text in texts])


def groups(queue: SourceQueue) -> set[frozenset[str]]:
    """The templates of the queue's clusters, group by group."""
    found: dict[int, set[str]] = {}
    for leaf in ErrorCluster.objects.filter(queue=queue):
        found.setdefault(leaf.root_id, set()).add(leaf.template)
    return {frozenset(group) for group in found.values()}


def letters_of(queue: SourceQueue, texts: Sequence[str]) -> list[DeadLetter]:
    """Open letters with these error texts, as capture makes them; a leaf for each."""
    made = []
    for number, (text, leaf) in enumerate(zip(texts, leaves_of(queue, texts), strict=True)):
        letter = DeadLetter.objects.create(
            queue=queue,
            cluster_id=leaf,
            message_id=f"m-{number}",
            type="note",
            lineage=f"00000000-0000-0000-0000-{number:012d}",
            generation=1,
            position=number,
            reason=DeadLetter.Reason.THRESHOLD,
            error_text=text,
        )
        post(leaf, opened=1, total=1)
        made.append(letter)
    return made
