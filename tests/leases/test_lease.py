"""One leader at a time."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from dlqadmin.leases.lease import FencedOut, Lease
from dlqadmin.leases.models import Epoch, FencedWrite, TakeOver
from dlqadmin.people.models import Owner


class Clock:
    """A clock that stands until it is moved, for the database's side and the node's."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nodes(clock) -> list[Lease]:
    return [Lease("beat", f"node-{n}", 6, now=clock.now, monotonic=clock.monotonic) for n in range(3)]


@pytest.mark.django_db(transaction=True)
class TestLease:
    def test_one_node_gets_it_and_the_others_do_not(self, nodes) -> None:
        assert [node.acquire() for node in nodes] == [True, False, False]
        assert [node.leads for node in nodes] == [True, False, False]
        assert nodes[0].token == 1

    def test_renewals_keep_it(self, nodes, clock) -> None:
        nodes[0].acquire()
        for _ in range(5):
            clock.seconds += 4
            assert nodes[0].renew()
            assert not nodes[1].acquire()
        assert nodes[0].token == 1

    def test_when_its_time_has_run_out_another_node_takes_over_under_the_next_token(
        self, nodes, clock
    ) -> None:
        nodes[0].acquire()
        clock.seconds = 5.9
        assert not nodes[1].acquire()
        clock.seconds = 6
        assert nodes[1].acquire()
        assert nodes[1].token == 2
        taken = TakeOver.objects.get(token=2)
        assert (taken.holder, taken.previous, taken.released) == ("node-1", "node-0", False)

    def test_a_node_that_lost_it_learns_so_at_its_renewal(self, nodes, clock) -> None:
        nodes[0].acquire()
        clock.seconds = 7
        nodes[1].acquire()
        assert not nodes[0].renew()
        assert nodes[0].token is None

    def test_a_late_renewal_is_good_as_long_as_nobody_took_over(self, nodes, clock) -> None:
        nodes[0].acquire()
        clock.seconds = 20
        assert nodes[0].renew()
        assert nodes[0].token == 1

    def test_after_a_release_it_is_free_at_once(self, nodes) -> None:
        nodes[0].acquire()
        nodes[0].release()
        assert nodes[1].acquire()
        assert TakeOver.objects.get(token=2).released

    def test_a_node_that_lost_it_cannot_release_what_another_holds(self, nodes, clock) -> None:
        nodes[0].acquire()
        clock.seconds = 7
        nodes[1].acquire()
        nodes[0].release()
        assert not nodes[2].acquire()

    def test_the_token_rises_by_one_and_never_repeats(self, nodes, clock) -> None:
        tokens = []
        for turn in range(20):
            node = nodes[turn % 3]
            assert node.acquire()
            tokens.append(node.token)
            if turn % 2:
                node.release()
            else:
                clock.seconds += 6
        assert tokens == list(range(1, 21))
        assert Epoch.objects.get().token == 20

    def test_a_node_stops_believing_when_the_lease_is_over_by_its_own_clock(self, nodes, clock) -> None:
        nodes[0].acquire()
        clock.seconds = 5.9
        assert nodes[0].leads
        clock.seconds = 6
        assert not nodes[0].leads

    def test_belief_counts_from_the_sending_of_a_renewal_and_not_from_its_answer(
        self, nodes, clock, monkeypatch
    ) -> None:
        node = nodes[0]
        node.acquire()
        clock.seconds = 2
        now = clock.now

        def slow() -> datetime:
            clock.seconds = 5  # the answer takes three seconds
            return now()

        node.now = slow
        assert node.renew()
        assert node.age == 3

    def test_a_with_block_holds_and_releases(self, nodes) -> None:
        with nodes[0].held() as mine:
            assert mine
            with nodes[1].held() as other:
                assert not other
        assert nodes[1].acquire()

    def test_the_database_clock_is_used_by_default(self, db) -> None:
        node = Lease("other", "n", 60)
        assert node.acquire()
        assert abs((node.database_now() - datetime.now(UTC)).total_seconds()) < 5


def save(name: str) -> None:
    Owner.objects.create(name=name, slug=name)


@pytest.mark.django_db(transaction=True)
class TestFencing:
    def test_the_leaders_write_commits(self, nodes) -> None:
        nodes[0].acquire()
        with nodes[0].fenced("a write"):
            save("written")
        assert Owner.objects.filter(name="written").exists()

    def test_a_late_holders_write_leaves_nothing_and_is_listed(self, nodes, clock) -> None:
        nodes[0].acquire()
        clock.seconds = 7
        nodes[1].acquire()
        with pytest.raises(FencedOut), nodes[0].fenced("a late write"):
            save("late")
        assert not Owner.objects.exists()
        fenced = FencedWrite.objects.get()
        assert (fenced.what, fenced.token, fenced.current, fenced.node) == ("a late write", 1, 2, "node-0")

    def test_a_fenced_write_does_not_delay_a_renewal(self, nodes) -> None:
        nodes[0].acquire()
        with nodes[0].fenced("long"):
            assert self._elsewhere(nodes[0].renew)

    def test_a_take_over_waits_for_a_fenced_write_in_flight(self, nodes, clock) -> None:
        nodes[0].acquire()
        clock.seconds = 7
        taking = threading.Thread(target=lambda: self._closing(nodes[1].acquire))
        with nodes[0].fenced("in flight"):
            taking.start()
            self._until_blocked()
            assert Epoch.objects.get().token == 1
        taking.join(10)
        assert Epoch.objects.get().token == 2

    def test_a_node_that_is_frozen_inside_a_fenced_write_does_not_hold_up_the_next_leader(
        self, nodes, clock, monkeypatch
    ) -> None:
        monkeypatch.setattr("dlqadmin.leases.lease.IDLE_LIMIT", "200ms")
        nodes[0].acquire()
        clock.seconds = 7
        frozen = threading.Event()
        woken = threading.Event()
        caught: list[type[BaseException]] = []

        def freeze() -> None:
            try:
                with nodes[0].fenced("frozen"):
                    save("frozen")
                    frozen.set()
                    woken.wait(10)
                    save("woken")
            except Exception as error:  # noqa: BLE001
                caught.append(type(error))
            finally:
                connection.close()

        thread = threading.Thread(target=freeze)
        thread.start()
        assert frozen.wait(10)
        assert nodes[1].acquire()
        woken.set()
        thread.join(10)
        assert caught
        assert not Owner.objects.exists()

    def test_it_may_not_hide_inside_another_transaction(self, nodes) -> None:
        nodes[0].acquire()
        with transaction.atomic(), pytest.raises(RuntimeError, match="durable"), nodes[0].fenced("x"):
            pass

    @staticmethod
    def _closing(act):
        try:
            return act()
        finally:
            connection.close()

    def _elsewhere(self, act):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self._closing(act)))
        thread.start()
        thread.join(10)
        return answers[0]

    @staticmethod
    def _until_blocked() -> None:
        """Wait until another session waits for a lock."""
        asked = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        with connection.cursor() as cursor:
            for _ in range(10_000):
                cursor.execute(asked)
                if cursor.fetchone()[0]:
                    return
        raise AssertionError("nobody waited")
