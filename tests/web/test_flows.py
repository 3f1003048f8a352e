"""What people do, without JavaScript: links, forms, redirects."""

from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth import get_user_model
from django.db import DatabaseError, connection
from django.test import Client
from django.urls import reverse

from dlqadmin.alerts.models import Alert
from dlqadmin.clock import db_now
from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.people.models import AuditEntry, Owner
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.run import send_pending
from dlqadmin.web.asked import address
from tests.web.filling import filled
from tests.web.making import cluster_of

PASSWORD = "correct horse"


def test_from_the_dead_letter_to_the_redrive_with_links_and_forms_alone(signed_in: Any, die: Any) -> None:
    client, letter = signed_in("operator"), die()
    cluster = reverse("cluster", args=[letter.cluster_id])
    assert f'href="{cluster}"' in client.get("/").text
    page = client.get(cluster).text
    assert "Closed, 2 of 2 unmet" in page
    assert 'aria-describedby="gate-why gate-conditions" disabled>' in page
    signed = client.post(
        cluster + "diagnosis/", {"kind": "permanent", "cause": "Member 7 is missing.", "fix": "Imported."}
    )
    assert signed["Location"] == cluster
    page = client.get(cluster).text
    assert "Open, all met" in page
    assert "Preview the redrive of 1 letter</a>" in page
    preview = address("redrive-letters", of_cluster(cluster_of(letter)))
    assert f'href="{unquote(preview)}"' in page
    assert "1 letter would be sent back" in client.get(preview).text
    started = client.post(preview)
    redrive = Redrive.objects.get()
    assert started["Location"] == reverse("redrive", args=[redrive.pk])
    send_pending(redrive)
    assert "Sent, outcome awaited" in client.get(started["Location"]).text


def test_declaring_the_fix_starts_from_the_diagnosis(signed_in: Any, die: Any) -> None:
    client, letter = signed_in("operator"), die()
    cluster = reverse("cluster", args=[letter.cluster_id])
    said = {
        "kind": "transient",
        "nature": "outage",
        "cause": "The database was down.",
        "evidence": "<i>log</i>",
    }
    client.post(cluster + "diagnosis/", said)
    page = client.get(cluster)
    assert "&lt;i&gt;log&lt;/i&gt;" in page.text
    assert page.context["form"]["nature"].value() == "outage"
    assert "The database was down.</textarea>" in page.text
    assert page.context["form"]["kind"].value() == "transient"


@pytest.mark.parametrize(
    ("field", "data"),
    [
        ("cause", {"kind": "permanent", "cause": "  "}),
        ("kind", {"kind": "odd", "cause": "c"}),
        ("nature", {"kind": "permanent", "nature": "outage", "cause": "c"}),
        ("kind", {"cause": "c"}),
        ("fix", {"kind": "permanent", "cause": "c", "fix_effective_at": "2026-01-01T10:00"}),
        (
            "fix_effective_at",
            {"kind": "permanent", "cause": "c", "fix": "f", "fix_effective_at": "9999-12-31T23:59"},
        ),
        ("fix_effective_at", {"kind": "permanent", "cause": "c", "fix": "f", "fix_effective_at": "tomorrow"}),
        ("ticket_url", {"kind": "permanent", "cause": "c", "ticket_url": "javascript:alert(1)"}),
    ],
)
def test_a_diagnosis_that_cannot_be_signed_comes_back_with_its_error(
    field: str, data: dict[str, str], signed_in: Any, die: Any
) -> None:
    client, letter = signed_in("operator"), die()
    page = client.post(reverse("diagnose-cluster", args=[letter.cluster_id]), data)
    assert page.status_code == 422
    assert list(page.context["form"].errors) == [field]
    assert f'id="id_{field}_error"' in page.text
    assert cluster_of(letter).diagnoses.count() == 0


def test_the_time_of_a_fix_is_read_as_utc(signed_in: Any, die: Any) -> None:
    client, letter = signed_in("operator"), die()
    at = (db_now() - timedelta(minutes=1)).replace(second=0, microsecond=0)
    data = {"kind": "permanent", "cause": "c", "fix": "f", "fix_effective_at": at.strftime("%Y-%m-%dT%H:%M")}
    client.post(reverse("diagnose-cluster", args=[letter.cluster_id]), data)
    assert cluster_of(letter).diagnoses.get().fix_effective_at == at


def test_a_closed_gate_starts_nothing_and_names_what_is_unmet(signed_in: Any, die: Any) -> None:
    client, letter = signed_in("operator"), die()
    page = client.post(address("redrive-letters", of_cluster(cluster_of(letter))))
    assert page.status_code == 422
    assert "The redrive did not start; nothing was sent." in page.text
    assert "Nobody has diagnosed it; No fix is declared" in page.text
    assert not Redrive.objects.exists()


def test_a_cluster_without_open_letters_has_nothing_to_redrive(signed_in: Any, redrive: Redrive) -> None:
    page = signed_in("operator").post(address("redrive-letters", of_cluster(ErrorCluster.objects.get())))
    assert page.status_code == 422
    assert "No open letter is left." in page.text
    assert Redrive.objects.count() == 1


def test_a_merged_cluster_leads_to_what_it_is_part_of(signed_in: Any, die: Any) -> None:
    one, other = cluster_of(die("one")), cluster_of(die("other"))
    other.merged_into = one
    other.save()
    response = signed_in("viewer").get(reverse("cluster", args=[other.pk]))
    assert response["Location"] == reverse("cluster", args=[one.pk])


def test_acknowledging_an_alert_keeps_it_open_and_says_who(signed_in: Any, alert: Alert) -> None:
    client = signed_in("operator")
    assert f'formaction="/alerts/{alert.pk}/acknowledge/"' in client.get("/alerts/").text
    assert client.post(f"/alerts/{alert.pk}/acknowledge/")["Location"] == "/alerts/"
    page = client.get("/alerts/").text
    assert "by operator" in page
    assert "formaction=" not in page


def test_a_lead_changes_the_threshold_and_the_history_says_why(signed_in: Any, queue: SourceQueue) -> None:
    client, address = signed_in("lead"), reverse("queue-settings", args=[queue.name])
    data = filled(client, address, max_attempts="5", reason="measured")
    assert client.post(address, data)["Location"] == address
    queue.refresh_from_db()
    assert queue.max_attempts == 5
    page = client.get(address).text
    assert "measured" in page
    assert "max_attempts" in page


@pytest.mark.parametrize("value", ["", "-1", "101", "3.5", "many"])
def test_a_threshold_outside_of_0_to_100_is_refused(value: str, signed_in: Any, queue: SourceQueue) -> None:
    client, address = signed_in("lead"), reverse("queue-settings", args=[queue.name])
    page = client.post(address, filled(client, address, max_attempts=value))
    assert page.status_code == 422
    assert 'aria-invalid="true"' in page.text
    queue.refresh_from_db()
    assert queue.max_attempts == 3


def test_no_threshold_is_allowed_and_warned_of(signed_in: Any, queue: SourceQueue) -> None:
    client, address = signed_in("lead"), reverse("queue-settings", args=[queue.name])
    client.post(address, filled(client, address, max_attempts="0"))
    assert "tried for ever" in client.get(address).text
    assert "no threshold" in client.get(reverse("queue", args=[queue.name])).text


def test_only_an_admin_gives_a_queue_another_owner(signed_in: Any, queue: SourceQueue) -> None:
    other = Owner.objects.create(name="Billing", slug="billing")
    before = queue.owner
    lead, admin, address = signed_in("lead"), signed_in("admin"), reverse("queue-settings", args=[queue.name])
    lead.post(address, filled(lead, address, owner=str(other.pk)))
    queue.refresh_from_db()
    assert queue.owner == before
    admin.post(address, filled(admin, address, owner=str(other.pk)))
    queue.refresh_from_db()
    assert queue.owner == other
    assert AuditEntry.objects.get().after == {"owner": "Billing"}


@pytest.mark.parametrize("name", ["operator", "operator@library.example", "OPERATOR@Library.example"])
def test_people_sign_in_by_name_or_address_and_go_where_they_wanted(name: str, make_user: Any) -> None:
    make_user("operator")
    client = Client()
    asked = client.get("/letters/?state=all")
    page = client.get(asked["Location"])
    data = {"username": name, "password": PASSWORD, "next": page.context["next"]}
    assert client.post("/sign-in/", data)["Location"] == "/letters/?state=all"
    assert client.get("/").status_code == 200


def test_an_address_of_two_accounts_signs_nobody_in(make_user: Any) -> None:
    for name in ("one", "two"):
        make_user("operator", name=name)
    get_user_model().objects.update(email="both@library.example")
    data = {"username": "both@library.example", "password": PASSWORD}
    assert Client().post("/sign-in/", data).status_code == 422


def test_a_wrong_password_is_told_without_saying_what_was_wrong(make_user: Any) -> None:
    make_user("operator")
    pages = [
        Client().post("/sign-in/", {"username": name, "password": "wrong"}) for name in ("operator", "nobody")
    ]
    assert [page.status_code for page in pages] == [422, 422]
    for page in pages:
        assert "That name and password do not belong together." in page.text


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example"]
)
def test_the_sign_in_leads_to_no_other_site(target: str, make_user: Any) -> None:
    make_user("operator")
    data = {"username": "operator", "password": PASSWORD, "next": target}
    assert Client().post("/sign-in/", data)["Location"] == "/"


def test_signing_out_ends_the_session(signed_in: Any) -> None:
    client = signed_in("viewer")
    assert client.post("/sign-out/")["Location"] == "/sign-in/"
    assert client.get("/")["Location"] == "/sign-in/?next=/"


def test_the_theme_is_kept_and_the_server_renders_it(signed_in: Any) -> None:
    client = signed_in("viewer")
    assert "data-theme" not in client.get("/").text
    assert client.post("/theme/", {"theme": "dark", "next": "/letters/"})["Location"] == "/letters/"
    assert 'data-theme="dark"' in client.get("/").text
    client.post("/theme/", {"theme": '"><script>'})
    assert "data-theme" not in client.get("/").text


def test_forms_need_their_token(make_user: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))
    page = client.post("/theme/", {"theme": "dark"})
    assert page.status_code == 403
    assert "That form was too old" in page.text


def test_the_health_check_says_when_the_database_is_away(client: Client, db: None, monkeypatch: Any) -> None:
    assert client.get("/healthz/").text == "ok"

    def away() -> None:
        raise DatabaseError

    with monkeypatch.context() as patch:
        patch.setattr(connection, "cursor", away)
        assert client.get("/healthz/").status_code == 503


def test_an_error_page_needs_no_database(monkeypatch: Any) -> None:
    def boom(*args: Any) -> None:
        raise DatabaseError

    monkeypatch.setattr("dlqadmin.web.health.HttpResponse", boom)
    monkeypatch.setattr("dlqadmin.web.health.connection", None)
    page = Client(raise_request_exception=False).get("/healthz/")
    assert page.status_code == 500
    assert "Something went wrong here" in page.text


def test_a_page_that_is_not_there_says_so_to_everybody(client: Client, signed_in: Any) -> None:
    for browser in (client, signed_in("viewer")):
        page = browser.get("/nowhere/")
        assert page.status_code == 404
        assert "There is nothing here" in page.text
