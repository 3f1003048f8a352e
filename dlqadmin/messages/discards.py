"""A sample of the deliveries that consumers dropped on purpose. The books hold their number."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from django.db import connection

from dlqadmin.messages.models import Discard

# Of one batch; enough to see what is going on.
SAMPLE = 10

_INSERT = """
INSERT INTO dlqadmin_discard (queue_id, kind, message_id, key, version, lineage, at)
SELECT %s, kind, message_id, key, version, lineage, clock_timestamp()
FROM unnest(%s::text[], %s::text[], %s::bytea[], %s::bigint[], %s::uuid[])
    AS dropped (kind, message_id, key, version, lineage)
"""


class Dropped(Protocol):
    """What is asked of a message."""

    @property
    def message_id(self) -> str: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def version(self) -> int | None: ...
    @property
    def lineage(self) -> UUID: ...


def sample_discards(queue_id: int, dropped: Sequence[tuple[Discard.Kind, Dropped]]) -> None:
    """Keep at most SAMPLE of these, inside the caller's transaction."""
    rows = [(kind.value, one.message_id, one.key, one.version, one.lineage) for kind, one in dropped[:SAMPLE]]
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(_INSERT, [queue_id, *(list(column) for column in zip(*rows, strict=True))])
