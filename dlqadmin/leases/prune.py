"""Rows about singleton jobs that nobody needs any more."""

from django.db import connection

from dlqadmin.leases.run import guarded

# The newest trigger of a job stays, however old: it says where to go on.
_TRIGGERS = """
DELETE FROM dlqadmin_trigger AS trigger WHERE state IN ('done', 'failed', 'skipped')
    AND due_at < clock_timestamp() - interval '2 days'
    AND due_at < (SELECT max(due_at) FROM dlqadmin_trigger WHERE job = trigger.job)
"""
_OLD = (
    _TRIGGERS,
    "DELETE FROM dlqadmin_fencedwrite WHERE at < clock_timestamp() - interval '90 days'",
    "DELETE FROM dlqadmin_heartbeat WHERE seen_at < clock_timestamp() - interval '1 day'",
)


@guarded()
def prune() -> None:
    """Remove ended triggers after 2 days, fenced writes after 90, and processes that were not heard of for a day."""
    with connection.cursor() as cursor:
        for statement in _OLD:
            cursor.execute(statement)
