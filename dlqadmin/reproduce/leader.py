"""Section 2 of the published figures: leases, fencing and durable triggers, turn by turn.

Lease, Epoch, fenced writes and Triggers are the real ones, in PostgreSQL; only the clock is ours: one second a turn.
The published nodes believe that they lead until they look at the record again, so belief here is holding a token; the
rule that a real node stops by its own clock (`Lease.leads`) would hide what the tables measure.
"""

import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection

from dlqadmin.leases import triggers
from dlqadmin.leases.jobs import Job
from dlqadmin.leases.lease import FencedOut, Lease
from dlqadmin.leases.models import Epoch, FencedWrite, TakeOver, Trigger
from dlqadmin.leases.models import Lease as LeaseRow
from dlqadmin.leases.run import as_run, guarded
from dlqadmin.leases.schedule import Every
from dlqadmin.reproduce.table import Table

NODES, TURNS, PERIOD = 5, 24, 6
FIRST_PAUSED = 6
BATCH_ROWS = 4000
START = datetime(2026, 1, 1, tzinfo=UTC)  # a multiple of the period, so that turns 6, 12, 18, 24 are due


@dataclass(frozen=True, slots=True)
class Setting:
    """One run of the model: lease, re-reading and pause in turns; what protects it."""

    lease: int = 3
    renewal: int = 3
    pause: int = 5
    fencing: bool = False
    durable: bool = False


@dataclass(slots=True)
class Measures:
    """What a run measured, under the published names."""

    started: int = 0
    missed: int = 0
    late: int = 0
    doubled: int = 0
    rejected: int = 0
    two_leaders: int = 0
    leaderless: int = 0
    take_over: int = 0


@dataclass
class Cluster:
    """Five nodes with one lease."""

    setting: Setting
    name: str
    turn: int = 0

    def __post_init__(self) -> None:
        self.nodes = [
            Lease(self.name, f"{self.name}-{number}", self.setting.lease, now=self.now)
            for number in range(NODES)
        ]
        self.job = Job(self.name, self.effect, Every(PERIOD), catch_up="all")

    def now(self) -> datetime:
        """The turn as a moment."""
        return START + timedelta(seconds=self.turn)

    def reachable(self, number: int) -> bool:
        """Whether a node is reachable in this turn: all are but node 0 in its pause."""
        return number != 0 or not FIRST_PAUSED <= self.turn < FIRST_PAUSED + self.setting.pause

    def effect(self, due: int | None = None) -> None:
        """Start the batch that is due: a row, so that a rolled-back transaction leaves none."""
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO reproduce_effect VALUES (%s, %s)", [due or self.turn, self.turn])

    def play(self) -> Measures:
        """All turns; what they measured."""
        measures = Measures()
        self.nodes[0].acquire()
        for self.turn in range(1, TURNS + 1):
            self.renew_or_take_over()
            working = [n for n, node in enumerate(self.nodes) if node.token is not None and self.reachable(n)]
            measures.two_leaders += len(working) > 1
            measures.leaderless += not working
            for number in working:
                self.work(number)
            if self.turn % self.setting.renewal == 0:
                for number in working:
                    self.nodes[number].renew()  # finds out who leads; a node that does not, gives up
        return self.measured(measures)

    def renew_or_take_over(self) -> None:
        """The holder renews if it is reachable; then every other node tries, in its order."""
        holder = LeaseRow.objects.get(pk=self.name).holder
        for number, node in enumerate(self.nodes):
            if node.node == holder and self.reachable(number):
                node.renew()
        for number, node in enumerate(self.nodes):
            if node.node != holder and self.reachable(number) and node.acquire():
                return

    def work(self, number: int) -> None:
        """One turn of a node that believes."""
        node = self.nodes[number]
        try:
            if self.setting.durable:
                self.make_and_run(node)
            elif self.setting.fencing:
                with node.fenced("turn"):
                    self.start_if_due()
            else:
                self.start_if_due()
        except FencedOut:
            pass  # counted and listed where it happened

    def start_if_due(self) -> None:
        """Start the batch if this is one of its turns."""
        if self.turn % PERIOD == 0:
            self.effect()

    def make_and_run(self, node: Lease) -> None:
        """Make the triggers that are due since the last one, and run them."""
        after = triggers.last_due([self.name]).get(self.name, START)
        for trigger, _ in triggers.make(node, triggers.plan(self.job, after, self.now())):
            run = triggers.start(trigger, self.job, node.node)
            if run is None:
                raise AssertionError("a new trigger could not be started")
            due = Trigger.objects.get(pk=trigger).due_at
            with as_run(run), guarded():
                self.effect(int((due - START).total_seconds()))
            triggers.finish(run)

    def measured(self, measures: Measures) -> Measures:
        """Add what the rows say."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT due, done FROM reproduce_effect")
            effects = cursor.fetchall()
        batches = Counter(due for due, _ in effects)
        measures.started = len(batches)
        measures.missed = TURNS // PERIOD - len(batches)
        measures.doubled = sum(batches.values()) - len(batches)
        measures.late = sum(done - due for due, done in effects)
        measures.rejected = FencedWrite.objects.filter(node__startswith=f"{self.name}-").count()
        for taken in TakeOver.objects.filter(name=self.name, token__gt=1):
            waited = (taken.at - taken.free_since).total_seconds() if taken.free_since else 0
            measures.take_over += int(waited) + self.setting.lease
        return measures


def play(setting: Setting) -> Measures:
    """One run; nothing of it is left behind."""
    with _scratch() as name:
        return Cluster(setting, name).play()


@contextmanager
def _scratch() -> Iterator[str]:
    name = f"reproduce-{secrets.token_hex(6)}"
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE reproduce_effect (due int NOT NULL, done int NOT NULL)")
    try:
        yield name
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE reproduce_effect")
        for rows in (
            LeaseRow.objects.filter(name=name),
            Epoch.objects.filter(name=name),
            TakeOver.objects.filter(name=name),
            Trigger.objects.filter(job=name),
            FencedWrite.objects.filter(node__startswith=f"{name}-"),
        ):
            rows.delete()


def leader() -> list[Table]:
    """The three tables."""
    columns = [
        play(Setting()),
        play(Setting(fencing=True)),
        play(Setting(fencing=True, durable=True)),
    ]
    return [_protection(columns), _sweep(), _yearly(columns[0])]


_MEASURES = [
    ("batches started", "started", (3, 3, 4)),
    ("batches missed", "missed", (1, 1, 0)),
    ("late-start turns", "late", (0, 0, 2)),
    ("batches started twice", "doubled", (1, 0, 0)),
    ("rejected by fencing", "rejected", (0, 2, 2)),
    ("turns with two leaders", "two_leaders", (2, 2, 2)),
    ("turns without a leader", "leaderless", (2, 2, 2)),
    ("take-over turns", "take_over", (3, 3, 3)),
]


def _protection(columns: list[Measures]) -> Table:
    return Table(
        "2. Pause 5, lease 3, renewal 3",
        ("measure", "plain", "fencing", "fencing + durable trigger"),
        published=[(title, *values) for title, _, values in _MEASURES],
        measured=[(title, *(getattr(column, name) for column in columns)) for title, name, _ in _MEASURES],
    )


def _sweep() -> Table:
    published = {
        (2, 5): (2, 1, 1, 2, 1),
        (3, 5): (3, 2, 1, 2, 1),
        (5, 5): (5, 4, 1, 2, 1),
        (8, 5): (0, 5, 1, 0, 0),
        (2, 2): (2, 1, 1, 2, 0),
        (3, 2): (0, 2, 1, 0, 0),
        (5, 2): (0, 2, 1, 0, 0),
        (8, 2): (0, 2, 1, 0, 0),
    }
    measured = {(lease, pause): play(Setting(lease=lease, pause=pause)) for lease, pause in published}
    return Table(
        "2. Sweep of the lease, no fencing",
        ("lease", "pause", "take-over", "leaderless", "missed", "two leaders", "doubled"),
        published=[(*key, *row) for key, row in published.items()],
        measured=[
            (*key, m.take_over, m.leaderless, m.missed, m.two_leaders, m.doubled)
            for key, m in measured.items()
        ],
    )


def _yearly(plain: Measures) -> Table:
    """The shares of turns, times the take-overs of a year, times the rows of a batch."""
    rows = []
    for take_overs in (6, 12):
        missed, doubled = (take_overs * turns / TURNS for turns in (plain.leaderless, plain.two_leaders))
        rows.append(
            (
                take_overs,
                f"{missed:.2f}",
                round(missed * BATCH_ROWS),
                f"{doubled:.2f}",
                round(doubled * BATCH_ROWS),
            )
        )
    return Table(
        f"2. Expected in a year, a batch being {BATCH_ROWS} rows",
        ("take-overs", "missed", "rows never made", "doubled", "rows twice"),
        published=[(6, "0.50", 2000, "0.50", 2000), (12, "1.00", 4000, "1.00", 4000)],
        measured=rows,
    )
