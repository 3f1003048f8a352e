"""Live regions: 204 when nothing changed, the region when it did, 286 when nothing will change any more."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dlqadmin.alerts.evaluate import evaluate
from dlqadmin.redrive.models import Redrive
from tests.web.making import begin_redrive

POLL = {"HX-Request": "true"}


def polled_address(page: Any) -> str:
    found = re.search(r'hx-get="([^"]+)"', page.text)
    assert found, "the page does not poll"
    return found.group(1).replace("&amp;", "&")


@pytest.mark.parametrize("name", ["overview", "letters", "redrives", "alerts"])
def test_a_poll_is_answered_with_204_until_something_changes(
    name: str, signed_in: Any, redrive: Redrive, die: Any
) -> None:
    client: Client = signed_in("operator")
    page = client.get(reverse(name))
    assert client.get(polled_address(page), headers=POLL).status_code == 204
    if name == "redrives":
        begin_redrive(die(), client.user)  # type: ignore[attr-defined]
    elif name == "alerts":
        die()
        evaluate()
    else:
        die("another error")
    fresh = client.get(polled_address(page), headers=POLL)
    assert fresh.status_code == 200
    assert fresh.text.startswith('<div class="flow-lg" id="live"')
    assert "<html" not in fresh.text
    assert client.get(polled_address(fresh), headers=POLL).status_code == 204


def test_the_page_of_a_queue_polls(signed_in: Any, die: Any) -> None:
    client, letter = signed_in("viewer"), die()
    page = client.get(reverse("queue", args=[letter.queue.name]))
    assert client.get(polled_address(page), headers=POLL).status_code == 204
    die()
    assert client.get(polled_address(page), headers=POLL).status_code == 200


def test_a_running_redrive_polls_every_two_seconds(signed_in: Any, die: Any) -> None:
    client = signed_in("operator")
    begun = begin_redrive(die(), client.user)
    page = client.get(reverse("redrive", args=[begun.pk]))
    assert 'hx-trigger="every 2s"' in page.text
    assert client.get(polled_address(page), headers=POLL).status_code == 204


def test_a_redrive_that_has_ended_stops_the_polling_with_its_last_state(
    signed_in: Any, redrive: Redrive
) -> None:
    response = signed_in("operator").get(reverse("redrive", args=[redrive.pk]) + "?version=old", headers=POLL)
    assert response.status_code == 286
    assert "Succeeded" in response.text
    assert "hx-get" not in response.text


def test_without_htmx_and_for_its_history_the_whole_page_comes(signed_in: Any, db: None) -> None:
    client = signed_in("operator")
    for headers in ({}, POLL | {"HX-Boosted": "true"}, POLL | {"HX-History-Restore-Request": "true"}):
        assert "<html" in client.get(reverse("overview"), headers=headers).text


def test_caches_are_told_that_the_answer_depends_on_htmx(signed_in: Any, db: None) -> None:
    response = signed_in("operator").get(reverse("overview"))
    assert "HX-Request" in response["Vary"]
    assert "no-store" in response["Cache-Control"]


def test_no_region_that_is_replaced_holds_a_form(signed_in: Any, alert: Any, redrive: Redrive) -> None:
    client = signed_in("admin")
    for address in ["/", "/letters/", "/alerts/", "/redrives/", reverse("queue", args=[redrive.queue.name])]:
        region = client.get(address + "?version=old", headers=POLL).text
        assert "<form" not in region
        assert "<input" not in region


def test_new_letters_are_offered_and_not_pushed_into_the_list(signed_in: Any, die: Any) -> None:
    client = signed_in("viewer")
    die()
    page = client.get(reverse("letters"))
    later = die()
    region = client.get(polled_address(page), headers=POLL).text
    assert "1 new letter, show it" in region
    assert reverse("letter", args=[later.pk]) not in region
