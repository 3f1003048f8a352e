"""Publishing from SQL, for programs that are not written in Python; and how often the busy tables are vacuumed."""

from django.db import migrations

# The rules and the row of `messages.publish`; tests hold the two together. An uuid7 is made by hand, because PostgreSQL
# has uuidv7() from 18 on only: 48 bits of milliseconds, the version, 12 bits of what is below a millisecond, and the
# variant with 62 random bits, which the tail of an uuid4 is.
#
# Nobody is woken: only this side knows the broker. The sweep of the consumers comes by every 2 seconds.
CREATE_PUBLISH = """
CREATE FUNCTION dlqadmin_publish(
    queue text,
    type text,
    body bytea,
    key bytea DEFAULT NULL,
    version bigint DEFAULT NULL,
    message_id text DEFAULT NULL,
    delay interval DEFAULT '0',
    headers jsonb DEFAULT '[]',
    content_type text DEFAULT '',
    content_encoding text DEFAULT ''
) RETURNS bigint LANGUAGE plpgsql AS $publish$
DECLARE
    target record;
    by_key boolean;
    new_id bigint;
    microseconds bigint;
BEGIN
    IF coalesce(type, '') = '' THEN
        RAISE 'type must not be empty' USING ERRCODE = '22023', HINT = 'It names the handler of the message.';
    END IF;
    IF length(message_id) NOT BETWEEN 1 AND 255 THEN
        RAISE 'message_id must have 1 to 255 characters, not %', length(message_id)
            USING ERRCODE = '22023', HINT = 'Leave it out, or give NULL, to have one made.';
    END IF;
    IF octet_length(key) > 1024 THEN
        RAISE 'key must have at most 1024 bytes, not %', octet_length(key)
            USING ERRCODE = '22023', HINT = 'Keys are indexed. A digest of a long key does as well.';
    END IF;
    IF version = -9223372036854775808 THEN
        RAISE 'version must not be the least bigint'
            USING ERRCODE = '22023', HINT = 'It stands for a key of which no version was processed yet.';
    END IF;
    delay := coalesce(delay, '0');
    IF delay < '0' OR NOT isfinite(delay) THEN
        RAISE 'delay must be 0 or more, not %', delay
            USING ERRCODE = '22023', HINT = 'It is the time from now until the message is due.';
    END IF;
    headers := coalesce(headers, '[]');
    IF jsonb_typeof(headers) <> 'array' THEN
        RAISE 'headers must be a JSON array, not %', jsonb_typeof(headers)
            USING ERRCODE = '22023', HINT = 'Of [name, type, value in base64 or null], such as [["lang", "text", "dHI="]].';
    END IF;
    IF EXISTS (
        SELECT FROM jsonb_array_elements(headers) AS one (header)
        WHERE NOT coalesce(jsonb_typeof(header) = 'array' AND jsonb_typeof(header -> 0) = 'string'
            AND jsonb_typeof(header -> 1) = 'string' AND jsonb_typeof(header -> 2) IN ('string', 'null')
            AND header -> 3 IS NULL, false)
    ) THEN
        RAISE 'each of headers must be [name, type, value in base64 or null]'
            USING ERRCODE = '22023', HINT = 'Such as [["lang", "text", "dHI="], ["urgent", "null", null]].';
    END IF;
    SELECT known.id, known.ordered, known.kind INTO target FROM dlqadmin_sourcequeue AS known
    WHERE known.name = dlqadmin_publish.queue;
    IF NOT FOUND THEN
        RAISE 'queue % does not exist', coalesce(quote_ident(queue), 'NULL')
            USING ERRCODE = 'P0002', HINT = 'SELECT name FROM dlqadmin_sourcequeue shows those that do.';
    END IF;
    IF target.kind <> 'native' THEN
        RAISE 'queue % is a queue of %', quote_ident(queue), target.kind
            USING ERRCODE = '22023', HINT = 'Publish there: dlqadmin only collects its dead letters.';
    END IF;

    by_key := target.ordered AND key IS NOT NULL;
    new_id := nextval(pg_get_serial_sequence('dlqadmin_message', 'id'));
    microseconds := extract(epoch FROM clock_timestamp()) * 1000000;
    INSERT INTO dlqadmin_message (id, position, queue_id, message_id, key, version, type, body, content_type,
        content_encoding, headers, lineage, by_key, generation, attempts, lost, suspect, available_at, published_at)
    VALUES (
        new_id, new_id, target.id,
        coalesce(message_id, encode(
            substring(int8send(microseconds / 1000) FROM 3)
                || substring(int8send(28672 + microseconds % 1000 * 4096 / 1000) FROM 7)
                || substring(uuid_send(gen_random_uuid()) FROM 9), 'hex'
        )::uuid::text),
        key, version, left(type, 255), body, left(coalesce(content_type, ''), 255),
        left(coalesce(content_encoding, ''), 255), headers, gen_random_uuid(), by_key, 0, 0, 0, false,
        clock_timestamp() + delay, clock_timestamp()
    );
    INSERT INTO dlqadmin_accountdelta (queue_id, kind, delta) VALUES (target.id, 'received', 1);
    IF by_key THEN
        INSERT INTO dlqadmin_keyarrival (queue_id, key) VALUES (target.id, key);
    END IF;
    RETURN new_id;
END
$publish$;

COMMENT ON FUNCTION dlqadmin_publish IS
    'Publish a message to a queue of dlqadmin, in the transaction of the caller; its id. Consumers start within about 2 s.';

-- The tables are those of the schema into which they were just migrated, whatever the caller's path says; temporary
-- tables come last, since a caller may have some of these names.
DO $path$ BEGIN
    EXECUTE format('ALTER FUNCTION dlqadmin_publish SET search_path = %I, pg_temp', current_schema());
END $path$;
"""

# Rows of these tables live for milliseconds. By default a table is vacuumed when a fifth of it is dead: behind a backlog
# of a million messages, 200,000 dead rows at the head of the index that every claim reads from its start. Here it is a
# hundredth and a thousand, without pauses, so that a vacuum is over before the next is due. Statistics go stale as fast:
# a queue that was empty when it was analyzed, and now holds a million, would be read as a whole.
BUSY_TABLES = (
    "dlqadmin_message",
    "dlqadmin_claim",
    "dlqadmin_accountdelta",
    "dlqadmin_queuekey",
    "dlqadmin_keyarrival",
    "dlqadmin_consumerslot",
)
AUTOVACUUM = {
    "autovacuum_vacuum_scale_factor": "0.01",
    "autovacuum_vacuum_threshold": "1000",
    "autovacuum_vacuum_cost_delay": "0",
    "autovacuum_analyze_scale_factor": "0.02",
    "autovacuum_analyze_threshold": "1000",
}
_SET = ", ".join(f"{name} = {value}" for name, value in AUTOVACUUM.items())


class Migration(migrations.Migration):
    dependencies = [("dlqadmin", "0002_consumer_runtime")]

    operations = [
        migrations.RunSQL(CREATE_PUBLISH, "DROP FUNCTION dlqadmin_publish"),
        migrations.RunSQL(
            [f"ALTER TABLE {table} SET ({_SET})" for table in BUSY_TABLES],
            [f"ALTER TABLE {table} RESET ({', '.join(AUTOVACUUM)})" for table in BUSY_TABLES],
        ),
    ]
