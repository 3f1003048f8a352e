"""The figures that a redrive is paced by, read from its rows in one statement; and why nothing comes back."""

from typing import Any

from django.db import connection
from django.utils.translation import gettext_noop

from dlqadmin.clusters.fingerprint import fingerprint
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.pace import Figures

# Aggregates over the items of one redrive by the index on (redrive, outcome).
_READ = """
SELECT count(*) FILTER (WHERE is_canary AND outcome = 'pending'),
    count(*) FILTER (WHERE is_canary AND outcome IN ('pending', 'sent')),
    count(*) FILTER (WHERE is_canary AND outcome = 'died again'),
    count(*) FILTER (WHERE outcome = 'pending'), count(*) FILTER (WHERE outcome = 'sent'),
    count(*) FILTER (WHERE outcome IN ('succeeded', 'died again', 'discarded')),
    count(*) FILTER (WHERE outcome = 'died again'),
    count(*) FILTER (WHERE NOT is_canary AND sent_at IS NOT NULL),
    extract(epoch FROM clock_timestamp() - redrive.rest_from),
    coalesce(extract(epoch FROM clock_timestamp() - greatest(max(item.sent_at), redrive.last_outcome_at)), 0),
    redrive.window, redrive.rate, redrive.stop_percent
FROM dlqadmin_redrive AS redrive LEFT JOIN dlqadmin_redriveitem AS item ON item.redrive_id = redrive.id
WHERE redrive.id = %s GROUP BY redrive.id
"""

# The first failed attempts of the canary's letters in their new life.
_FAILED = """
SELECT leaf.fingerprint, attempt.error_text, attempt.error_class, attempt.traceback
FROM dlqadmin_redriveitem AS item JOIN dlqadmin_deadletter AS letter ON letter.id = item.letter_id
JOIN dlqadmin_errorcluster AS leaf ON leaf.id = letter.cluster_id
JOIN dlqadmin_attempt AS attempt ON attempt.lineage = letter.lineage AND attempt.generation = letter.generation
WHERE item.redrive_id = %s AND item.is_canary AND item.outcome = 'sent' AND attempt.outcome = 'failed' LIMIT 100
"""

_SILENT = """
SELECT queue.paused,
    NOT EXISTS (SELECT FROM dlqadmin_heartbeat WHERE queue.celery_queue = ANY(regexp_split_to_array(role, '[ ,]+'))
        AND seen_at > clock_timestamp() - interval '15 s'),
    bool_and(key.parked_position IS NOT NULL OR key.blocked_at IS NOT NULL),
    bool_and(message.available_at > clock_timestamp())
FROM dlqadmin_redriveitem AS item JOIN dlqadmin_message AS message ON message.letter_id = item.letter_id
JOIN dlqadmin_sourcequeue AS queue ON queue.id = message.queue_id
LEFT JOIN dlqadmin_queuekey AS key ON message.by_key AND key.queue_id = message.queue_id AND key.key = message.key
WHERE item.redrive_id = %s AND item.outcome = 'sent' GROUP BY queue.id
"""
PAUSED = gettext_noop("No outcome for 5 minutes: the queue is paused.")
NO_WORKER = gettext_noop("No outcome for 5 minutes: no worker listens on the queue.")
BLOCKED = gettext_noop("No outcome for 5 minutes: the keys of the letters are blocked.")
BACKED_OFF = gettext_noop("No outcome for 5 minutes: the letters wait for their next attempt.")
SILENT = gettext_noop("No outcome for 5 minutes.")


def read_figures(redrive: Redrive) -> Figures:
    """The figures of a redrive now."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, [redrive.pk])
        *numbers, released, silent, window, rate, stop_percent = cursor.fetchone()
    since = None if released is None else float(released)
    fails = numbers[1] > 0 and numbers[4] > 0 and _canary_fails(redrive)
    values: list[Any] = [*numbers, since, float(silent), fails, window, rate, stop_percent]
    return Figures(*values)


def _canary_fails(redrive: Redrive) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_FAILED, [redrive.pk])
        rows = cursor.fetchall()
    return any(fingerprint(*told).digest == leaf for leaf, *told in rows)


def why_silent(redrive: Redrive) -> str:
    """Why letters that were sent have no outcome, as far as the rows tell."""
    with connection.cursor() as cursor:
        cursor.execute(_SILENT, [redrive.pk])
        paused, alone, blocked, waiting = cursor.fetchone() or (False, False, False, False)
    for holds, said in ((paused, PAUSED), (alone, NO_WORKER), (blocked, BLOCKED), (waiting, BACKED_OFF)):
        if holds:
            return said
    return SILENT
