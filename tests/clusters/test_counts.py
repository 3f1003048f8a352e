"""The counts of a cluster are right at any moment, folded or not, for the whole of its group."""

from datetime import timedelta

import pytest

from dlqadmin.clock import db_now
from dlqadmin.clusters.counts import counts_of, fold, prune_hours, trend_of
from dlqadmin.clusters.merging import merge
from dlqadmin.clusters.models import ClusterDelta, ClusterHour, ErrorCluster
from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.run import send_pending
from dlqadmin.redrive.start import NO_CANARY, start_redrive
from tests.clusters.told import letters_of

pytestmark = pytest.mark.django_db


def test_letters_are_counted_as_they_come_and_leave_folded_or_not(make_queue, handle) -> None:
    queue = make_queue(max_attempts=1)

    def boom(message) -> None:
        raise LookupError("member not found")

    handle(queue, boom)
    publish_many(queue, [Outgoing(type="note", body={}) for _ in range(3)])
    consume_once(queue)
    cluster = ErrorCluster.objects.get()
    for _ in range(2):
        counts = counts_of([cluster.pk])[cluster.pk]
        assert (counts.open, counts.total, counts.templates) == (3, 3, 1)
        assert trend_of([cluster.pk], db_now())[-1] == 3
        fold()
    assert not ClusterDelta.objects.exists()
    assert ErrorCluster.objects.get().last_seen_at is not None
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="missing", fix="added")
    send_pending(start_redrive(letters=of_cluster(cluster), by=None, options=NO_CANARY))
    assert counts_of([cluster.pk])[cluster.pk].open == 0
    consume_once(queue)  # they die again
    counts = counts_of([cluster.pk])[cluster.pk]
    assert (counts.open, counts.total) == (3, 6)


def test_a_group_counts_what_its_leaves_count(queue) -> None:
    letters = letters_of(queue, ["a is lost", "a is lost", "b has gone"])
    fold()
    letters_of(queue, ["b has gone"])
    one, other = (ErrorCluster.objects.get(pk=letter.cluster.pk) for letter in (letters[0], letters[2]))
    merge(into=one, others=[other], by=None)
    counts = counts_of([one.pk])[one.pk]
    assert (counts.open, counts.total, counts.templates) == (4, 4, 2)


def test_the_trend_forgets_what_no_page_shows(queue) -> None:
    (letter,) = letters_of(queue, ["a is lost"])
    fold()
    ClusterHour.objects.update(hour=db_now() - timedelta(days=15))
    prune_hours()
    assert not ClusterHour.objects.exists()
    assert trend_of([letter.cluster.pk], db_now()) == [0] * 24
