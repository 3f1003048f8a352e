"""Which cluster an error belongs to."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from dlqadmin.clusters.assign import Told, assign, assign_all
from dlqadmin.clusters.fingerprint import NO_ERROR
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.text import display_safe


def test_errors_of_one_cause_share_a_cluster_in_their_queue(queue, make_queue) -> None:
    first = assign(queue_id=queue.pk, error_class="E", error_text="loan 7 lost")
    assert assign(queue_id=queue.pk, error_class="E", error_text="loan 13 lost") == first
    assert assign(queue_id=make_queue("other").pk, error_class="E", error_text="loan 7 lost") != first


def test_an_error_keeps_its_leaf_when_the_leaf_is_merged(queue) -> None:
    old = assign(queue_id=queue.pk, error_class="", error_text="a")
    new = assign(queue_id=queue.pk, error_class="", error_text="b")
    ErrorCluster.objects.filter(pk=old).update(merged_into=new)
    assert assign(queue_id=queue.pk, error_class="", error_text="a") == old


@pytest.mark.django_db(transaction=True)
def test_any_number_of_writers_agree(queue) -> None:
    def write(_: int) -> int:
        try:
            return assign(queue_id=queue.pk, error_class="E", error_text="the same")
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(write, range(40)))) == 1
    assert ErrorCluster.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_sixteen_writers_with_new_errors_in_any_order_never_wait_in_a_circle(queue) -> None:
    texts = [f"no column {letter * 3} in the file" for letter in "abcdefghijklmnopqrst"]

    def write(seed: int) -> list[int]:
        order = random.Random(seed).sample(texts, len(texts))
        try:
            with transaction.atomic():
                leaves = assign_all(queue_id=queue.pk, errors=[Told("E", text) for text in order])
                return [leaf for _, leaf in sorted(zip(order, leaves, strict=True))]
        finally:
            connection.close()

    with ThreadPoolExecutor(16) as pool:
        assert len(set(map(tuple, pool.map(write, range(64))))) == 1
    assert ErrorCluster.objects.count() == len(texts)


# C42
def test_no_error_and_a_lost_worker_are_clusters_of_their_own(queue) -> None:
    assert (
        ErrorCluster.objects.get(pk=assign(queue_id=queue.pk, error_class="", error_text="")).template
        == NO_ERROR
    )
    lost = assign(queue_id=queue.pk, error_class="WorkerLost", error_text="the worker was lost")
    assert lost != assign(queue_id=queue.pk, error_class="", error_text="")


# C48
def test_nul_in_an_error_never_fails(queue) -> None:
    assert assign(queue_id=queue.pk, error_class="E", error_text=display_safe("a\x00b"))


# C49
def test_a_text_of_any_length_can_be_indexed(queue) -> None:
    text = "".join(chr(0x4E00 + n % 20_000) for n in range(10_000))
    assert assign(queue_id=queue.pk, error_class="E", error_text=text)
