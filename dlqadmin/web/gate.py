"""The gate as pages show it."""

from typing import Any

from dlqadmin.redrive.gate import GateFacts, judge, unmet_of


def gate_of(facts: GateFacts) -> dict[str, Any]:
    """What `parts/gate_conditions.html` is shown with: the conditions, those unmet, and whether it is open."""
    conditions = judge(facts)
    unmet = unmet_of(conditions)
    return {"conditions": conditions, "unmet": unmet, "gate_open": not unmet}
