"""Which cluster an error belongs to."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from dlqadmin.clusters.assign import assign
from dlqadmin.clusters.models import ErrorCluster


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


def test_a_text_of_any_length_can_be_indexed(queue) -> None:
    text = "".join(chr(0x4E00 + n % 20_000) for n in range(10_000))
    assert assign(queue_id=queue.pk, error_class="E", error_text=text)
