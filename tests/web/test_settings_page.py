"""The settings that the consumers follow: what is taken, and what is refused."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dlqadmin.people.models import AuditEntry
from dlqadmin.queues.configure import configure_queue
from dlqadmin.queues.models import SourceQueue
from tests.web.filling import filled

# Every setting with another value than the queue of the tests has: as it is typed, and as it is kept.
CHANGES = {
    "max_attempts": ("7", 7),
    "max_lost": ("2", 2),
    "backoff_base": ("0.5", 0.5),
    "backoff_factor": ("3", 3.0),
    "backoff_cap": ("60", 60.0),
    "backoff_jitter": ("on", True),
    "permanent_errors": (
        "ValueError\r\n\r\n json.JSONDecodeError \nValueError",
        ["ValueError", "json.JSONDecodeError"],
    ),
    "transient_errors": ("UnicodeDecodeError", ["UnicodeDecodeError"]),
    "idempotency": ("latest", "latest"),
    "ordered": ("on", True),
    "on_death": ("hold", "hold"),
    "concurrency": ("9", 9),
    "timeout": ("2.5", 2.5),
    "celery_queue": ("slow_one.a-b", "slow_one.a-b"),
}

REFUSED = [
    ("max_lost", "0"),
    ("max_lost", "101"),
    ("backoff_base", "-1"),
    ("backoff_base", "nan"),
    ("backoff_base", "86401"),
    ("backoff_factor", "0.99"),
    ("backoff_factor", "inf"),
    ("backoff_cap", "1e9"),
    ("backoff_cap", "-0.1"),
    ("concurrency", "0"),
    ("concurrency", "1001"),
    ("concurrency", "2.5"),
    ("timeout", "0"),
    ("timeout", "-inf"),
    ("timeout", "86401"),
    ("on_death", "explode"),
    ("idempotency", "perhaps"),
    ("celery_queue", ""),
    ("celery_queue", "a b"),
    ("celery_queue", "a/b"),
    ("celery_queue", "ä"),
    ("celery_queue", "q" * 41),
    ("celery_queue", "system"),
    ("permanent_errors", "1abc"),
    ("permanent_errors", "json."),
    ("permanent_errors", "<script>"),
    ("permanent_errors", "E" * 256),
    ("transient_errors", "\n".join(f"E{number}" for number in range(101))),
]


@pytest.fixture
def lead(signed_in: Any) -> Client:
    client: Client = signed_in("lead")
    return client


@pytest.fixture
def address(queue: SourceQueue) -> str:
    return reverse("queue-settings", args=[queue.name])


def test_every_setting_is_saved_and_audited(lead: Client, address: str, queue: SourceQueue) -> None:
    data = filled(lead, address, **{name: typed for name, (typed, _) in CHANGES.items()})
    assert lead.post(address, data | {"reason": "measured"})["Location"] == address
    queue.refresh_from_db()
    kept = {name: value for name, (_, value) in CHANGES.items()}
    assert {name: getattr(queue, name) for name in kept} == kept
    entry = AuditEntry.objects.get()
    assert (entry.reason, entry.after) == ("measured", kept)
    assert filled(lead, address)["permanent_errors"] == "ValueError\njson.JSONDecodeError"


def test_saving_what_is_shown_changes_nothing(lead: Client, address: str, queue: SourceQueue) -> None:
    before = SourceQueue.objects.filter(pk=queue.pk).values().get()
    assert lead.post(address, filled(lead, address))["Location"] == address
    assert SourceQueue.objects.filter(pk=queue.pk).values().get() == before
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(("name", "typed"), REFUSED)
def test_what_makes_no_sense_is_refused_at_its_field(
    name: str, typed: str, lead: Client, address: str, queue: SourceQueue
) -> None:
    before = SourceQueue.objects.filter(pk=queue.pk).values().get()
    page = lead.post(address, filled(lead, address, **{name: typed}))
    assert page.status_code == 422
    assert list(page.context["form"].errors) == [name]
    assert f'<a href="#id_{name}">' in page.text
    assert f'id="id_{name}"' in page.text
    assert "<script>" not in page.text
    assert SourceQueue.objects.filter(pk=queue.pk).values().get() == before


def test_a_cap_below_the_base_is_refused(lead: Client, address: str) -> None:
    page = lead.post(address, filled(lead, address, backoff_base="10", backoff_cap="9"))
    assert "The cap must not be below the base." in page.text
    assert lead.post(address, filled(lead, address, backoff_base="10", backoff_cap="10")).status_code == 302


def test_an_error_is_not_permanent_and_transient(lead: Client, address: str) -> None:
    page = lead.post(address, filled(lead, address, permanent_errors="A\nB", transient_errors="B"))
    assert "In both lists: B." in page.text


def test_what_was_typed_stands_there_again(lead: Client, address: str) -> None:
    page = lead.post(address, filled(lead, address, permanent_errors="A\n1b", timeout="0"))
    assert "A\n1b</textarea>" in page.text
    assert "2 fields need a change:" in page.text


def test_a_form_that_was_open_while_somebody_saved_takes_nothing_back(
    lead: Client, address: str, queue: SourceQueue, make_user: Any
) -> None:
    data = filled(lead, address, concurrency="8")
    configure_queue(queue=queue, by=make_user("admin"), timeout=5.0)
    page = lead.post(address, data)
    assert page.status_code == 422
    assert "Somebody changed these settings" in page.text
    queue.refresh_from_db()
    assert (queue.timeout, queue.concurrency) == (5.0, 4)
    shown = re.findall(r'name="version" value="(\d+)"', page.text)
    assert shown == [str(queue.config_version)]
    assert lead.post(address, data | {"version": shown[0]}).status_code == 302


def test_order_holds_for_messages_published_from_then_on_and_the_page_says_so(
    lead: Client, address: str
) -> None:
    assert "Changing this holds for messages published from then on." in lead.get(address).text


def test_a_viewer_reads_the_settings_and_changes_none(signed_in: Any, address: str) -> None:
    form = signed_in("viewer").get(address).context["form"]
    assert all(field.disabled for field in form.fields.values())


def test_a_queue_that_runs_elsewhere_has_no_settings_of_consumers(lead: Client, make_queue: Any) -> None:
    queue = make_queue("far", kind=SourceQueue.Kind.RABBITMQ)
    address = reverse("queue-settings", args=[queue.name])
    page = lead.get(address)
    assert "id_concurrency" not in page.text
    assert lead.post(address, filled(lead, address)).status_code == 302
