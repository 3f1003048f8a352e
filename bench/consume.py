"""`manage.py bench consume`: how fast messages are consumed, beside plain Celery and a bare loop (bench/README.md)."""

import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connection

from bench import bare, effect, machine
from bench.errors import BenchError
from bench.measure import Plan, Variant, run, size
from bench.names import PREFIX_VARIABLE, peer_queue
from bench.peer import GIVEN_UP_VARIABLE, KEEP_VARIABLE, configuration
from bench.peer import app as peer_app
from bench.report import Figure, Report, Target, ratio
from bench.sandbox import Processes, database_url, scratch_broker, scratch_database
from bench.variants import Bare, Ours, Peer, touch
from dlqadmin.brokers.pgmq import conninfo

Say = Callable[[str], None]

FULL = Plan(rounds=5, seconds=3.5)
QUICK = Plan(rounds=3, seconds=0.6, warm_up_share=0.3, budget=37.0)

# Figure / peer or limit >= bound.
TARGETS = (("b", "a", 8), ("b2", "a", 6), ("c", "a", 1.2), ("n", "d", 0.35), ("p", "ap", 4))
# Shown, without a bound: the same against a peer that keeps its connection.
SHOWN = (("b", "a_kept"), ("b2", "a_kept"), ("c", "a_kept"), ("p", "ap_kept"))

_WORKER = ["-m", "celery", "--quiet", "-A", "dlqadmin", "worker", "-l", "WARNING"]
_PEER_WORKER = ["-m", "celery", "--quiet", "-A", "bench.peer", "worker", "-l", "WARNING"]
_TWO = ["--concurrency", "2", "--without-gossip", "--without-mingle", "--without-heartbeat"]


def consume(quick: bool, say: Say) -> Report:
    """Measure every variant in turn, several rounds over; `say` takes lines of progress. Raises BenchError."""
    plan, began = (QUICK if quick else FULL), time.monotonic()
    with _everything_running(say) as (variants, facts):
        last = {variant.name: _warmed_up(variant, plan, say) for variant in variants}
        rounds: list[dict[str, float]] = []
        longest = 0.0
        while plan.allows(len(rounds), time.monotonic() - began, longest):
            round_began = time.monotonic()
            last = {v.name: run(v, size(last[v.name], plan.seconds)) for v in variants}
            rounds.append(last)
            longest = max(longest, time.monotonic() - round_began)
            shown = "  ".join(f"{name} {rate:,.0f}" for name, rate in last.items())
            say(f"round {len(rounds)} of {plan.rounds} (messages/s): {shown}")
        rates = [Figure(v.name, v.what, "messages/s", [one[v.name] for one in rounds]) for v in variants]
        return report(rates, facts)


def report(rates: list[Figure], facts: dict[str, Any]) -> Report:
    """Figures, their ratios and the targets; `rates` are named as in TARGETS and SHOWN."""
    by_name = {figure.name: figure for figure in rates}
    bounded = [ratio(by_name[over], by_name[under]) for over, under, _ in TARGETS]
    shown = [ratio(by_name[over], by_name[under]) for over, under in SHOWN]
    targets = [Target(figure, ">=", bound) for figure, (_, _, bound) in zip(bounded, TARGETS, strict=True)]
    return Report("consume", facts, [*rates, *bounded, *shown], targets)


def _warmed_up(variant: Variant, plan: Plan, say: Say) -> float:
    """A first, short run, which counts for nothing: caches fill, and the rate says how large a round must be."""
    rate = run(variant, int(variant.warm_up * plan.warm_up_share))
    say(f"warmed up: {variant.name}, {variant.what}, about {rate:,.0f} messages/s")
    return rate


@contextmanager
def _everything_running(say: Say) -> Iterator[tuple[list[Variant], dict[str, Any]]]:
    """All variants, ready, and the facts of the machine."""
    prefix = f"bench-{secrets.token_hex(4)}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dlqadmin-bench-")))
        url, product = stack.enter_context(scratch_broker(prefix))
        database = stack.enter_context(scratch_database(prefix.replace("bench-", "dlqadmin_bench_")))
        facts = machine.describe(product)
        say(f"making the database {database['NAME']}")
        _make_tables()
        processes = stack.enter_context(Processes(folder))
        variants = _variants(processes, prefix, folder, conninfo(database))
        say("starting the workers")
        _start(processes, prefix, folder, {"DATABASE_URL": database_url(database), "CELERY_BROKER_URL": url})
        try:
            for variant in variants:
                if isinstance(variant, Peer):
                    variant.wait_until_ready()
            yield variants, facts
        except BenchError:
            say(processes.tail())
            raise
        finally:
            for variant in variants:
                if isinstance(variant, Bare):
                    variant.stop()


def _make_tables() -> None:
    call_command("migrate", verbosity=0, interactive=False)
    with connection.cursor() as cursor:
        cursor.execute(effect.TABLE)
        cursor.execute(bare.TABLE)


def _variants(processes: Processes, prefix: str, folder: Path, where: str) -> list[Variant]:
    """In the order in which they are measured in each round."""
    peer_app.conf.update(configuration(prefix))
    given_up = touch(folder / "given-up")
    closed, kept = _node("peer"), _node("peer-kept")

    def peer(name: str, what: str, node: str, **more: Any) -> Peer:
        return Peer(name, what, 200, processes, prefix, node, given_up, **more)

    return [
        peer("a", "plain Celery", closed),
        peer("a_kept", "plain Celery, connection kept", kept),
        Ours("b", "ours, atomic, repeatable", 4000, processes),
        Ours("b2", "ours, atomic", 3000, processes),
        Ours("c", "ours, not atomic", 600, processes),
        Ours("n", "ours, no-op", 6000, processes, inserts=False),
        Bare("d", "bare loop, no-op", 20_000, where),
        Ours("p", "ours, atomic, repeatable, 10 % poison", 1500, processes, poisonous=True),
        peer("ap", "plain Celery, 10 % poison", closed, poisonous=True),
        peer("ap_kept", "plain Celery, connection kept, 10 % poison", kept, poisonous=True),
    ]


def _node(name: str) -> str:
    return f"{name}@{socket.gethostname()}"


def _start(processes: Processes, prefix: str, folder: Path, where: dict[str, str]) -> None:
    """Our workers and beat as in the Procfile, and the two workers of the peer; they stay up to the end."""
    shared = where | {PREFIX_VARIABLE: prefix, "PYTHONUNBUFFERED": "1"}
    ours = shared | {
        "DJANGO_SETTINGS_MODULE": "bench.settings",
        "DLQADMIN_HANDLERS": "bench.handlers",
        "DLQADMIN_HOME": str(folder),
        "DLQADMIN_DEMO": "0",
    }
    peers = shared | {
        "DJANGO_SETTINGS_MODULE": "bench.peer_settings",
        GIVEN_UP_VARIABLE: str(folder / "given-up"),
    }
    processes.start("consumers", [*_WORKER, "--queues", "consumers", "-n", _node("consumers"), *_TWO], ours)
    system = ["--queues", "system", "-n", _node("system"), "--prefetch-multiplier", "4", *_TWO]
    processes.start("system", [*_WORKER, *system], ours)
    beat = [
        "-m",
        "celery",
        "--quiet",
        "-A",
        "dlqadmin",
        "beat",
        "-l",
        "WARNING",
        "--schedule",
        str(folder / "beat"),
    ]
    processes.start("beat", beat, ours)
    idle = ["--queues", peer_queue(prefix, "idle"), *_TWO]
    processes.start("peer", [*_PEER_WORKER, "-n", _node("peer"), *idle], peers | {KEEP_VARIABLE: ""})
    processes.start(
        "peer-kept", [*_PEER_WORKER, "-n", _node("peer-kept"), *idle], peers | {KEEP_VARIABLE: "1"}
    )
