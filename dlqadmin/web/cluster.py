"""A cluster: what its letters share, what is known of the cause, and the gate before the redrive."""

from typing import Any

from django import forms
from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Count, Max, Min, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter, DeadLetterQuerySet
from dlqadmin.people.permissions import may
from dlqadmin.redrive.diagnose import InvalidDiagnosis, current_diagnosis, sign_diagnosis
from dlqadmin.redrive.facts import gate_facts
from dlqadmin.redrive.gate import is_open, judge
from dlqadmin.redrive.models import Diagnosis
from dlqadmin.redrive.stages import progress_of
from dlqadmin.redrive.start import GateClosed, NothingToRedrive, start_redrive
from dlqadmin.web.load import load_cluster, load_root
from dlqadmin.web.redrives import with_counts
from dlqadmin.web.routes import route, signed_in_user

MOST_LETTERS = 10
KINDS = [
    (Diagnosis.Kind.PERMANENT.value, _("permanent: it fails until something is changed")),
    (Diagnosis.Kind.TRANSIENT.value, _("transient: it passes by itself")),
]


class DiagnosisForm(forms.Form):
    """A person's statement on a cluster."""

    kind = forms.ChoiceField(
        choices=KINDS, widget=forms.RadioSelect, initial=Diagnosis.Kind.PERMANENT.value, label=_("Kind")
    )
    cause = forms.CharField(
        label=_("Cause"),
        max_length=10_000,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=_("What makes every one of these letters die?"),
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
    return _page(request, cluster)


@route(post="cluster.diagnose", load=load_root)
def diagnose_cluster(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """Sign a new version of the cluster's diagnosis."""
    form = DiagnosisForm(request.POST)
    if form.sign(cluster, by=signed_in_user(request)):
        return redirect("cluster", cluster.pk)
    return _page(request, cluster, form=form, status=422)


@route(post="redrive.start", load=load_root)
def redrive_cluster(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """Send the cluster's open letters back to work, if the gate is open now."""
    try:
        redrive = start_redrive(cluster=cluster, by=signed_in_user(request))
    except GateClosed as closed:
        return _page(request, cluster, refused=[condition.text for condition in closed.unmet], status=422)
    except NothingToRedrive:
        return _page(request, cluster, refused=[_("No open letter is left.")], status=422)
    return redirect("redrive", redrive.pk)


def _page(
    request: HttpRequest,
    cluster: ErrorCluster,
    form: DiagnosisForm | None = None,
    refused: Any = (),
    status: int = 200,
) -> HttpResponse:
    conditions = judge(gate_facts(cluster))
    diagnosis = current_diagnosis(cluster)
    letters = DeadLetter.objects.of_cluster(cluster)
    context = {
        "cluster": cluster,
        "queue": cluster.queue,
        "progress": progress_of([cluster.pk])[cluster.pk],
        "counts": counts_of(letters),
        "conditions": conditions,
        "unmet": [condition for condition in conditions if not condition.met],
        "gate_open": is_open(conditions),
        "refused": refused,
        "diagnosis": diagnosis,
        "history": history_of(cluster),
        "letters": letters.open().listed()[:MOST_LETTERS],
        "sample": letters.listed().order_by("pk").first(),
        "form": form or DiagnosisForm(initial=_first_draft(diagnosis)),
        "may_diagnose": may(request.user, "cluster.diagnose", cluster),
        "may_redrive": may(request.user, "redrive.start", cluster),
    }
    return render(request, "cluster/page.html", context, status=status)


def counts_of(letters: DeadLetterQuerySet) -> dict[str, Any]:
    """How many of these letters are in which state, and when the first and the last died."""
    states = {state.value: Count("pk", filter=Q(state=state)) for state in DeadLetter.State}
    return letters.aggregate(**states, all=Count("pk"), first=Min("died_at"), last=Max("died_at"))


def _first_draft(diagnosis: Diagnosis | None) -> dict[str, Any]:
    """Whoever declares the fix starts from what was diagnosed; a diagnosis that had a fix is no draft for the next."""
    if diagnosis is None or diagnosis.fix:
        return {}
    return {"kind": diagnosis.kind, "cause": diagnosis.cause, "ticket_url": diagnosis.ticket_url}


def history_of(cluster: ErrorCluster) -> list[dict[str, Any]]:
    """What was tried, the newest first: diagnoses and redrives, each with its moment."""
    diagnoses = [{"at": diagnosis.signed_at, "diagnosis": diagnosis} for diagnosis in cluster.diagnoses.all()]
    redrives = with_counts(cluster.redrives.order_by("-pk")[:50])
    tried = [*diagnoses, *({"at": redrive.created_at, "redrive": redrive} for redrive in redrives)]
    return sorted(tried, key=lambda entry: entry["at"], reverse=True)
