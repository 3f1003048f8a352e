"""Publishing: a message is a row in the caller's transaction, so it is published exactly if that commits."""

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction

from dlqadmin.messages.idempotency import NO_VERSION
from dlqadmin.messages.ids import new_message_id
from dlqadmin.messages.wakeups import wake
from dlqadmin.queues import books
from dlqadmin.queues.models import AccountKind, SourceQueue
from dlqadmin.text import TYPE_LIMIT, storable

Body = bytes | str | dict[str, Any] | list[Any] | None
Header = tuple[str, str, str | None]
KEY_LIMIT = 1024  # bytes: keys are indexed together with their queue and position

# The position is the id that the row gets at its first publishing. Rows of one statement are numbered in their order.
# What is published is entered in the books, and its key is announced, in the same step.
_INSERT = f"""
WITH inserted AS (
INSERT INTO dlqadmin_message (id, position, queue_id, message_id, key, version, type, body, content_type,
    content_encoding, headers, lineage, by_key, generation, attempts, lost, suspect, available_at, published_at)
SELECT n, n, queue.id, message_id, key, version, type, body, content_type, content_encoding, headers::jsonb, lineage,
    queue.ordered AND key IS NOT NULL, 0, 0, 0, false, clock_timestamp() + make_interval(secs => wait),
    clock_timestamp()
FROM dlqadmin_sourcequeue AS queue, (
    SELECT nextval(pg_get_serial_sequence('dlqadmin_message', 'id')) AS n, rows.* FROM (
        SELECT * FROM unnest(%(message_ids)s::text[], %(keys)s::bytea[], %(versions)s::bigint[], %(types)s::text[],
            %(bodies)s::bytea[], %(content_types)s::text[], %(content_encodings)s::text[], %(headers)s::text[],
            %(lineages)s::uuid[], %(waits)s::float8[]) WITH ORDINALITY
            AS given (message_id, key, version, type, body, content_type, content_encoding, headers, lineage, wait,
                place)
        ORDER BY place
    ) AS rows
) AS numbered
WHERE queue.id = %(queue)s
RETURNING id, key, by_key
), posted AS (
    {books.POST} SELECT %(queue)s, '{AccountKind.RECEIVED.value}', count(*) FROM inserted HAVING count(*) > 0
), announced AS (
    INSERT INTO dlqadmin_keyarrival (queue_id, key) SELECT DISTINCT %(queue)s::bigint, key FROM inserted WHERE by_key
)
SELECT id FROM inserted ORDER BY id
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to publish.

    `body`: bytes as they are; text as UTF-8; a dict or list as JSON; None is no body. `headers`: (name, type, base64
    or None) in order. `key`: text as UTF-8, at most KEY_LIMIT bytes. `delay`: seconds until it is due. An error names
    the field.
    """

    type: str
    body: Body
    key: bytes | str | None = None
    version: int | None = None
    message_id: str | None = None
    delay: float = 0.0
    headers: Sequence[Header] = field(default_factory=tuple)
    content_type: str = ""
    content_encoding: str = ""

    def __post_init__(self) -> None:
        if not self.type:
            raise ValueError("A message needs a type: it names the handler.")
        if self.message_id is not None and not 0 < len(self.message_id) <= 255:
            raise ValueError("message_id must have 1 to 255 characters.")
        if self.message_id and storable(self.message_id) != self.message_id:
            raise ValueError(
                "message_id must not hold NUL or half of a surrogate pair: PostgreSQL cannot keep it."
            )
        if self.key is not None and len(_key_bytes(self.key)) > KEY_LIMIT:
            raise ValueError(f"key must have at most {KEY_LIMIT} bytes.")
        if self.version is not None and not NO_VERSION < self.version < 2**63:
            raise ValueError("version must be a bigint, and not the least one.")
        if self.delay < 0:
            raise ValueError("delay must be 0 or more seconds.")


def publish(queue: SourceQueue | str, **message: Any) -> int:
    """Publish one message to `queue` (a SourceQueue or its name); its id.

    Takes the fields of `Outgoing` as keywords: `publish("late-notices", type="late_notice", body={"loanId": 7})`.
    The row belongs to the caller's transaction; consumers wake when that commits. Raises SourceQueue.DoesNotExist.
    """
    return publish_many(queue, [Outgoing(**message)])[0]


def publish_many(queue: SourceQueue | str, messages: Iterable[Outgoing]) -> list[int]:
    """Publish messages in their order, all or none, in one statement; their ids. ValueError for an external queue."""
    target = queue if isinstance(queue, SourceQueue) else SourceQueue.objects.get(name=queue)
    if target.kind != SourceQueue.Kind.NATIVE:
        raise ValueError(
            f"{target} is a queue of {target.get_kind_display()}: publish there, we only collect its letters."
        )
    rows = [_row(message) for message in messages]
    if not rows:
        return []
    columns = dict(zip(_COLUMNS, (list(column) for column in zip(*rows, strict=True)), strict=True))
    # No savepoint: a failed publishing fails the caller's transaction, as any insert does, and saves two round trips.
    with transaction.atomic(savepoint=False), connection.cursor() as cursor:
        cursor.execute(_INSERT, columns | {"queue": target.pk})
        ids = [row[0] for row in cursor.fetchall()]
        if not ids:
            raise SourceQueue.DoesNotExist(f"The queue {target} does not exist any more.")
        wake(target.pk)
    return ids


_COLUMNS = (
    "message_ids",
    "keys",
    "versions",
    "types",
    "bodies",
    "content_types",
    "content_encodings",
    "headers",
    "lineages",
    "waits",
)


def _row(message: Outgoing) -> tuple[Any, ...]:
    """The values of one message in the order of _COLUMNS."""
    body, content_type = _encode(message.body)
    return (
        message.message_id or new_message_id(),
        None if message.key is None else _key_bytes(message.key),
        message.version,
        storable(message.type)[:TYPE_LIMIT],
        body,
        storable(message.content_type or content_type)[:255],
        storable(message.content_encoding)[:255],
        json.dumps([[storable(name), storable(kind), value] for name, kind, value in message.headers]),
        uuid.uuid4(),
        message.delay,
    )


def _key_bytes(key: bytes | str) -> bytes:
    return key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key


def _encode(body: Body) -> tuple[bytes | None, str]:
    """The body as bytes, and the content type that it thereby has; bytes are never guessed at."""
    if body is None or isinstance(body, bytes):
        return body, ""
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass"), "text/plain; charset=utf-8"
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"), "application/json"
