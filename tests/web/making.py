"""Makers of things that the tests of the pages need, on the real ways."""

from typing import Any

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.run import send_pending
from dlqadmin.redrive.start import NO_CANARY, start_redrive


def begin_redrive(letter: DeadLetter, by: Any) -> Redrive:
    """Diagnose the letter's cluster, declare the fix, start the redrive and send its letters."""
    cluster = cluster_of(letter)
    sign_diagnosis(cluster=cluster, by=by, kind="permanent", cause="A member is missing.", fix="Imported.")
    begun = start_redrive(letters=of_cluster(cluster), by=by, options=NO_CANARY)
    send_pending(begun)
    return begun


def cluster_of(letter: DeadLetter) -> ErrorCluster:
    """The cluster of a letter that has one."""
    assert letter.cluster is not None
    return letter.cluster
