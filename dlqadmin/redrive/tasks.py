"""The singleton job of the redrives."""

from dlqadmin.leases.jobs import job
from dlqadmin.redrive.run import advance_redrives

# By the partial indexes on what is under way: also what was ended with letters still on their way.
job(
    "redrive.advance",
    every=2,
    limit=30,
    when="EXISTS (SELECT FROM dlqadmin_redrive WHERE state IN ('running', 'stalled', 'held')) "
    "OR EXISTS (SELECT FROM dlqadmin_redriveitem WHERE outcome = 'sent')",
)(advance_redrives)
