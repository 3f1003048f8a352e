"""Publishing with the SQL function: the same rules and the same rows as from Python."""

import base64
import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery
from django.db import DatabaseError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlqadmin.clock import db_now
from dlqadmin.consumers.consume import consume_once
from dlqadmin.consumers.sweep import wake_queues_with_work
from dlqadmin.messages.models import KeyArrival, Message
from dlqadmin.messages.publish import publish
from dlqadmin.queues.models import AccountDelta
from dlqadmin.redrive.audit import audit_books
from dlqadmin.redrive.ledger import read_ledger

# What differs between two messages that were published alike.
OWN = {"id", "position", "lineage", "available_at", "published_at"}


def publish_from_sql(queue: Any, **message: Any) -> int:
    """Call the function by the names of its parameters; the id of the message."""
    message = {"queue": getattr(queue, "name", queue), "type": "note", "body": b""} | message
    if isinstance(message.get("delay"), int | float):
        message["delay"] = timedelta(seconds=message["delay"])
    if "headers" in message:
        message["headers"] = json.dumps(message["headers"])
    types = {"headers": "jsonb", "message_id": "text", "version": "bigint"}
    arguments = ", ".join(
        f"{name} => CAST(%({name})s AS {types[name]})" if name in types else f"{name} => %({name})s"
        for name in message
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT dlqadmin_publish({arguments})", message)
        return cursor.fetchone()[0]


def written() -> dict[str, Any]:
    """All rows that publishing writes, but for what is a message's own."""
    message = Message.objects.values().get()
    assert message["id"] == message["position"]
    assert message["lineage"].version == 4
    due_in = (message["available_at"] - message["published_at"]).total_seconds()
    for name in ("key", "body"):
        message[name] = message[name] if message[name] is None else bytes(message[name])
    return {
        "message": {name: value for name, value in message.items() if name not in OWN},
        "due in": due_in,
        "arrivals": [(one.queue_id, bytes(one.key)) for one in KeyArrival.objects.all()],
        "books": list(AccountDelta.objects.values_list("queue_id", "kind", "delta")),
    }


def written_by(publisher: Any, queue: Any, message: dict[str, Any]) -> dict[str, Any]:
    """What it writes; nothing of it stays."""
    with transaction.atomic():
        publisher(queue, **message)
        rows = written()
        transaction.set_rollback(True)
    return rows


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)
headers = st.lists(
    st.tuples(
        texts, texts, st.none() | st.binary(max_size=20).map(lambda raw: base64.b64encode(raw).decode())
    ),
    max_size=4,
)
messages = st.fixed_dictionaries(
    {"type": texts.filter(bool), "body": st.none() | st.binary(), "message_id": texts.filter(bool)},
    optional={
        "key": st.none() | st.binary(max_size=30) | st.just(b"k" * 1024),
        "version": st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
        "delay": st.floats(0, 10**8),
        "headers": headers,
        "content_type": texts,
        "content_encoding": texts,
    },
).filter(lambda message: len(message["message_id"]) <= 255)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(message=messages, ordered=st.booleans())
def test_what_is_published_from_sql_is_what_python_publishes(make_queue, message, ordered) -> None:
    with transaction.atomic():
        queue = make_queue(ordered=ordered)
        one, other = (written_by(publisher, queue, message) for publisher in (publish, publish_from_sql))
        transaction.set_rollback(True)
    assert one.pop("due in") == pytest.approx(other.pop("due in"), abs=0.5)
    assert one == other


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"type": ""}, "type"),
        ({"message_id": ""}, "message_id"),
        ({"message_id": "x" * 256}, "message_id"),
        ({"key": b"k" * 1025}, "key"),
        ({"version": -(2**63)}, "version"),
        ({"delay": -0.001}, "delay"),
    ],
)
def test_what_python_refuses_is_refused_with_its_field_and_a_hint(queue, wrong, says) -> None:
    with pytest.raises(ValueError, match=says):
        publish(queue, **{"type": "note", "body": b""} | wrong)
    with pytest.raises(DatabaseError, match=says) as refused, transaction.atomic():
        publish_from_sql(queue, **wrong)
    assert refused.value.__cause__.sqlstate == "22023"
    assert refused.value.__cause__.diag.message_hint
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        "text",
        1,
        ["text"],
        [{}],
        [[]],
        [["name", "type"]],
        [["name", "type", None, None]],
        [["name", "type", 1]],
        [["name", None, None]],
        [[1, "type", None]],
        [["good", "type", None], None],
    ],
)
def test_headers_of_another_form_are_refused(queue, wrong) -> None:
    with pytest.raises(DatabaseError, match="headers") as refused, transaction.atomic():
        publish_from_sql(queue, headers=wrong)
    assert refused.value.__cause__.sqlstate == "22023"


@pytest.mark.parametrize("missing", ["nowhere", None])
def test_a_queue_that_does_not_exist_is_an_error_with_a_hint(db, missing) -> None:
    with pytest.raises(DatabaseError, match="does not exist") as refused, transaction.atomic():
        publish_from_sql(missing)
    assert refused.value.__cause__.sqlstate == "P0002"
    assert "dlqadmin_sourcequeue" in refused.value.__cause__.diag.message_hint


def test_an_external_queue_takes_no_messages_of_ours(make_queue) -> None:
    with pytest.raises(DatabaseError, match="rabbitmq") as refused, transaction.atomic():
        publish_from_sql(make_queue("theirs", kind="rabbitmq"))
    assert refused.value.__cause__.sqlstate == "22023"


def test_null_stands_for_what_is_not_given(queue) -> None:
    publish_from_sql(queue, body=None)
    optional = ("key", "version", "message_id", "delay", "content_type", "content_encoding")
    publish_from_sql(queue, body=None, **dict.fromkeys(optional))
    one, other = Message.objects.order_by("id").values(
        "key", "version", "headers", "content_type", "content_encoding"
    )
    assert one == other


def test_an_id_is_made_up_that_is_a_uuid7_of_now_and_rises(queue) -> None:
    before = db_now()
    ids = [Message.objects.get(pk=publish_from_sql(queue)).message_id for _ in range(50)]
    after = db_now()
    assert ids == sorted(set(ids))
    for one in map(uuid.UUID, ids):
        assert (one.version, one.variant) == (7, uuid.RFC_4122)
        milliseconds = one.int >> 80
        assert int(before.timestamp() * 1000) <= milliseconds <= int(after.timestamp() * 1000)
    assert str(uuid.UUID(ids[0])) == ids[0]


def test_nothing_remains_of_a_transaction_that_is_rolled_back(make_queue) -> None:
    queue = make_queue(ordered=True)
    with transaction.atomic():
        publish_from_sql(queue, key=b"k")
        assert read_ledger(queue.pk).received == 1
        transaction.set_rollback(True)
    for model in (Message, KeyArrival, AccountDelta):
        assert not model.objects.exists()


@pytest.mark.parametrize("ordered", [False, True])
def test_the_sweep_wakes_a_consumer_who_runs_it(make_queue, handle, monkeypatch, ordered) -> None:
    sent: list[int] = []
    monkeypatch.setattr(Celery, "send_task", lambda app, name, args, **options: sent.append(args[0]))
    queue, seen = make_queue(ordered=ordered), []
    handle(queue, seen.append)
    publish_from_sql(queue, key=b"k", body=b'{"n": 1}', headers=[["a", "text", None]])
    wake_queues_with_work()
    assert sent == [queue.pk]
    consume_once(queue)
    assert [(one.data, one.key, one.headers) for one in seen] == [({"n": 1}, b"k", [("a", "text", None)])]


@pytest.mark.django_db(transaction=True)
def test_it_waits_for_nobody_who_holds_the_queues_row(make_queue) -> None:
    queue = make_queue(ordered=True)
    other = connection.copy()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT FROM dlqadmin_sourcequeue FOR UPDATE")
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '1s'")
            publish_from_sql(queue, key=b"k")
    finally:
        other.close()
    assert audit_books().differences == []


def test_the_callers_path_and_temporary_tables_do_not_lead_it_astray(queue) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE dlqadmin_message (LIKE dlqadmin_message) ON COMMIT DROP")
        cursor.execute("SET LOCAL search_path = pg_catalog")
        cursor.execute("SELECT public.dlqadmin_publish(%s, 'note', 'x')", [queue.name])
        cursor.execute("SELECT count(*) FROM public.dlqadmin_message")
        assert cursor.fetchone() == (1,)


def test_a_program_needs_these_rights_and_no_others(make_queue) -> None:
    """As the README says; the role goes with the test's transaction."""
    queue, role = make_queue(ordered=True), f"program_{uuid.uuid4().hex}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {role}")
        cursor.execute(f"GRANT SELECT (id, name, kind, ordered) ON dlqadmin_sourcequeue TO {role}")
        tables = "dlqadmin_message, dlqadmin_accountdelta, dlqadmin_keyarrival"
        cursor.execute(f"GRANT INSERT ON {tables} TO {role}")
        cursor.execute(f"GRANT USAGE ON SEQUENCE dlqadmin_message_id_seq TO {role}")
        cursor.execute(f"SET LOCAL ROLE {role}")
        publish_from_sql(queue, key=b"k")
        cursor.execute("RESET ROLE")
    assert Message.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_migration_can_be_taken_back_and_made_again() -> None:
    def state() -> tuple[int, int]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_proc WHERE proname = 'dlqadmin_publish'")
            functions = cursor.fetchone()[0]
            cursor.execute(
                "SELECT count(*) FROM pg_class WHERE relname LIKE 'dlqadmin_%%' "
                "AND 'autovacuum_vacuum_scale_factor=0.01' = ANY(reloptions)"
            )
            return functions, cursor.fetchone()[0]

    assert state() == (1, 6)
    try:
        MigrationExecutor(connection).migrate([("dlqadmin", "0002_consumer_runtime")])
        assert state() == (0, 0)
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
    assert state() == (1, 6)
