"""What was done before: the ledger of ids, and the newest version of each key."""

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
from django.db import connection, transaction

from dlqadmin.messages.idempotency import (
    NO_VERSION,
    drop_unused_locks,
    enter_ids,
    forget_ids,
    judge_version,
    known_ids,
    known_versions,
    lock_versions,
    raise_versions,
)
from dlqadmin.messages.models import Discard, KeyVersion, ProcessedId
from dlqadmin.messages.publish import Outgoing
from tests.consumers.work import Session, wait_until_blocked

REAL = pytest.mark.django_db(transaction=True)
EDGES = [NO_VERSION + 1, -2, -1, 0, 1, 2, 2**63 - 1]


@pytest.fixture
def session():
    session = Session()
    yield session
    session.close()


@pytest.mark.parametrize(("version", "newest"), list(product(EDGES, EDGES)))
def test_equal_is_a_duplicate_lower_is_stale_and_higher_runs(version, newest) -> None:
    kind = judge_version(version, newest)
    if version == newest:
        assert kind is Discard.Kind.DUPLICATE
    else:
        assert kind is (Discard.Kind.STALE if version < newest else None)


@pytest.mark.parametrize("version", EDGES)
def test_any_version_that_can_be_published_runs_where_none_was_processed(version) -> None:
    assert Outgoing(type="note", body=b"", version=version)
    assert judge_version(version, NO_VERSION) is None


@pytest.mark.parametrize("version", [NO_VERSION, NO_VERSION - 1, 2**63])
def test_a_version_that_could_not_be_kept_is_refused_at_its_publishing(version) -> None:
    with pytest.raises(ValueError, match="version"):
        Outgoing(type="note", body=b"", version=version)


def test_an_id_is_entered_once_for_each_queue(make_queue) -> None:
    one, other = make_queue("one").pk, make_queue("other").pk
    assert enter_ids(one, ["a", "b"]) == {"a", "b"}
    assert enter_ids(one, ["b", "c"]) == {"c"}
    assert enter_ids(other, ["a"]) == {"a"}
    assert known_ids(one, ["a", "b", "c", "d"]) == {"a", "b", "c"}
    assert known_ids(other, ["a", "b"]) == {"a"}


def test_an_id_that_was_forgotten_can_be_entered_again(queue) -> None:
    enter_ids(queue.pk, ["a", "b"])
    forget_ids(queue.pk, ["a", "never there"])
    assert known_ids(queue.pk, ["a", "b"]) == {"b"}
    assert enter_ids(queue.pk, ["a"]) == {"a"}


@pytest.mark.parametrize("ids", [[], ["x" * 255], ["ü", "🦉", " ", "'; DROP"]])
def test_any_id_can_be_entered(queue, ids) -> None:
    assert enter_ids(queue.pk, ids) == set(ids)
    assert known_ids(queue.pk, ids) == set(ids)


def test_a_lock_answers_with_the_newest_version_and_leaves_no_row_if_nothing_was_done(queue) -> None:
    raise_versions(queue.pk, {b"a": 3, b"\x00\xff": -5})
    assert lock_versions(queue.pk, [b"a", b"new", b"\x00\xff"]) == {
        b"a": 3,
        b"new": NO_VERSION,
        b"\x00\xff": -5,
    }
    drop_unused_locks(queue.pk, [b"a", b"new"])
    assert known_versions(queue.pk, [b"a", b"new", b"\x00\xff"]) == {b"a": 3, b"\x00\xff": -5}


def test_a_version_is_only_ever_raised(queue) -> None:
    raise_versions(queue.pk, {b"a": 3})
    before = KeyVersion.objects.get().processed_at
    raise_versions(queue.pk, {b"a": 2})
    assert KeyVersion.objects.get().processed_at == before
    raise_versions(queue.pk, {b"a": 7})
    raise_versions(queue.pk, {})
    assert known_versions(queue.pk, [b"a"]) == {b"a": 7}
    assert KeyVersion.objects.get().processed_at > before


@REAL
def test_who_enters_an_id_that_another_is_at_waits_and_finds_it_known(queue, session) -> None:
    with transaction.atomic():
        enter_ids(queue.pk, ["a"])
        late = session.start(enter_ids, queue.pk, ["a", "b"])
        assert wait_until_blocked(late)
    assert late.result(timeout=20) == {"b"}


@REAL
def test_who_enters_an_id_that_another_was_at_in_vain_finds_it_free(queue, session) -> None:
    with transaction.atomic():
        enter_ids(queue.pk, ["a"])
        late = session.start(enter_ids, queue.pk, ["a"])
        assert wait_until_blocked(late)
        forget_ids(queue.pk, ["a"])
    assert late.result(timeout=20) == {"a"}


@REAL
def test_who_locks_a_key_that_another_is_at_waits_and_sees_its_version(queue, session) -> None:
    with transaction.atomic():
        lock_versions(queue.pk, [b"a", b"b"])
        late = session.start(lock_versions, queue.pk, [b"b", b"a"])
        assert wait_until_blocked(late)
        raise_versions(queue.pk, {b"a": 5})
        drop_unused_locks(queue.pk, [b"b"])
    assert late.result(timeout=20) == {b"a": 5, b"b": NO_VERSION}


@REAL
def test_batches_over_the_same_ids_and_keys_in_any_order_do_not_deadlock(queue) -> None:
    names = [f"m-{n}" for n in range(30)]

    def work(seed: int) -> int:
        dice, done = random.Random(seed), 0
        try:
            for _ in range(15):
                some = dice.sample(names, 20)
                with transaction.atomic():
                    entered = enter_ids(queue.pk, some)
                    versions = lock_versions(queue.pk, [name.encode() for name in some])
                    raise_versions(
                        queue.pk,
                        {
                            key: max(version, 0) + 1
                            for key, version in versions.items()
                            if dice.random() < 0.5
                        },
                    )
                    drop_unused_locks(queue.pk, versions)
                    forget_ids(queue.pk, [one for one in entered if dice.random() < 0.5])
                done += 1
        finally:
            connection.close()
        return done

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [15] * 4
    assert not KeyVersion.objects.filter(version=NO_VERSION).exists()
    assert ProcessedId.objects.count() <= len(names)
