"""Time comes from the database: one clock for all machines."""

from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import DateTimeField, Func


class ClockTimestamp(Func):
    """`clock_timestamp()`: the database's clock at this very moment.

    `now()` stands still inside a transaction and Django's `Now()` inside a statement; leases, claims and back-off
    need time that moves.
    """

    template = "clock_timestamp()"
    output_field: Any = DateTimeField()


def db_now() -> datetime:
    """The database's clock now, timezone-aware; one round trip."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment
