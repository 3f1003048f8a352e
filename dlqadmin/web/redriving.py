"""Before a redrive and while it runs: the preview, the start, the approval, pause, resume and cancel."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.query import LARGEST
from dlqadmin.deadletters.sets import LetterSet, of_cluster
from dlqadmin.people.permissions import may
from dlqadmin.redrive.control import NotNow, approve, cancel, pause, resume
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.plan import judge_plan, plan_redrive
from dlqadmin.redrive.start import (
    MOST_CANARY,
    BadOptions,
    GateClosed,
    NothingToRedrive,
    Options,
    start_redrive,
)
from dlqadmin.web.asked import about_letters, address, in_list
from dlqadmin.web.gate import shown_gate
from dlqadmin.web.load import load_native_queue, load_redrive, load_root
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
    cutoff = forms.IntegerField(min_value=0, max_value=LARGEST, required=False, widget=forms.HiddenInput)
    override_reason = forms.CharField(
        label=gettext_lazy("Reason of the override"), max_length=1_000, required=False
    )

    def options(self) -> Options:
        """The options; call it when the form is valid."""
        usual, asked = Options(), self.cleaned_data
        given = {name: asked[name] for name in ("canary", "window", "rate", "stop_percent")}
        return Options(
            **{name: getattr(usual, name) if value is None else value for name, value in given.items()}
        )


@route("redrive.start", load_native_queue, post="redrive.start")
@about_letters
def redrive_letters(request: HttpRequest, letters: LetterSet) -> HttpResponse:
    """What a redrive of these open letters would do; and its start, if the gate is open now."""
    if request.method != "POST":
        return _preview(request, letters)
    form = RedriveForm(request.POST)
    if not form.is_valid():
        return _preview(request, letters, form=form, status=422)
    by, reason = signed_in_user(request), form.cleaned_data["override_reason"]
    if reason and not may(request.user, "redrive.override", letters.queue):
        reason = ""
    try:
        redrive = start_redrive(
            letters=letters.up_to(form.cleaned_data["cutoff"]),
            by=by,
            options=form.options(),
            override_reason=reason,
        )
    except GateClosed as closed:
        refused = [condition.text for condition in closed.unmet]
    except (NothingToRedrive, BadOptions) as error:
        refused = [str(error)]
    else:
        return redirect("redrive", redrive.pk)
    return _preview(request, letters, form=form, refused=refused, status=422)


def _preview(request: HttpRequest, letters: LetterSet, status: int = 200, **more: Any) -> HttpResponse:
    plan = plan_redrive(letters)
    judged = judge_plan(plan, signed_in_user(request))
    usual = Options()
    initial = {
        "canary": usual.canary,
        "window": usual.window,
        "stop_percent": usual.stop_percent,
        "cutoff": plan.cutoff,
    }
    only = judged.parts[0] if len(judged.parts) == 1 else None
    context = {
        "letters": letters,
        "queue": letters.queue,
        "list_address": in_list(letters),
        "plan": plan,
        "judged": judged,
        "only": only,
        **shown_gate(only.conditions if only else judged.unmet),
        "form": RedriveForm(initial=initial),
        "may_approve": may(request.user, "redrive.approve", letters.queue),
        "may_override": may(request.user, "redrive.override", letters.queue),
        "may_settle": may(request.user, "letter.settle", letters.queue),
        "may_edit_bodies": may(request.user, "letter.edit", letters.queue),
    }
    return render(request, "redrives/preview.html", context | more, status=status)


@route(post="redrive.approve", load=load_root)
def approve_redrive(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """A second person's word, for the number of letters that the page named."""
    letters = of_cluster(cluster)
    number = request.POST.get("letters", "")
    try:
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise NotNow(_("Say for how many letters."))
        approve(cluster=cluster, letters=int(number), by=signed_in_user(request))
    except NotNow as error:
        return _preview(request, letters, refused=[str(error)], status=422)
    messages.success(request, _("Approved."))
    return redirect(address("redrive-letters", letters))


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
