"""The limit: a bare psycopg loop that claims messages in batches and deletes them, two statements each."""

import multiprocessing
import signal
from multiprocessing.process import BaseProcess
from typing import Any

import psycopg

BATCH = 200
TABLE = """
CREATE TABLE bench_bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL, claim bigint);
CREATE INDEX bench_bare_claimable ON bench_bare (id) WHERE claim IS NULL;
"""
_FILL = """
INSERT INTO bench_bare (body) SELECT convert_to('{"n": ' || n || '}', 'UTF8') FROM generate_series(1, %s) AS n
"""
_CLAIM = """
UPDATE bench_bare AS message SET claim = %s FROM (
    SELECT id FROM bench_bare WHERE claim IS NULL ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
) AS due WHERE message.id = due.id RETURNING message.id, message.body
"""
_DELETE = "DELETE FROM bench_bare WHERE id = ANY(%s)"

_spawning = multiprocessing.get_context("spawn")  # a fork would share Django's connection


class Loops:
    """So many processes that wait, connected, for `go`, and then work until the table is empty."""

    def __init__(self, conninfo: str, number: int) -> None:
        self._go = _spawning.Event()
        self._ready = _spawning.Semaphore(0)
        self._counts: list[Any] = [_spawning.Value("q", 0, lock=False) for _ in range(number)]
        self.processes: list[BaseProcess] = []
        for claim, count in enumerate(self._counts, start=1):
            arguments = (conninfo, claim, count, self._ready, self._go)
            process = _spawning.Process(target=_work, args=arguments, daemon=True)
            process.start()
            self.processes.append(process)

    def wait_until_connected(self, seconds: float) -> bool:
        """Whether all of them are, in that time each."""
        return all(self._ready.acquire(timeout=seconds) for _ in self.processes)

    def go(self) -> None:
        """Start."""
        self._go.set()

    def finished(self) -> int:
        """Messages whose deletion has committed."""
        return sum(count.value for count in self._counts)

    def end(self) -> None:
        """Kill what still runs."""
        for process in self.processes:
            process.kill()
            process.join()


def fill(connection: psycopg.Connection, number: int) -> None:
    """Put so many messages into the emptied table."""
    connection.execute("TRUNCATE bench_bare")
    connection.execute(_FILL, [number])
    connection.execute("VACUUM (ANALYZE) bench_bare")


def _work(conninfo: str, claim: int, count: Any, ready: Any, go: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the terminal: the parent ends us
    with psycopg.connect(conninfo, autocommit=True) as connection:
        ready.release()
        go.wait()
        while rows := connection.execute(_CLAIM, [claim, BATCH]).fetchall():
            connection.execute(_DELETE, [[row[0] for row in rows]])
            count.value += len(rows)
