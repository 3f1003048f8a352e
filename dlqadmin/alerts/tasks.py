"""The singleton jobs of the alerts."""

from dlqadmin.alerts.evaluate import evaluate
from dlqadmin.alerts.notify import deliver_due
from dlqadmin.leases.jobs import job

job("alerts.evaluate", every=2, limit=15)(evaluate)
# On its own, because a mail server may be slow: rules and sweeps do not wait for it.
job("alerts.deliver", every=2, limit=120)(deliver_due)
