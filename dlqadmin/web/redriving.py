"""Before a redrive and while it runs: the preview, the start, the approval, pause, resume and cancel."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.people.permissions import may
from dlqadmin.redrive.control import NotNow, approve, cancel, pause, resume
from dlqadmin.redrive.diagnose import current_diagnosis
from dlqadmin.redrive.facts import gate_facts
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.plan import plan_redrive
from dlqadmin.redrive.start import (
    MOST_CANARY,
    BadOptions,
    GateClosed,
    NothingToRedrive,
    Options,
    start_redrive,
)
from dlqadmin.web.gate import gate_of
from dlqadmin.web.letters import LARGEST_ID
from dlqadmin.web.load import load_redrive, load_root
from dlqadmin.web.routes import route, signed_in_user

CONTROLS = {"pause": pause, "resume": resume, "cancel": cancel}


class RedriveForm(forms.Form):
    """How a redrive runs. What is left empty is as usual."""

    canary = forms.IntegerField(
        label=gettext_lazy("Canary"),
        min_value=0,
        max_value=MOST_CANARY,
        required=False,
        help_text=gettext_lazy(
            "letters that go first, at least one of each type; the rest when they succeeded"
        ),
    )
    window = forms.IntegerField(
        label=gettext_lazy("On their way at once"),
        min_value=1,
        max_value=1_000_000,
        required=False,
        help_text=gettext_lazy("letters without an outcome, at most; fewer: it stops sooner"),
    )
    rate = forms.FloatField(
        label=gettext_lazy("Letters a second"),
        min_value=0.001,
        required=False,
        help_text=gettext_lazy("empty: as fast as the window allows"),
    )
    stop_percent = forms.FloatField(
        label=gettext_lazy("Stop above, per cent died again"),
        min_value=0,
        max_value=100,
        required=False,
        help_text=gettext_lazy("then the diagnosis counts as refuted"),
    )
    cutoff = forms.IntegerField(min_value=0, max_value=LARGEST_ID, required=False, widget=forms.HiddenInput)
    override_reason = forms.CharField(
        label=gettext_lazy("Reason of the override"), max_length=1_000, required=False
    )

    def options(self) -> Options:
        """The options; call it when the form is valid."""
        usual, asked = Options(), self.cleaned_data
        given = {name: asked[name] for name in ("canary", "window", "rate", "stop_percent", "cutoff")}
        return Options(
            **{name: getattr(usual, name) if value is None else value for name, value in given.items()}
        )


@route("redrive.start", load_root, post="redrive.start")
def redrive_cluster(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """What a redrive of the cluster's open letters would do; and its start, if the gate is open now."""
    if request.method != "POST":
        return _preview(request, cluster)
    form = RedriveForm(request.POST)
    if not form.is_valid():
        return _preview(request, cluster, form=form, status=422)
    by, reason = signed_in_user(request), form.cleaned_data["override_reason"]
    if reason and not may(request.user, "redrive.override", cluster):
        reason = ""
    try:
        redrive = start_redrive(cluster=cluster, by=by, options=form.options(), override_reason=reason)
    except GateClosed as closed:
        return _preview(
            request, cluster, form=form, refused=[condition.text for condition in closed.unmet], status=422
        )
    except NothingToRedrive:
        return _preview(request, cluster, form=form, refused=[_("No open letter is left.")], status=422)
    except BadOptions as error:
        return _preview(request, cluster, form=form, refused=[str(error)], status=422)
    return redirect("redrive", redrive.pk)


def _preview(request: HttpRequest, cluster: ErrorCluster, status: int = 200, **more: Any) -> HttpResponse:
    plan = plan_redrive(cluster)
    usual = Options()
    initial = {
        "canary": usual.canary,
        "window": usual.window,
        "stop_percent": usual.stop_percent,
        "cutoff": plan.cutoff,
    }
    context = {
        "cluster": cluster,
        "queue": cluster.queue,
        "plan": plan,
        **gate_of(gate_facts(cluster, signed_in_user(request))),
        "diagnosis": current_diagnosis(cluster),
        "form": RedriveForm(initial=initial),
        "may_approve": may(request.user, "redrive.approve", cluster),
        "may_override": may(request.user, "redrive.override", cluster),
    }
    return render(request, "redrives/preview.html", context | more, status=status)


@route(post="redrive.approve", load=load_root)
def approve_redrive(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """A second person's word, for as many letters as are open now."""
    try:
        approve(cluster=cluster, letters=plan_redrive(cluster).open, by=signed_in_user(request))
    except NotNow as error:
        return _preview(request, cluster, refused=[str(error)], status=422)
    messages.success(request, _("Approved."))
    return redirect("redrive-cluster", cluster.pk)


@route(post="redrive.control", load=load_redrive)
def control_redrive(request: HttpRequest, redrive: Redrive) -> HttpResponse:
    """Pause, resume or cancel: the button that was pressed says what. What it is not in a state for changes nothing."""
    for name, control in CONTROLS.items():
        if name in request.POST:
            try:
                control(redrive=redrive, by=signed_in_user(request))
            except NotNow as error:
                messages.warning(request, str(error))
    return redirect("redrive", redrive.pk)
