"""The effect of a handler: one row. The same statement through Django's connection for both sides."""

from django.db import connection

TABLE = "CREATE TABLE bench_effect (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n bigint NOT NULL)"
POISON_EVERY = 10  # one message in so many always fails


def insert(n: int) -> None:
    """Leave the row of message `n`."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO bench_effect (n) VALUES (%s)", [n])


def insert_unless_poisonous(n: int) -> None:
    """The same, but every POISON_EVERY-th message fails, however often it is tried: ValueError."""
    if n % POISON_EVERY == 0:
        raise ValueError(f"no such account {n}")
    insert(n)


def effects() -> tuple[int, int]:
    """How many rows there are, and of how many different messages."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), count(DISTINCT n) FROM bench_effect")
        rows, messages = cursor.fetchone()
    return rows, messages


def count() -> int:
    """How many rows there are."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM bench_effect")
        rows: int = cursor.fetchone()[0]
    return rows


def clear() -> None:
    """Remove all rows."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE bench_effect")
