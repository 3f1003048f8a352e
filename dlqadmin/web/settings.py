"""The settings of a queue that a person may change, and who changed what before."""

import re
from typing import Any

from django import forms
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from dlqadmin.people.models import AuditEntry, Owner
from dlqadmin.people.permissions import may
from dlqadmin.queues.configure import SettingsChanged, configure_queue
from dlqadmin.queues.models import SourceQueue
from dlqadmin.web.load import load_queue
from dlqadmin.web.routes import route, signed_in_user

MOST_ENTRIES = 25
DAY = 86_400
MOST_CLASSES = 100
_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")

# Celery's queue for dlqadmin's own work: jobs, alerts, redrives.
_RESERVED = "system"


def _number(inputmode: str) -> forms.NumberInput:
    return forms.NumberInput(attrs={"class": "short", "inputmode": inputmode})


class ErrorClasses(forms.CharField):
    """Names of exception classes, one in each line; a list of them."""

    widget = forms.Textarea(
        attrs={"rows": 3, "class": "mono", "spellcheck": "false", "autocapitalize": "off"}
    )

    def prepare_value(self, value: Any) -> Any:
        """A list as lines; what a person wrote as it is."""
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        """The names in their order, each once."""
        if isinstance(value, list):  # a disabled field hands over what the queue has
            return value
        names = list(dict.fromkeys(super().clean(value).split()))
        for name in names:
            if len(name) > 255 or not _CLASS.fullmatch(name):
                said = gettext("“%(name)s” is no class name such as ValueError or json.JSONDecodeError.")
                raise ValidationError(said % {"name": name[:60]})
        if len(names) > MOST_CLASSES:
            raise ValidationError(gettext("At most %(most)s names.") % {"most": MOST_CLASSES})
        return names


class QueueSettingsForm(forms.Form):
    """What may be changed of a queue. A field that the person may not change is disabled, and then never changes."""

    max_attempts = forms.IntegerField(
        label=_("Threshold"),
        min_value=0,
        max_value=100,
        widget=_number("numeric"),
        help_text=_(
            "Holds for messages that fail after you save. 0: no threshold, a bad message is tried for ever."
        ),
    )
    max_lost = forms.IntegerField(
        label=_("Lost workers"),
        min_value=1,
        max_value=100,
        widget=_number("numeric"),
        help_text=_(
            "A message that loses so many workers while it runs alone (killed, out of memory) is a dead letter, also "
            "without a threshold. Lost starts are no failed attempts."
        ),
    )
    backoff_base = forms.FloatField(
        label=_("Base"),
        min_value=0,
        max_value=DAY,
        widget=_number("decimal"),
        help_text=_("The wait after the first failed attempt. 0: it runs again at once."),
    )
    backoff_factor = forms.FloatField(
        label=_("Factor"),
        min_value=1,
        max_value=100,
        widget=_number("decimal"),
        help_text=_("Each further wait is so many times longer. 1: all are the same."),
    )
    backoff_cap = forms.FloatField(
        label=_("Cap"),
        min_value=0,
        max_value=7 * DAY,
        widget=_number("decimal"),
        help_text=_("No wait is longer."),
    )
    backoff_jitter = forms.BooleanField(
        label=_("Wait a random part of it"),
        required=False,
        help_text=_("Spreads the retries of an outage, so that they do not come in waves."),
    )
    permanent_errors = ErrorClasses(
        label=_("Permanent errors"),
        required=False,
        help_text=_(
            "One class name a line, with or without its module. A message that fails with such an error, or with one "
            "derived from it, is a dead letter at once."
        ),
    )
    transient_errors = ErrorClasses(
        label=_("Transient errors"),
        required=False,
        help_text=_(
            "Exceptions to the list above: these are retried although a base class of theirs is permanent."
        ),
    )
    idempotency = forms.ChoiceField(
        label=_("Idempotency"), choices=SourceQueue.Idempotency.choices, widget=forms.RadioSelect
    )
    ordered = forms.BooleanField(
        label=_("Messages of one key run in the order in which they were published"),
        required=False,
        help_text=_(
            "Changing this holds for messages published from then on. Messages without a key run in any order."
        ),
    )
    on_death = forms.ChoiceField(
        label=_("When a message of a key dies"),
        choices=[
            (SourceQueue.OnDeath.RELEASE.value, _("release: the next message of the key runs")),
            (SourceQueue.OnDeath.HOLD.value, _("hold: the key waits until the letter is settled")),
        ],
        help_text=_(
            "For ordered queues. A letter is settled when it is redriven and processed, resolved or discarded."
        ),
    )
    concurrency = forms.IntegerField(
        label=_("Concurrency"),
        min_value=1,
        max_value=1000,
        widget=_number("numeric"),
        help_text=_("Handlers that run at once, over all machines. To stop them all, pause the queue."),
    )
    timeout = forms.FloatField(
        label=_("Time-out"),
        min_value=0.1,
        max_value=DAY,
        widget=_number("decimal"),
        help_text=_(
            "A handler that runs longer is stopped, and that is a failed attempt. A handler may declare its own time."
        ),
    )
    celery_queue = forms.CharField(
        label=_("Celery queue"),
        max_length=40,
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false", "autocapitalize": "off"}),
        validators=[RegexValidator(r"\A[A-Za-z0-9_.-]+\Z", _("Use letters, digits and _ . - only."))],
        help_text=_(
            "Where its wake-ups go. Workers must listen there, else its messages wait: celery worker -Q NAME."
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
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    # Of a queue whose messages run elsewhere.
    EXTERNAL = ("owner", "reason", "version")
    NO_SETTING = ("reason", "version")

    def __init__(self, data: Any, *, queue: SourceQueue, user: Any) -> None:
        super().__init__(data)
        self.queue = queue
        if queue.kind != SourceQueue.Kind.NATIVE:
            self.fields = {name: field for name, field in self.fields.items() if name in self.EXTERNAL}
        may_configure, may_assign = may(user, "queue.configure", queue), may(user, "queue.assign", queue)
        for name, field in self.fields.items():
            field.disabled = not (may_assign if name == "owner" else may_configure)
            if name not in self.NO_SETTING:
                value = getattr(queue, name)
                self.initial[name] = int(value) if isinstance(value, float) and value.is_integer() else value
        self.initial["version"] = queue.config_version

    def clean_celery_queue(self) -> str:
        """Consumers must not stand in the way of alerts and redrives."""
        name: str = self.cleaned_data["celery_queue"]
        if name == _RESERVED:
            raise ValidationError(
                gettext("“system” is for alerts and redrives, which consumers would delay.")
            )
        return name

    def clean(self) -> None:
        """What must fit together."""
        cleaned = super().clean() or self.cleaned_data
        base, cap = cleaned.get("backoff_base"), cleaned.get("backoff_cap")
        if base is not None and cap is not None and cap < base:
            self.add_error("backoff_cap", gettext("The cap must not be below the base."))
        both = set(cleaned.get("permanent_errors") or ()) & set(cleaned.get("transient_errors") or ())
        if both:
            said = gettext("In both lists: %(names)s.") % {"names": ", ".join(sorted(both))}
            self.add_error("transient_errors", said)

    def save(self, by: AbstractBaseUser) -> bool:
        """Save what was changed; False if something is wrong, which then stands at its field or above the form."""
        if not self.is_valid():
            return False
        changes = dict(self.cleaned_data)
        try:
            configure_queue(queue=self.queue, by=by, seen=changes.pop("version"), **changes)
        except SettingsChanged as changed:
            self.add_error(
                None,
                gettext(
                    "Somebody changed these settings while you had them open: see the history below. "
                    "Nothing was saved. Saving again saves what stands here."
                ),
            )
            self.data = {**self.data, "version": changed.version}
            return False
        return True


@route("queue.view", load_queue, post="queue.configure")
def queue_settings(request: HttpRequest, queue: SourceQueue) -> HttpResponse:
    """Everybody who sees the queue sees its settings; leads and admins change them."""
    form = QueueSettingsForm(
        request.POST.dict() if request.method == "POST" else None, queue=queue, user=request.user
    )
    if request.method == "POST" and form.save(by=signed_in_user(request)):
        return redirect("queue-settings", queue.name)
    context = {
        "queue": queue,
        "form": form,
        "wrong": [field for field in form.visible_fields() if field.errors],
        "native": queue.kind == SourceQueue.Kind.NATIVE,
        "may_configure": may(request.user, "queue.configure", queue),
        "history": AuditEntry.objects.filter(object_type="sourcequeue", object_id=str(queue.pk)).order_by(
            "-at"
        )[:MOST_ENTRIES],
    }
    return render(request, "queue/settings.html", context, status=422 if form.errors else 200)
