"""The singleton job of the alerts."""

from dlqadmin.alerts.evaluate import evaluate
from dlqadmin.alerts.notify import deliver_due
from dlqadmin.leases.jobs import job


@job("alerts.sweep", every=2)
def sweep() -> None:
    """Evaluate the rules, then send what is due."""
    evaluate()
    deliver_due()
