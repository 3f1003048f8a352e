"""From a URL to the object it names, with what `may()` and the page's head need; Http404 if there is none."""

from django.db.models import BinaryField, F, Func, Value
from django.shortcuts import get_object_or_404

from dlqadmin.alerts.models import Alert
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.models import Redrive
from dlqadmin.web.body import HEAD_BYTES


def load_queue(name: str) -> SourceQueue:
    """The queue with this name."""
    return get_object_or_404(SourceQueue.objects.select_related("owner"), name=name)


def load_native_queue(name: str) -> SourceQueue:
    """The queue with this name, if its messages lie here: what runs elsewhere we cannot stop."""
    queues = SourceQueue.objects.select_related("owner").filter(
        kind=SourceQueue.Kind.NATIVE, archived_at=None
    )
    return get_object_or_404(queues, name=name)


def load_letter(pk: int) -> DeadLetter:
    """The letter, with the first bytes of its body as `body_head`; the body itself stays in the database."""
    head = Func(F("body"), Value(1), Value(HEAD_BYTES), function="substring", output_field=BinaryField())
    letters = DeadLetter.objects.select_related("queue__owner", "cluster").defer("body", "error_raw")
    return get_object_or_404(letters.annotate(body_head=head), pk=pk)


def load_cluster(pk: int) -> ErrorCluster:
    """The cluster."""
    return get_object_or_404(ErrorCluster.objects.select_related("queue__owner"), pk=pk)


def load_root(pk: int) -> ErrorCluster:
    """The cluster, or what it is merged into now: what people work on."""
    cluster = load_cluster(pk)
    return load_cluster(cluster.root_id) if cluster.merged_into_id else cluster


def load_redrive(pk: int) -> Redrive:
    """The redrive."""
    return get_object_or_404(Redrive.objects.select_related("queue__owner"), pk=pk)


def load_alert(pk: int) -> Alert:
    """The alert."""
    return get_object_or_404(Alert.objects.select_related("queue__owner"), pk=pk)
