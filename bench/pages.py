"""`manage.py bench pages`: server time and number of queries of each page and fragment, with few letters and with many.

1. 200 queues with 5,000 causes, and so many letters that a page must not read them all; few, then many.
2. Each page and each live fragment is asked for in turn, signed in; search among them.
3. The peer, over the same table in the same run: the changelist of Django's admin.
"""

import secrets
import time
from collections.abc import Callable
from random import Random
from statistics import quantiles
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from bench import machine
from bench.report import Figure, Report, Target
from bench.sandbox import scratch_database
from dlqadmin.clusters.assign import Told, assign_all
from dlqadmin.clusters.counts import fold
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.people.models import Owner
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.diagnose import sign_diagnosis

Say = Callable[[str], None]

QUEUES = 200
CAUSES = 25  # of each queue
FEW = 10_000
LOOKS = 25
LARGE_BODY = 30_000_000  # bytes
MOST_MS = 50.0
MOST_SEARCH_MS = 300.0
MOST_GROWTH = 1.5
LEAST_PEER = 20.0
SEARCHES = ("search", "search, live", "search words", "search words, live")

# A month of letters; each has the words of its cause and some of its own.
_LETTERS = """
WITH letters AS (
    INSERT INTO dlqadmin_deadletter (message_id, type, key, body, content_type, content_encoding, headers, lineage,
        generation, position, queue_id, cluster_id, state, resolution, reason, attempts, attempts_counter, lost,
        error_class, error_text, error_raw, traceback, worker, body_size, last_attempt_at, died_at)
    SELECT gen_random_uuid()::text, 'type-' || n %% 7, convert_to('key-' || n %% 1000, 'UTF8'),
        convert_to(format('{"order": %%s, "customer": "%%s"}', n, md5(n::text || 'c')), 'UTF8'), 'application/json',
        '', '[]', gen_random_uuid(), 1, n, %(queue)s, leaf.id, 'open', '', 'threshold reached', 3, 'dlqadmin', 0,
        'LookupError', format('%%s (order %%s, request %%s)', leaf.sample_text, n, md5(n::text)), '', '', 'worker-1',
        320, clock_timestamp() - age, clock_timestamp() - age
    FROM generate_series(1, %(number)s) AS n
    CROSS JOIN LATERAL (SELECT interval '30 days' * (1 - n / %(number)s::float)) AS died (age)
    JOIN dlqadmin_errorcluster AS leaf ON leaf.id = (%(leaves)s::bigint[])[1 + n %% cardinality(%(leaves)s::bigint[])]
    RETURNING id, cluster_id, error_text, body
), searched AS (
    INSERT INTO dlqadmin_lettertext (letter_id, error, body, document)
    SELECT id, lower(error_text), lower(convert_from(body, 'UTF8')), convert_from(body, 'UTF8')::jsonb FROM letters
)
INSERT INTO dlqadmin_clusterdelta (cluster_id, opened, total)
SELECT cluster_id, count(*), count(*) FROM letters GROUP BY 1
"""

# Pages name their style sheets without the manifest that `manage.py run` makes.
PLAIN_FILES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}


def pages(quick: bool, say: Say) -> Report:
    """Measure all pages with few letters and with many; `say` takes lines of progress. Raises BenchError."""
    many = 100_000 if quick else 1_000_000
    with scratch_database(f"dlqadmin_bench_{secrets.token_hex(4)}"):
        call_command("migrate", verbosity=0, interactive=False)
        facts = machine.describe("not used")
        leaves = _queues()
        with override_settings(STORAGES=settings.STORAGES | PLAIN_FILES):
            say(f"{FEW:,} letters")
            _fill(leaves, FEW)
            few, few_queries = _look(say)
            say(f"{many:,} letters")
            _fill(leaves, many - FEW)
            _large_body()
            ours, queries = _look(say)
            peer = _peer(say)
    return _report(facts, few, ours, peer, few_queries, queries)


def _report(
    facts: dict[str, Any],
    few: dict[str, list[float]],
    ours: dict[str, list[float]],
    peer: list[float],
    few_queries: dict[str, int],
    queries: dict[str, int],
) -> Report:
    growth = {name: _p95(ours[name]) / _p95(few[name]) for name in ours if name not in SEARCHES}
    grown = max(growth, key=lambda name: growth[name])
    slowest = max(_p95(took) for name, took in ours.items() if name not in SEARCHES)
    more = [name for name in queries if queries[name] != few_queries[name]]
    admin = _p50(peer)
    checks = [
        Target(Figure("slowest", "the slowest page, p95", "ms", [slowest]), "<=", MOST_MS),
        Target(
            Figure("search", "the slower search, p95", "ms", [max(_p95(ours[name]) for name in SEARCHES)]),
            "<=",
            MOST_SEARCH_MS,
        ),
        Target(
            Figure("growth", f"many / few letters, p95 of {grown}", "ratio", [growth[grown]]),
            "<=",
            MOST_GROWTH,
        ),
        Target(Figure("unlike", f"pages with other queries {more}", "pages", [len(more)]), "<=", 0),
        Target(
            Figure("peer", "admin / our list, p50", "ratio", [admin / _p50(ours["letters"])]),
            ">=",
            LEAST_PEER,
        ),
    ]
    figures = [
        Figure(name, f"p95; {queries[name]} queries", "ms", [_p95(took)]) for name, took in ours.items()
    ]
    figures.append(Figure("admin", "Django admin's changelist of the letters, p50", "ms", [admin]))
    return Report("pages", facts, [*figures, *(check.figure for check in checks)], checks)


# --- The data ---------------------------------------------------------------------------------------------------------


def _queues() -> dict[SourceQueue, list[int]]:
    """The queues, each with the leaves of its causes; of one in ten the fix is declared."""
    owners = [Owner.objects.create(name=f"Team {n}", slug=f"team-{n}") for n in range(5)]
    dice, found = Random(0), {}
    for number in range(QUEUES):
        queue = SourceQueue.objects.create(name=f"queue-{number:03}", owner=owners[number % len(owners)])
        errors = [Told("LookupError", f"{word} not found in {queue.name}") for word in _words(dice)]
        leaves = found[queue] = assign_all(queue_id=queue.pk, errors=errors)
        if number % 10 == 0:
            root = ErrorCluster.objects.get(pk=leaves[0])
            sign_diagnosis(cluster=root, by=None, kind="permanent", cause="it was not there", fix="it is")
    return found


def _words(dice: Random) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(dice.choices(letters, k=9)) for _ in range(CAUSES)]


def _fill(leaves: dict[SourceQueue, list[int]], number: int) -> None:
    """So many more letters. The first queue has a tenth of them, as one queue often has most."""
    first, *rest = leaves
    shares = {first: number // 10} | dict.fromkeys(rest, (number - number // 10) // len(rest))
    with connection.cursor() as cursor:
        for queue, share in shares.items():
            cursor.execute(_LETTERS, {"queue": queue.pk, "leaves": leaves[queue], "number": share})
        fold_all()
        cursor.execute("VACUUM ANALYZE")


def fold_all() -> None:
    """Fold the counts, as the sweep does."""
    while fold():
        pass


def _large_body() -> None:
    """The newest letter has a body of 30 MB."""
    body = b'{"text": "' + b"x" * LARGE_BODY + b'"}'
    DeadLetter.objects.filter(pk=DeadLetter.objects.latest("pk").pk).update(body=body, body_size=len(body))


# --- The looks --------------------------------------------------------------------------------------------------------


def addresses() -> dict[str, str]:
    """Each page that is measured, and what is looked for."""
    queue = SourceQueue.objects.earliest("pk")
    letter, cluster = DeadLetter.objects.latest("pk"), ErrorCluster.objects.filter(queue=queue).earliest("pk")
    word = ErrorCluster.objects.filter(queue=queue).latest("pk").sample_text.split()[0]
    return {
        "overview": reverse("overview"),
        "letters": reverse("letters"),
        "letters of a queue": reverse("letters", query={"q": f"queue:{queue.name}"}),
        "letters of a cluster": reverse("letters", query={"q": f"cluster:{cluster.pk}"}),
        "old letters": reverse("letters", query={"q": "age:>1h attempts:>1"}),
        "search": reverse("letters", query={"q": f"error:{word}"}),
        "search words": reverse("letters", query={"q": 'error:"not found in"'}),
        "queue": reverse("queue", args=[queue.name]),
        "cluster": reverse("cluster", args=[cluster.pk]),
        "letter": reverse("letter", args=[letter.pk]),
        "redrives": reverse("redrives"),
        "alerts": reverse("alerts"),
        "system": reverse("system"),
    }


def _look(say: Say) -> tuple[dict[str, list[float]], dict[str, int]]:
    """The times of each page and of each live fragment, in ms, and how many queries it takes."""
    browser, took, queries = _browser(), {}, {}
    for name, address in addresses().items():
        for form, headers in ((name, {}), (f"{name}, live", {"HX-Request": "true"})):
            if headers and b"hx-get" not in browser.get(address).content:
                continue
            took[form] = [_seconds(browser, address, headers) for _ in range(LOOKS + 2)][2:]
            with CaptureQueriesContext(connection) as captured:
                browser.get(address, headers=headers)
            queries[form] = len(captured)
            say(
                f"  {form}: p50 {_p50(took[form]):.1f}, p95 {_p95(took[form]):.1f} ms, {queries[form]} queries"
            )
    return took, queries


def _browser() -> Client:
    """Somebody who is signed in and may see everything."""
    browser = Client(headers={"host": "127.0.0.1"})
    user, _made = get_user_model().objects.get_or_create(username="bench", is_superuser=True, is_staff=True)
    browser.force_login(user)
    return browser


def _seconds(browser: Client, address: str, headers: dict[str, str]) -> float:
    began = time.perf_counter()
    response = browser.get(address, headers=headers)
    took = 1_000 * (time.perf_counter() - began)
    if response.status_code not in (200, 204):
        raise AssertionError(f"{address}: {response.status_code}")
    return took


def _peer(say: Say) -> list[float]:
    """The changelist of Django's admin, with the same columns, 50 rows a page; ms."""
    with override_settings(
        INSTALLED_APPS=[*settings.INSTALLED_APPS, "django.contrib.admin"], ROOT_URLCONF="bench.admin_urls"
    ):
        browser, address = _browser(), "/admin/dlqadmin/deadletter/"
        took = [_seconds(browser, address, {}) for _ in range(6)][1:]
    say(f"  admin: p50 {_p50(took):.1f} ms")
    return took


def _p50(took: list[float]) -> float:
    return sorted(took)[len(took) // 2]


def _p95(took: list[float]) -> float:
    return quantiles(took, n=20, method="inclusive")[-1]
