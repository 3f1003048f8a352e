"""`manage.py bench redrive`: what sending letters back costs, beside the least that a database must do for it.

1. The limit: one raw INSERT … SELECT of the letters as messages, and one UPDATE that marks them.
2. A redrive of as many letters: start and sending, consumers paused, window off.
3. A redrive of many: its preview, its start, its page while it runs, the memory of what sends it.
"""

import gc
import secrets
import time
from collections import defaultdict
from collections.abc import Callable

import psutil
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client, override_settings
from django.urls import reverse

from bench import machine
from bench.cluster import put_letters
from bench.report import Figure, Report, Target, ratio
from bench.sandbox import scratch_database
from dlqadmin.clusters.assign import assign
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.messages.models import Message
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.plan import plan_redrive
from dlqadmin.redrive.run import advance, send_pending
from dlqadmin.redrive.start import NO_CANARY, start_redrive

Say = Callable[[str], None]

LEAST_RATIO = 0.25
LEAST_RATE = 5_000.0
MOST_PLAN_SECONDS = 10.0
MOST_PAGE_MS = 50.0
MOST_MB = 20.0
TURN = 0.5  # seconds
# Pages name their style sheets without the manifest that `manage.py run` makes.
PLAIN_FILES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}

_INSERT = """
INSERT INTO dlqadmin_message (position, queue_id, message_id, key, version, type, body, content_type, content_encoding,
    headers, lineage, by_key, generation, attempts, lost, suspect, available_at, published_at, letter_id)
SELECT position, queue_id, message_id, key, version, type, body, content_type, content_encoding, headers, lineage,
    false, generation, 0, 0, false, clock_timestamp(), clock_timestamp(), id
FROM dlqadmin_deadletter WHERE queue_id = %s ORDER BY position
"""
_MARK = """
UPDATE dlqadmin_deadletter SET state = 'redriving', state_changed_at = clock_timestamp() WHERE queue_id = %s
"""


def redrive(quick: bool, say: Say) -> Report:
    """Measure the redrive and its limit in turn; `say` takes lines of progress. Raises BenchError."""
    rounds, number, many = (2, 30_000, 100_000) if quick else (3, 100_000, 1_000_000)
    with scratch_database(f"dlqadmin_bench_{secrets.token_hex(4)}"):
        call_command("migrate", verbosity=0, interactive=False)
        facts = machine.describe("not used")
        raw, ours = [], []
        for at in range(rounds):
            say(f"round {at + 1} of {rounds}: {number:,} letters")
            raw.append(number / _seconds(_raw, _cluster(number)))
            ours.append(number / _seconds(_redriven, _cluster(number)))
        say(f"the plan of {many:,} letters")
        cluster = _cluster(many)
        plan = Figure("plan", f"preview of {many:,} letters", "s", [_seconds(_plan, cluster)])
        frozen = Figure("start", f"start of {many:,} letters", "s", [_seconds(_start, cluster)])
        say(f"the redrive of {many:,} letters, and its page meanwhile")
        with override_settings(STORAGES=settings.STORAGES | PLAIN_FILES):
            running = _run(Redrive.objects.get())
    rate = Figure("redrive", "letters that are sent back", "letters/s", ours)
    limit = Figure("raw", "one INSERT … SELECT and one UPDATE", "letters/s", raw)
    share = ratio(rate, limit)
    targets = [
        Target(share, ">=", LEAST_RATIO),
        Target(rate, ">=", LEAST_RATE),
        Target(plan, "<=", MOST_PLAN_SECONDS),
        Target(running[0], "<=", MOST_PAGE_MS),
        Target(running[1], "<=", MOST_MB),
    ]
    return Report("redrive", facts, [rate, limit, share, plan, frozen, *running], targets)


def _cluster(number: int) -> ErrorCluster:
    """A diagnosed cluster with so many letters, in a queue of its own that is paused."""
    for table in ("redriveitem", "redrivepart", "redrive", "message"):
        _execute(f"DELETE FROM dlqadmin_{table}")
    DeadLetter.objects.all().delete()
    queue = SourceQueue.objects.create(name=f"bench-{secrets.token_hex(4)}", paused=True)
    leaf = assign(queue_id=queue.pk, error_class="LookupError", error_text="no such thing")
    put_letters(queue, [leaf], number)
    cluster = ErrorCluster.objects.get(pk=leaf)
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="it was not there", fix="it is")
    return cluster


def _seconds(work: Callable[[ErrorCluster], object], cluster: ErrorCluster) -> float:
    began = time.perf_counter()
    work(cluster)
    return time.perf_counter() - began


def _raw(cluster: ErrorCluster) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_INSERT, [cluster.queue_id])
        cursor.execute(_MARK, [cluster.queue_id])


def _plan(cluster: ErrorCluster) -> object:
    return plan_redrive(of_cluster(cluster))


def _start(cluster: ErrorCluster) -> object:
    return start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)


def _run(redrive: Redrive) -> tuple[Figure, Figure, Figure]:
    """Send all of it; its page and the list between the turns, in ms of server time, and the growth of this process."""
    pages = {"page": reverse("redrive", args=[redrive.pk]), "list": reverse("redrives")}
    browser, took, sizes = _browser(), defaultdict[str, list[float]](list), []
    for address in pages.values():
        browser.get(address)  # the first look loads the templates
    while redrive.items.filter(outcome="pending").exists():
        advance(redrive, seconds=TURN)
        gc.collect()
        sizes.append(psutil.Process().memory_info().rss / 1e6)
        for name, address in pages.items():
            began = time.perf_counter()
            assert browser.get(address).status_code == 200
            took[name].append(1_000 * (time.perf_counter() - began))
    return (
        Figure("page", "the page of the redrive while it runs", "ms", took["page"]),
        Figure("growth", "memory since its first turn", "MB", [max(sizes) - sizes[0]]),
        Figure("list", "the list of redrives meanwhile", "ms", took["list"]),
    )


def _browser() -> Client:
    """Somebody who is signed in and may see everything."""
    browser = Client(headers={"host": "127.0.0.1"})
    browser.force_login(get_user_model().objects.create_superuser("bench"))
    return browser


def _redriven(cluster: ErrorCluster) -> None:
    begun = start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY)
    while send_pending(begun):
        pass
    assert not begun.items.filter(outcome="pending").exists()
    assert Message.objects.filter(queue=cluster.queue_id).count() == begun.items.count()


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
