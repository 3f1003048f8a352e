"""The starts that failed or were lost, each with its error: the timeline of a message through its lives."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from django.db import connection

from dlqadmin.messages.failure import ErrorRecord
from dlqadmin.messages.models import Attempt

_INSERT = """
INSERT INTO dlqadmin_attempt (queue_id, lineage, generation, number, outcome, type, started_at, ended_at, retry_at,
    worker, error_class, error_text, error_raw, traceback)
SELECT %s, lineage, generation, number, outcome, type, started_at, clock_timestamp(),
    clock_timestamp() + make_interval(secs => retry_in), worker, error_class, error_text, error_raw, traceback
FROM unnest(%s::uuid[], %s::int[], %s::int[], %s::text[], %s::text[], %s::timestamptz[], %s::float8[], %s::text[],
    %s::text[], %s::text[], %s::bytea[], %s::text[])
    AS start (lineage, generation, number, outcome, type, started_at, retry_in, worker, error_class, error_text,
        error_raw, traceback)
"""


class Started(Protocol):
    """What is asked of a message."""

    @property
    def lineage(self) -> UUID: ...
    @property
    def generation(self) -> int: ...
    @property
    def type(self) -> str: ...


class StartRecord(NamedTuple):
    """One row. `number`: of the attempt, or of the loss; `retry_in`: seconds from now, None: no further attempt."""

    lineage: UUID
    generation: int
    number: int
    outcome: str
    type: str
    started_at: datetime
    retry_in: float | None
    worker: str
    error_class: str
    error_text: str
    error_raw: bytes
    traceback: str

    @classmethod
    def of(
        cls,
        message: Started,
        outcome: Attempt.Outcome,
        error: ErrorRecord,
        *,
        number: int,
        started_at: datetime,
        worker: str,
        retry_in: float | None = None,
    ) -> "StartRecord":
        """The record of one start of this message."""
        about = (
            message.lineage,
            message.generation,
            number,
            outcome.value,
            message.type,
            started_at,
            retry_in,
        )
        return cls(*about, worker, error.error_class, error.text, error.raw, error.traceback)


def record_starts(queue_id: int, starts: Sequence[StartRecord]) -> None:
    """Keep these starts of messages of one queue, inside the caller's transaction."""
    if starts:
        with connection.cursor() as cursor:
            cursor.execute(_INSERT, [queue_id, *(list(column) for column in zip(*starts, strict=True))])
