"""`python -m tests.faults.redrive_begin publish NUMBER | start`: what a person and a program do before the harms."""

import sys

import django

django.setup()

from dlqadmin.clusters.models import ErrorCluster  # noqa: E402 - models need the line above
from dlqadmin.deadletters.sets import of_cluster  # noqa: E402
from dlqadmin.messages.publish import Outgoing, publish_many  # noqa: E402
from dlqadmin.queues.models import SourceQueue  # noqa: E402
from dlqadmin.redrive.diagnose import sign_diagnosis  # noqa: E402
from dlqadmin.redrive.start import Options, start_redrive  # noqa: E402


def publish(number: int) -> None:
    """So many messages into a queue of their own, of a hundred keys."""
    queue = SourceQueue.objects.create(name="redriven", ordered=True, backoff_base=0.1)
    publish_many(queue, [Outgoing(type="effect", body={"n": n}, key=f"k{n % 100}") for n in range(number)])


def start() -> None:
    """Diagnose their cluster, and redrive it with a small window, so that it lasts."""
    cluster = ErrorCluster.objects.get(queue__name="redriven")
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="not gone", fix="gone")
    start_redrive(letters=of_cluster(cluster), by=None, options=Options(window=60))


if __name__ == "__main__":
    publish(int(sys.argv[2])) if sys.argv[1] == "publish" else start()
