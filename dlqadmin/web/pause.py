"""Pausing a queue, and letting it go on."""

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _

from dlqadmin.messages.pause import pause_queue, resume_queue
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.ledger import read_ledgers
from dlqadmin.web.load import load_native_queue
from dlqadmin.web.redrives import FINISHED
from dlqadmin.web.routes import route, signed_in_user


class PauseForm(forms.Form):
    """Why a queue is paused."""

    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=1000,
        help_text=_("Stands on the queue's page while it is paused, and in its history."),
    )


@route("queue.pause", load_native_queue, post="queue.pause")
def queue_pause(request: HttpRequest, queue: SourceQueue) -> HttpResponse:
    """What a pause will do, and the button. A queue that somebody else has just paused stays as that one said."""
    form = PauseForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        pause_queue(queue=queue, by=signed_in_user(request), reason=form.cleaned_data["reason"])
        return redirect("queue", queue.name)
    if queue.paused:
        return redirect("queue", queue.name)
    context = {
        "queue": queue,
        "form": form,
        "ledger": read_ledgers([queue.pk])[queue.pk],
        "redrives": queue.redrives.exclude(state__in=FINISHED).count(),
    }
    return render(request, "queue/pause.html", context, status=422 if form.errors else 200)


@route(post="queue.pause", load=load_native_queue)
def queue_resume(request: HttpRequest, queue: SourceQueue) -> HttpResponse:
    """Let the queue go on."""
    resume_queue(queue=queue, by=signed_in_user(request))
    return redirect("queue", queue.name)
