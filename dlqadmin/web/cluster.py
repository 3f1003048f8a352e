"""A cluster: what its letters share, what is known of the cause, and the gate before the redrive."""

from typing import Any

from django import forms
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from dlqadmin.clusters.counts import counts_of, trend_of
from dlqadmin.clusters.elsewhere import also_in
from dlqadmin.clusters.models import ErrorCluster, SplitRule
from dlqadmin.clusters.proposals import joins_of, proposals_of
from dlqadmin.deadletters.ends import OPEN, newest_ids, oldest_ids
from dlqadmin.deadletters.facets import facets_of
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.parameters import places_of
from dlqadmin.people.permissions import may, visible_owners
from dlqadmin.redrive.diagnose import InvalidDiagnosis, current_diagnosis, sign_diagnosis
from dlqadmin.redrive.facts import facts_of
from dlqadmin.redrive.models import Diagnosis
from dlqadmin.redrive.stages import progress_by
from dlqadmin.web.gate import gate_of
from dlqadmin.web.history import UNDOABLE, history_of
from dlqadmin.web.load import load_cluster, load_root
from dlqadmin.web.routes import route, signed_in_user

MOST_LETTERS = 10
MOST_LEAVES = 100
MOST_OTHERS = 20
MUTE_HOURS = ((4, _("4 hours")), (24, _("24 hours")), (168, _("7 days")))
KINDS = [
    (Diagnosis.Kind.PERMANENT.value, _("permanent: it fails until something is changed")),
    (Diagnosis.Kind.TRANSIENT.value, _("transient: it passes by itself")),
]


NATURES = [
    ("", _("not said")),
    (
        _("permanent"),
        [
            (Diagnosis.Nature.BAD_MESSAGE.value, _("bad message")),
            (Diagnosis.Nature.MISSING_DATA.value, _("missing data")),
            (Diagnosis.Nature.CODE_DEFECT.value, _("code defect")),
            (Diagnosis.Nature.CONFIGURATION.value, _("configuration")),
        ],
    ),
    (
        _("transient"),
        [
            (Diagnosis.Nature.OUTAGE.value, _("outage")),
            (Diagnosis.Nature.OVERLOAD.value, _("overload")),
            (Diagnosis.Nature.CONFLICT.value, _("conflict")),
        ],
    ),
]


class DiagnosisForm(forms.Form):
    """A person's statement on a cluster."""

    kind = forms.ChoiceField(
        choices=KINDS, widget=forms.RadioSelect, initial=Diagnosis.Kind.PERMANENT.value, label=_("Kind")
    )
    nature = forms.ChoiceField(choices=NATURES, required=False, label=_("Of what nature"))
    cause = forms.CharField(
        label=_("Cause"),
        max_length=10_000,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=_("What makes every one of these letters die?"),
    )
    evidence = forms.CharField(
        label=_("Evidence"),
        max_length=10_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("What shows it: a log line, a query, a link."),
    )
    fix = forms.CharField(
        label=_("Fix"),
        max_length=10_000,
        required=False,
        help_text=_("Empty as long as nothing is deployed: the gate stays closed."),
    )
    fix_effective_at = forms.DateTimeField(
        label=_("Fixed at, UTC"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text=_("Empty: the fix takes effect when you sign."),
    )
    ticket_url = forms.URLField(label=_("Ticket"), max_length=500, required=False, assume_scheme="https")

    def sign(self, cluster: ErrorCluster, by: AbstractBaseUser) -> bool:
        """Sign the statement; False if something in it is wrong, which then stands at its field."""
        if not self.is_valid():
            return False
        try:
            sign_diagnosis(cluster=cluster, by=by, **self.cleaned_data)
        except InvalidDiagnosis as error:
            self.add_error(error.field, str(error))
            return False
        return True


@route("cluster.view", load_cluster)
def cluster(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """The page of one cluster; a cluster that was merged leads to the one that it is part of now."""
    if cluster.merged_into_id:
        return redirect("cluster", cluster.merged_into_id)
    return cluster_page(request, cluster)


@route(post="cluster.diagnose", load=load_root)
def diagnose_cluster(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """Sign a new version of the cluster's diagnosis."""
    form = DiagnosisForm(request.POST)
    if form.sign(cluster, by=signed_in_user(request)):
        return redirect("cluster", cluster.pk)
    return cluster_page(request, cluster, form=form, status=422)


def cluster_page(request: HttpRequest, cluster: ErrorCluster, status: int = 200, **more: Any) -> HttpResponse:
    """The page, with `more`: a form as it was filled in, what was `wrong`, a preview."""
    facts = facts_of([cluster.pk])
    diagnosis = current_diagnosis(cluster)
    letters = DeadLetter.objects.of_cluster(cluster)
    leaves = leaf_rows(cluster)
    pks = [leaf.pk for leaf in leaves]
    counts = cluster_counts(cluster)
    context = {
        "cluster": cluster,
        "queue": cluster.queue,
        "progress": progress_by(facts)[cluster.pk],
        "counts": counts,
        "trend": trend_bars(trend_of(pks, timezone.now())),
        **gate_of(facts[cluster.pk]),
        "diagnosis": diagnosis,
        "history": history_of(leaves),
        "letters": letters.filter(pk__in=newest_ids(pks, MOST_LETTERS, OPEN)).listed(),
        "sample": letters.filter(pk__in=oldest_ids(pks, 1)).listed().first(),
        "form": DiagnosisForm(initial=_first_draft(diagnosis)),
        "may_diagnose": may(request.user, "cluster.diagnose", cluster),
        "may_redrive": may(request.user, "redrive.start", cluster),
        "may_regroup": may(request.user, "cluster.regroup", cluster),
        "may_edit": may(request.user, "cluster.edit", cluster),
        "may_settle": may(request.user, "letter.settle", cluster),
        "mute_hours": MUTE_HOURS,
        "undoable": UNDOABLE,
        **grouping_of(request, cluster, leaves, counts["all"]),
    }
    return render(request, "cluster/page.html", context | more, status=status)


def grouping_of(
    request: HttpRequest, cluster: ErrorCluster, leaves: list[ErrorCluster], letters: int
) -> dict[str, Any]:
    """What the letters share, of which templates they are, and which clusters may have the same cause."""
    pks = [leaf.pk for leaf in leaves]
    roots = {root for proposal in proposals_of(cluster) for root in proposal.roots}
    others = ErrorCluster.objects.roots().filter(queue=cluster.queue_id).exclude(pk=cluster.pk)
    return {
        "facets": facets_of(queue_id=cluster.queue_id, leaves=pks, letters=letters),
        "leaves": leaves,
        "joins": joins_of(pks),
        "places": places_of(leaves[0]),
        "moving": list(SplitRule.objects.filter(cluster__in=pks, finished_at=None)),
        "similar": list(others.filter(pk__in=roots)),
        "others": list(others.exclude(pk__in=roots).order_by("-open_count", "pk")[:MOST_OTHERS]),
        "also_in": also_in(
            queue_id=cluster.queue_id,
            fingerprints=[leaf.fingerprint for leaf in leaves],
            owners=visible_owners(request.user),
        ),
    }


def cluster_counts(cluster: ErrorCluster) -> dict[str, Any]:
    """How many letters of the group are in which state, and when the first and the last died."""
    kept = counts_of([cluster.pk])[cluster.pk]
    letters = DeadLetter.objects.of_cluster(cluster)
    return {
        "open": kept.open,
        "all": kept.total,
        "first": kept.first_seen_at,
        "last": kept.last_seen_at,
        "redriving": letters.filter(state=DeadLetter.State.REDRIVING).count(),
        "resolved": letters.filter(state=DeadLetter.State.RESOLVED).count(),
    }


def leaf_rows(cluster: ErrorCluster) -> list[ErrorCluster]:
    """The templates of the group, those with most letters first."""
    return list(ErrorCluster.objects.group_of(cluster).order_by("-total_count", "pk")[:MOST_LEAVES])


def trend_bars(hours: list[int]) -> list[dict[str, float]]:
    """The bars of a trend: place and height in per cent."""
    most, width = max(hours, default=0) or 1, 100 / max(len(hours), 1)
    return [
        {"x": at * width, "width": width * 0.82, "y": 23 - 21 * number / most, "height": 21 * number / most}
        for at, number in enumerate(hours)
    ]


def _first_draft(diagnosis: Diagnosis | None) -> dict[str, Any]:
    """Whoever declares the fix starts from what was diagnosed; a diagnosis that had a fix is no draft for the next."""
    if diagnosis is None or diagnosis.fix:
        return {}
    return {name: getattr(diagnosis, name) for name in ("kind", "nature", "cause", "evidence", "ticket_url")}
