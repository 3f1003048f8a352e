"""PostgreSQL as Celery's broker, through kombu's `pgmq` transport and pgmq's SQL objects (no extension needed)."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from psycopg.conninfo import make_conninfo

# Rises with nothing: a constant that all installers of the objects lock on, so that two first starts do not collide.
_INSTALL_LOCK = 7_205_311


def celery_settings(broker_url: str, database: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The broker URL and its transport options: `broker_url`, or pgmq on this Django database if that is empty."""
    if broker_url and not broker_url.startswith("pgmq://"):
        return broker_url, {}
    options: dict[str, Any] = {
        "init_extension": False,
        # Tried: a waiting read blocks the other queues of the same worker.
        "wait_time_seconds": 0,
        "polling_interval": 0.2,
        "visibility_timeout": 60,
        "pool_size": 2,
    }
    if not broker_url:
        # The keyword form; of the URL form, a socket folder would be read as localhost.
        options["conn_string"] = conninfo(database)
    return (
        broker_url or "pgmq://database",
        options,
    )  # a name only: without one, kombu warns at every connection


def conninfo(database: Mapping[str, Any]) -> str:
    """A libpq connection string for a Django database setting."""
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    given = {ours: database[theirs] for theirs, ours in names.items() if database.get(theirs)}
    return make_conninfo(**given | dict(database.get("OPTIONS") or {}))


def install(connection: Any) -> bool:
    """Create pgmq's schema, types and functions in this Django connection's database; False if they were there.

    One transaction: a second installer waits, then finds them.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_INSTALL_LOCK])
        cursor.execute("SELECT to_regclass('pgmq.meta') IS NOT NULL")
        if cursor.fetchone()[0]:
            return False
        cursor.execute((files("pgmq") / "sql" / "pgmq.sql").read_text())
    return True
