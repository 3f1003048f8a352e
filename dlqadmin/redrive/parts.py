"""What a redrive tells of each cluster that it has letters of: whether its gate is still open, whether its fix held."""

from dataclasses import replace

from django.db import connection

from dlqadmin.redrive.diagnose import refute
from dlqadmin.redrive.facts import facts_of
from dlqadmin.redrive.gate import judge, unmet_of
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.pace import refutes

NAMED = 5  # letters that a refutation names

_DIED = """
SELECT part_id, count(*), count(*) FILTER (WHERE outcome = 'died again'), (
    SELECT array_agg(id) FROM (
        SELECT next.id FROM dlqadmin_redriveitem AS again
        JOIN dlqadmin_deadletter AS next ON next.previous_id = again.letter_id
        WHERE again.redrive_id = %(redrive)s AND again.outcome = 'died again' AND again.part_id = item.part_id
        ORDER BY again.id LIMIT %(named)s
    ) AS first
)
FROM dlqadmin_redriveitem AS item
WHERE redrive_id = %(redrive)s AND outcome IN ('succeeded', 'died again', 'discarded') GROUP BY part_id
"""


def closed_gates(redrive: Redrive) -> dict[int, str]:
    """Of the parts that go: those whose gate is closed by now, with the first condition that is not met.

    Nothing is closed to what an admin started against the gate.
    """
    if redrive.override_reason:
        return {}
    parts = list(redrive.parts.filter(left_out="").order_by("id"))
    facts = facts_of([part.cluster_id for part in parts])
    closed = {}
    for part in parts:
        # How many there are was judged at the start: what is being redriven is not open any more.
        if unmet := unmet_of(judge(replace(facts[part.cluster_id], approval_above=None))):
            closed[part.pk] = unmet[0].text
    return closed


def refute_parts(redrive: Redrive) -> None:
    """Mark the diagnoses of those parts as refuted of which too many letters died again."""
    with connection.cursor() as cursor:
        cursor.execute(_DIED, {"redrive": redrive.pk, "named": NAMED})
        found = {part: numbers for part, *numbers in cursor.fetchall()}
    for part in redrive.parts.exclude(diagnosis=None).select_related("diagnosis").order_by("id"):
        settled, died, letters = found.get(part.pk, (0, 0, []))
        if part.diagnosis and refutes(died, settled, redrive.stop_percent):
            refute(part.diagnosis, _why(redrive, died, letters or []))


def _why(redrive: Redrive, died: int, letters: list[int]) -> str:
    named = ", ".join(map(str, letters)) + (", …" if died > len(letters) else "")
    return f"{died} of the letters of redrive {redrive.pk} died again, as letters {named}"
