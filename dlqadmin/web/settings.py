"""The settings of a queue that a person may change, and who changed what before."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _

from dlqadmin.people.models import AuditEntry, Owner
from dlqadmin.people.permissions import may
from dlqadmin.queues.configure import configure_queue
from dlqadmin.queues.models import SourceQueue
from dlqadmin.web.load import load_queue
from dlqadmin.web.routes import route, signed_in_user

MOST_ENTRIES = 25


class QueueSettingsForm(forms.Form):
    """Threshold and owner of a queue. A field that the person may not change is disabled, and then never changes."""

    max_attempts = forms.IntegerField(
        label=_("Threshold"),
        min_value=0,
        max_value=100,
        widget=forms.NumberInput(attrs={"class": "short", "inputmode": "numeric"}),
        help_text=_(
            "Holds for messages that fail after you save. 0: no threshold, a bad message is tried for ever."
        ),
    )
    owner = forms.ModelChoiceField(
        Owner.objects.order_by("name"),
        label=_("Owner"),
        required=False,
        empty_label=_("nobody: the admins are alerted"),
        help_text=_("The team that produces the messages. It is alerted, and its members may act."),
    )
    reason = forms.CharField(
        label=_("Reason"), required=False, max_length=1000, help_text=_("Kept in the history below.")
    )

    def __init__(self, *args: Any, queue: SourceQueue, user: Any, **kwargs: Any) -> None:
        kwargs["initial"] = {"max_attempts": queue.max_attempts, "owner": queue.owner_id}
        super().__init__(*args, **kwargs)
        self.fields["max_attempts"].disabled = not may(user, "queue.configure", queue)
        self.fields["reason"].disabled = self.fields["max_attempts"].disabled
        self.fields["owner"].disabled = not may(user, "queue.assign", queue)


@route("queue.view", load_queue, post="queue.configure")
def queue_settings(request: HttpRequest, queue: SourceQueue) -> HttpResponse:
    """Everybody who sees the queue sees its settings; leads and admins change them."""
    form = QueueSettingsForm(
        request.POST if request.method == "POST" else None, queue=queue, user=request.user
    )
    if request.method == "POST" and form.is_valid():
        configure_queue(queue=queue, by=signed_in_user(request), **form.cleaned_data)
        return redirect("queue-settings", queue.name)
    context = {
        "queue": queue,
        "form": form,
        "may_configure": may(request.user, "queue.configure", queue),
        "history": AuditEntry.objects.filter(object_type="sourcequeue", object_id=str(queue.pk)).order_by(
            "-at"
        )[:MOST_ENTRIES],
    }
    return render(request, "queue/settings.html", context, status=422 if form.errors else 200)
