"""Rows about singleton jobs that nobody needs any more."""

from django.db import connection

from dlqadmin.leases.run import guarded

# The newest trigger of a job stays, however old: it says where to go on. What was late, missed or failed stays for two
# weeks; what ended on time only for an hour, since it tells nothing and comes every second.
_TRIGGERS = """
DELETE FROM dlqadmin_trigger AS trigger WHERE state IN ('done', 'failed', 'skipped')
    AND due_at < clock_timestamp() - CASE
        WHEN state = 'done' AND missed = 0 AND started_at - due_at < interval '5 seconds' THEN interval '1 hour'
        ELSE interval '14 days' END
    AND due_at < (SELECT max(due_at) FROM dlqadmin_trigger WHERE job = trigger.job)
"""
_OLD = (
    _TRIGGERS,
    "DELETE FROM dlqadmin_fencedwrite WHERE at < clock_timestamp() - interval '90 days'",
    "DELETE FROM dlqadmin_heartbeat WHERE seen_at < clock_timestamp() - interval '1 hour'",
)


@guarded()
def prune() -> None:
    """Remove ended triggers, fenced writes after 90 days, and processes that were not heard of for an hour."""
    with connection.cursor() as cursor:
        for statement in _OLD:
            cursor.execute(statement)
