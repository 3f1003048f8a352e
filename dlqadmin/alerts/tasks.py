"""The singleton jobs of the alerts."""

from dlqadmin.alerts.evaluate import evaluate
from dlqadmin.alerts.notify import deliver_due
from dlqadmin.leases.jobs import job

job(
    "alerts.evaluate",
    every=2,
    limit=15,
    when="EXISTS (SELECT FROM dlqadmin_deadletter WHERE state = 'open') "
    "OR EXISTS (SELECT FROM dlqadmin_alert WHERE closed_at IS NULL)",
)(evaluate)
# On its own, because a mail server may be slow: rules and sweeps do not wait for it.
job(
    "alerts.deliver",
    every=2,
    limit=120,
    when="EXISTS (SELECT FROM dlqadmin_notification WHERE state = 'pending' AND next_try_at <= clock_timestamp())",
)(deliver_due)
