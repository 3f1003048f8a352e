"""The singleton job of the redrives."""

from dlqadmin.leases.jobs import job
from dlqadmin.redrive.run import advance_redrives

job(
    "redrive.advance",
    every=2,
    limit=30,
    when="EXISTS (SELECT FROM dlqadmin_redrive WHERE state = 'running')",
)(advance_redrives)
