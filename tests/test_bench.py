"""`manage.py bench`: what it makes of measured values. The measuring itself needs RabbitMQ, and minutes."""

import json
from collections.abc import Callable
from typing import Any

import environ
import pytest
from django.core.management import CommandError, call_command

from bench import sandbox
from bench.consume import report
from bench.errors import BenchError
from bench.measure import LEAST, MOST, Plan, run, size, steady_rate
from bench.names import everything, queue_settings
from bench.registry import BENCHES
from bench.report import Figure, Report, Target, ratio

FAST = Figure("fast", "ours", "messages/s", [900.0, 1000.0, 800.0])
SLOW = Figure("slow", "theirs", "messages/s", [90.0, 200.0, 100.0])


def made_up(bound: float) -> Report:
    """A report whose only target compares 8 with `bound`."""
    times = ratio(FAST, SLOW)
    return Report("made-up", {"cpu": "2 x some"}, [FAST, SLOW, times], [Target(times, ">=", bound)])


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Let a function, or a report, be what `manage.py bench made-up` measures."""

    def measures(outcome: Any) -> None:
        function = outcome if callable(outcome) else lambda quick, say: outcome
        monkeypatch.setitem(BENCHES, "made-up", function)

    return measures


# --- Figures and targets


def test_a_figure_is_a_median_with_its_spread():
    assert FAST.as_json() == {
        "what": "ours",
        "unit": "messages/s",
        "value": 900.0,
        "min": 800.0,
        "max": 1000.0,
        "rounds": [900.0, 1000.0, 800.0],
    }


def test_a_ratio_is_taken_round_by_round():
    times = ratio(FAST, SLOW)
    assert times.rounds == [10.0, 5.0, 8.0]
    assert (times.name, times.value, times.unit) == ("fast / slow", 8.0, "ratio")


@pytest.mark.parametrize(
    ("op", "bound", "holds"), [(">=", 8, True), (">=", 8.001, False), ("<=", 8, True), ("<=", 7.999, False)]
)
def test_a_target_holds_at_its_bound(op: Any, bound: float, holds: bool):
    target = Target(ratio(FAST, SLOW), op, bound)
    assert target.holds is holds
    assert target.as_json() == {"name": "fast / slow", "value": 8.0, "op": op, "bound": bound, "holds": holds}


def test_a_target_judges_the_unrounded_value():
    almost = Figure("x", "x", "ratio", [7.99996])
    assert not Target(almost, ">=", 8).holds


def test_consume_has_the_bounds_of_its_issue_and_the_stronger_peer_beside_them():
    names = ("a", "a_kept", "b", "b2", "c", "n", "d", "p", "ap", "ap_kept")
    outcome = report([Figure(name, name, "messages/s", [100.0]) for name in names], {})
    bounds = {target.figure.name: (target.op, target.bound) for target in outcome.targets}
    assert bounds == {
        "b / a": (">=", 8),
        "b2 / a": (">=", 6),
        "c / a": (">=", 1.2),
        "n / d": (">=", 0.35),
        "p / ap": (">=", 4),
    }
    assert {"b / a_kept", "b2 / a_kept", "c / a_kept", "p / ap_kept"} <= outcome.as_json()["figures"].keys()
    assert not outcome.holds


# --- Rates


def test_the_steady_rate_leaves_out_the_first_tenth():
    samples = [(0.0, 0), (5.0, 50), (6.0, 100), (8.0, 600), (9.0, 1000)]
    assert steady_rate(samples, 1000) == 900 / 3


def test_a_round_that_nobody_saw_run_counts_from_its_start():
    assert steady_rate([(1.0, 0), (1.5, 400)], 400) == 800


@pytest.mark.parametrize(("rate", "number"), [(900, 2000), (1, LEAST), (1e9, MOST)])
def test_a_round_lasts_about_as_long_as_planned(rate: float, number: int):
    assert size(rate, 2.0) == number


@pytest.mark.parametrize(
    ("done", "elapsed", "allowed"),
    [(0, 99, True), (1, 20, True), (1, 31, False), (2, 5, True), (3, 5, False)],
)
def test_a_quick_run_makes_at_least_one_round_and_no_more_than_fit(done: int, elapsed: float, allowed: bool):
    plan = Plan(rounds=3, seconds=0.5, budget=40)
    assert plan.allows(done, elapsed, round_seconds=10) is allowed


class Steps:
    """A variant that finishes a tenth of its messages each time one looks."""

    name, what, warm_up = "steps", "steps", 10

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.done = 0

    def prepare(self, number: int) -> None:
        self.calls.append("prepare")
        self.number = number

    def start(self) -> None:
        self.calls.append("start")

    def check(self) -> None:
        pass

    def finished(self) -> int:
        self.done += self.number // 10
        return self.done

    def stop(self) -> None:
        self.calls.append("stop")


def test_a_run_heaps_up_starts_looks_and_stops():
    variant = Steps()
    assert run(variant, 100) > 0
    assert variant.calls == ["prepare", "start", "stop"]
    assert variant.done == 100


# --- The command


def test_json_is_one_object_on_stdout(bench, capsys):
    bench(made_up(8))
    call_command("bench", "made-up", "--json")
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"name", "machine", "figures", "targets"}
    assert printed["name"] == "made-up"
    assert printed["targets"] == [
        {"name": "fast / slow", "value": 8.0, "op": ">=", "bound": 8, "holds": True}
    ]


def test_the_table_names_every_figure_and_verdict(bench, capsys):
    bench(made_up(8))
    call_command("bench", "made-up")
    printed = capsys.readouterr().out
    for words in ("cpu: 2 x some", "fast", "900", "fast / slow", "8.00 >= 8: holds"):
        assert words in printed


def test_a_target_that_does_not_hold_is_exit_code_1(bench, capsys):
    bench(made_up(9))
    with pytest.raises(CommandError, match="fast / slow") as ended:
        call_command("bench", "made-up", "--json")
    assert ended.value.returncode == 1
    assert json.loads(capsys.readouterr().out)["targets"][0]["holds"] is False


@pytest.mark.parametrize("quick", [True, False])
def test_quick_is_passed_on_and_progress_goes_to_stderr(bench, capsys, quick: bool):
    def function(asked: bool, say: Callable[[str], None]) -> Report:
        say(f"quick: {asked}")
        return made_up(8)

    bench(function)
    call_command("bench", "made-up", "--json", quick=quick)
    printed = capsys.readouterr()
    assert f"quick: {quick}" in printed.err
    assert "quick:" not in printed.out


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (BenchError("Start RabbitMQ."), 1, "Start RabbitMQ."),
        (ConnectionRefusedError("refused"), 1, "RabbitMQ failed"),
        (KeyboardInterrupt(), 130, "removed"),
    ],
)
def test_what_goes_wrong_is_a_sentence(bench, error: BaseException, code: int, said: str):
    def function(quick: bool, say: Callable[[str], None]) -> Report:
        raise error

    bench(function)
    with pytest.raises(CommandError, match=said) as ended:
        call_command("bench", "made-up")
    assert ended.value.returncode == code


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(CommandError, match=r"No bench nothing\. There are: claim, cluster, consume"):
        call_command("bench", "nothing")


# --- What a run makes of the machine


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqp://guest:secret@127.0.0.1:9//", "does not answer at 127.0.0.1:9"),
        ("redis://127.0.0.1", "amqp://"),
    ],
)
def test_no_rabbitmq_is_said_without_the_password(monkeypatch, url: str, said: str):
    monkeypatch.setenv("BENCH_AMQP_URL", url)
    with pytest.raises(BenchError, match=said) as raised, sandbox.scratch_broker("bench-x"):
        pass
    assert "BENCH_AMQP_URL" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("name", ["fsync", "synchronous_commit"])
def test_a_server_that_does_not_wait_for_its_disk_is_refused(monkeypatch, name: str):
    monkeypatch.setattr(sandbox, "setting", lambda asked: "off" if asked == name else "on")
    with pytest.raises(BenchError, match=f"{name}=off"):
        sandbox._check_durable()


def test_the_url_of_a_database_says_the_same_as_its_settings():
    database = {
        "NAME": "bench db",
        "USER": "someone",
        "PASSWORD": "p/w@:",
        "HOST": "/tmp/a folder",
        "PORT": "5433",
        "OPTIONS": {"sslmode": "disable"},
    }
    read = environ.Env.db_url_config(sandbox.database_url(database))
    assert (read["NAME"], read["USER"], read["PASSWORD"]) == ("bench db", "someone", "p/w@:")
    assert read["OPTIONS"] == {"host": "/tmp/a folder", "port": 5433, "sslmode": "disable"}


def test_everything_on_the_broker_has_the_prefix_of_the_run():
    queues: list[Any] = queue_settings("bench-1234")["task_queues"]
    assert {queue.alias for queue in queues} == {"consumers", "system"}
    names = [queue.name for queue in queues] + [queue.exchange.name for queue in queues]
    assert set(names) <= set(everything("bench-1234"))
    assert all(name.startswith("bench-1234-") and len(name) <= 40 for name in everything("bench-1234"))
