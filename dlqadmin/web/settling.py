"""Letters that are not sent back: discard, resolve by hand, open again; one letter, or all open ones of a cluster."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.settling import CannotSettle, discard, resolve, undo_settling
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.plan import resolve_without_sending
from dlqadmin.web.cluster import cluster_page
from dlqadmin.web.letters import LARGEST_ID
from dlqadmin.web.load import load_letter, load_root
from dlqadmin.web.routes import route, signed_in_user

MOST_AT_ONCE = 100_000


class SettleForm(forms.Form):
    """All open letters of a cluster up to one, their number typed."""

    reason = forms.CharField(max_length=1_000)
    number = forms.IntegerField(min_value=1, max_value=MOST_AT_ONCE)
    cutoff = forms.IntegerField(min_value=1, max_value=LARGEST_ID)


@route(post="letter.settle", load=load_letter)
def settle_letter(request: HttpRequest, letter: DeadLetter) -> HttpResponse:
    """Discard or resolve one letter, or open it again."""
    try:
        _settle(request, [letter.pk], letter.queue, request.POST.get("reason", "")[:1_000])
    except CannotSettle as error:
        messages.error(request, str(error))
    return redirect("letter", letter.pk)


@route(post="letter.settle", load=load_root)
def settle_cluster(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """Discard or resolve the open letters that the person saw: as many as were typed, and none that came later."""
    form = SettleForm(request.POST)
    try:
        if not form.is_valid():
            raise CannotSettle(_("Give a reason, and type the number of letters."))
        letters = DeadLetter.objects.open().of_cluster(cluster).filter(pk__lte=form.cleaned_data["cutoff"])
        chosen = list(letters.order_by("pk").values_list("pk", flat=True)[: MOST_AT_ONCE + 1])
        if len(chosen) != form.cleaned_data["number"]:
            raise CannotSettle(
                _("You typed %(typed)d; there are %(there)d open letters.")
                % {"typed": form.cleaned_data["number"], "there": len(chosen)}
            )
        _settle(request, chosen, cluster.queue, form.cleaned_data["reason"])
    except CannotSettle as error:
        return cluster_page(request, cluster, wrong=str(error), status=422)
    return redirect("cluster", cluster.pk)


@route(post="letter.settle", load=load_root)
def resolve_dropped(request: HttpRequest, cluster: ErrorCluster) -> HttpResponse:
    """Resolve the letters of a preview that a consumer would drop, without sending them."""
    try:
        number = resolve_without_sending(cluster=cluster, by=signed_in_user(request))
    except CannotSettle as error:
        messages.error(request, str(error))
    else:
        said = ngettext("%d letter was resolved.", "%d letters were resolved.", number)
        messages.success(request, said % number)
    return redirect("redrive-cluster", cluster.pk)


def _settle(request: HttpRequest, letters: list[int], queue: SourceQueue, reason: str) -> None:
    by = signed_in_user(request)
    if "discard" in request.POST:
        number = discard(letters=letters, queue=queue, reason=reason, by=by)
        said = ngettext("%d letter was discarded.", "%d letters were discarded.", number)
    elif "resolve" in request.POST:
        number = resolve(letters=letters, queue=queue, reason=reason, by=by)
        said = ngettext("%d letter was resolved.", "%d letters were resolved.", number)
    else:
        number = undo_settling(letters=letters, queue=queue, by=by)
        said = ngettext("%d letter is open again.", "%d letters are open again.", number)
    messages.success(request, said % number)
