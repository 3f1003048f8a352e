"""The gate as pages show it."""

from collections.abc import Sequence
from typing import Any

from dlqadmin.redrive.gate import Condition, GateFacts, judge, unmet_of


def gate_of(facts: GateFacts) -> dict[str, Any]:
    """What `parts/gate_conditions.html` is shown with, by the facts about one cluster."""
    return shown_gate(judge(facts))


def shown_gate(conditions: Sequence[Condition]) -> dict[str, Any]:
    """What `parts/gate_conditions.html` is shown with: the conditions, those unmet, and whether it is open."""
    unmet = unmet_of(conditions)
    return {"conditions": conditions, "unmet": unmet, "gate_open": not unmet}
