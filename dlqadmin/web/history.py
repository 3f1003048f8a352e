"""What was tried on a cluster: diagnoses, redrives and what people did, in one list."""

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.people.models import AuditEntry
from dlqadmin.redrive.models import Diagnosis, Redrive
from dlqadmin.web.redrives import with_counts

# What people did, by the action of its entry.
DEEDS = {
    "cluster.merge": gettext_lazy("Merged"),
    "cluster.split": gettext_lazy("Split"),
    "cluster.tell_apart": gettext_lazy("Kept apart"),
    "cluster.undo_join": gettext_lazy("A join was undone"),
    "cluster.undo": gettext_lazy("Taken back"),
    "cluster.rename": gettext_lazy("Renamed, or the note changed"),
}
UNDOABLE = ("cluster.merge", "cluster.split", "cluster.undo_join", "cluster.tell_apart")


def history_of(leaves: list[ErrorCluster]) -> list[dict[str, Any]]:
    """What was tried, the newest first: diagnoses, redrives and what people did, each with its moment.

    Of the whole group, whose leaves these are: the work on a cluster that was merged goes on here.
    """
    pks = [leaf.pk for leaf in leaves]
    diagnoses = Diagnosis.objects.filter(cluster__in=pks)
    sent = Redrive.objects.filter(parts__cluster__in=pks, parts__left_out="").distinct()
    redrives = with_counts(sent.order_by("-pk")[:50])
    entries = AuditEntry.objects.filter(object_type="errorcluster", object_id__in=[str(pk) for pk in pks])
    done = entries.exclude(action="cluster.diagnose").order_by("-pk")[:50]
    tried = [
        *({"at": diagnosis.signed_at, "diagnosis": diagnosis} for diagnosis in diagnoses),
        *({"at": redrive.created_at, "redrive": redrive} for redrive in redrives),
        *({"at": entry.at, "deed": deed_of(entry), "entry": entry} for entry in done),
    ]
    return sorted(tried, key=lambda entry: entry["at"], reverse=True)


def deed_of(entry: AuditEntry) -> str:
    """What an entry tells of, in words."""
    after = entry.after
    if entry.action == "cluster.mute":
        return _("Muted") if after.get("muted_until") else _("No longer muted")
    if entry.action == "cluster.close":
        return _("Closed") if after.get("closed_at") else _("Opened again")
    if entry.action == "cluster.assign":
        return _("Taken on by %s") % after["assignee"] if after.get("assignee") else _("Given up")
    return str(DEEDS.get(entry.action, entry.action))
