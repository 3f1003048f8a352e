"""What people do with clusters: merge, split, tell apart, undo; name, mute, take on, close."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dlqadmin.clock import db_now
from dlqadmin.clusters import care
from dlqadmin.clusters.merging import CannotRegroup, merge, split_off, tell_apart, undo, undo_joins
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.clusters.splitting import LONGEST_PATTERN, BadPattern
from dlqadmin.deadletters.parts import Preview, preview_part, split_part
from dlqadmin.deadletters.query import LARGEST
from dlqadmin.people.models import AuditEntry
from dlqadmin.web.cluster import MUTE_HOURS, cluster_page
from dlqadmin.web.history import UNDOABLE
from dlqadmin.web.load import load_root
from dlqadmin.web.routes import route, signed_in_user


class ClustersForm(forms.Form):
    """Other clusters of the same queue."""

    clusters = forms.TypedMultipleChoiceField(coerce=int)

    def __init__(self, cluster: ErrorCluster, data: Any) -> None:
        super().__init__(data)
        others = ErrorCluster.objects.roots().filter(queue=cluster.queue_id).exclude(pk=cluster.pk)
        self.others = {str(other.pk): other for other in others.filter(pk__in=_ids(data, "clusters"))}
        self.fields["clusters"].choices = [(pk, pk) for pk in self.others]  # type: ignore[attr-defined]

    def chosen(self) -> list[ErrorCluster]:
        """The clusters; none if something else was sent."""
        return list(self.others.values()) if self.is_valid() else []


class PartForm(forms.Form):
    """A part of a template's letters: by the value of a parameter, or by a pattern."""

    leaf = forms.IntegerField(min_value=1, max_value=LARGEST)
    position = forms.IntegerField(min_value=0, max_value=100, required=False)
    value = forms.CharField(max_length=2_000, required=False, strip=False)
    pattern = forms.CharField(
        label=gettext_lazy("Pattern"),
        max_length=LONGEST_PATTERN,
        required=False,
        help_text=gettext_lazy(
            "A regular expression (RE2). Letters in whose error text it is found become a cluster of their own."
        ),
    )

    def part(self, cluster: ErrorCluster) -> dict[str, Any]:
        """What `preview_part` and `split_part` take. Raises BadPattern."""
        if not self.is_valid():
            raise BadPattern(_("Give a pattern, at most %(most)d characters.") % {"most": LONGEST_PATTERN})
        asked = self.cleaned_data
        leaf = ErrorCluster.objects.group_of(cluster).filter(pk=asked["leaf"]).first()
        if leaf is None:
            raise BadPattern(_("This template is not of the cluster any more."))
        if asked["position"] is not None:
            return {"leaf": leaf, "position": asked["position"], "value": asked["value"]}
        return {"leaf": leaf, "pattern": asked["pattern"]}


@route(post="cluster.regroup", load=load_root)
def merge_clusters(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """Merge the chosen clusters into this one."""
    by, others = signed_in_user(request), ClustersForm(cluster, request.POST).chosen()
    said = _("Merged. Letters that come later follow.")
    return _regrouped(request, cluster, lambda: merge(into=cluster, others=others, by=by), said)


@route(post="cluster.regroup", load=load_root)
def tell_clusters_apart(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """Say that the chosen clusters and this one have different causes."""
    by, others = signed_in_user(request), ClustersForm(cluster, request.POST).chosen()
    said = _("Kept apart. This is not proposed again.")
    return _regrouped(request, cluster, lambda: tell_apart(clusters=[cluster, *others], by=by), said)


@route(post="cluster.regroup", load=load_root)
def split_templates(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """Take the chosen templates out of the cluster."""
    by, leaves = signed_in_user(request), _ids(request.POST, "leaves")
    said = _("Split off. Letters that come later follow.")
    return _regrouped(request, cluster, lambda: split_off(cluster=cluster, leaves=leaves, by=by), said)


@route(post="cluster.regroup", load=load_root)
def split_by_part(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """Show what a split by value or pattern would take out, or make it."""
    form = PartForm(request.POST)
    try:
        part = form.part(cluster)
        if "split" not in request.POST:
            preview: Preview = preview_part(**part)
            return cluster_page(request, cluster, part=form, preview=preview)
        rule = split_part(by=signed_in_user(request), **part)
    except BadPattern as error:
        return cluster_page(request, cluster, part=form, wrong=str(error), status=422)
    messages.success(
        request, _("Split. The letters that are there are being moved; new ones follow at once.")
    )
    return redirect("cluster", rule.target_id)


@route(post="cluster.regroup", load=load_root)
def undo_grouping(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """Take back a merge, a split or a join."""
    by, joins = signed_in_user(request), _ids(request.POST, "joins")
    entry = _entry(cluster, request.POST.get("entry", ""))
    return _regrouped(
        request,
        cluster,
        lambda: undo(entry=entry, by=by) if entry else undo_joins(joins=joins, cluster=cluster, by=by),
        _("Taken back."),
    )


@route(post="cluster.edit", load=load_root)
def edit_cluster(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """Name it, write a note, take it on, mute it, close it: the button that was pressed says what."""
    by, posted = signed_in_user(request), request.POST
    hours = posted.get("mute", "")
    try:
        if "rename" in posted:
            care.rename(cluster=cluster, name=posted.get("name", ""), by=by)
            care.write_note(cluster=cluster, note=posted.get("note", "")[:10_000], by=by)
        elif "take" in posted or "give-up" in posted:
            care.assign_to(cluster=cluster, person=by if "take" in posted else None, by=by)
        elif hours in {str(number) for number, _words in MUTE_HOURS}:
            care.mute(cluster=cluster, until=db_now() + timedelta(hours=int(hours)), by=by)
        elif "unmute" in posted:
            care.mute(cluster=cluster, until=None, by=by)
        elif "close" in posted:
            care.close(cluster=cluster, by=by)
        elif "reopen" in posted:
            care.reopen(cluster=cluster, by=by)
    except care.NotPossible as error:
        return cluster_page(request, cluster, wrong=str(error), status=422)
    return redirect("cluster", cluster.pk)


def _regrouped(
    request: HttpRequest, cluster: ErrorCluster, change: Callable[[], object], said: str
) -> HttpResponse:
    """Make the change and say so; what cannot be done stands on the page, with the reason."""
    try:
        change()
    except CannotRegroup as error:
        return cluster_page(request, cluster, wrong=str(error), status=422)
    messages.success(request, said)
    return redirect("cluster", cluster.pk)


def _ids(data: Any, name: str) -> list[int]:
    return [int(pk) for pk in data.getlist(name) if pk.isascii() and pk.isdigit() and int(pk) <= LARGEST]


def _entry(cluster: ErrorCluster, pk: str) -> AuditEntry | None:
    if not (pk.isascii() and pk.isdigit() and int(pk) <= LARGEST):
        return None
    group = ErrorCluster.objects.group_of(cluster).values_list("pk", flat=True)
    entries = AuditEntry.objects.filter(pk=pk, object_type="errorcluster", action__in=UNDOABLE)
    return entries.filter(object_id__in=[str(leaf) for leaf in group]).first()
