"""The pages in a real browser: nothing breaks the content security policy, and live regions live."""

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.db import connection
from django.test import Client
from django.urls import reverse
from playwright.sync_api import BrowserContext, expect

from dlqadmin.alerts.evaluate import evaluate
from dlqadmin.consumers.consume import consume_once
from dlqadmin.consumers.registry import declared
from dlqadmin.deadletters.edit import edit_letter
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.run import collect_outcomes
from tests.browsing import complaints_of, headless_chromium, needs_chromium
from tests.web.making import begin_redrive, cluster_of

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def browser(monkeypatch: Any) -> Iterator[Any]:
    """A chromium. Playwright runs an event loop in this thread, for which Django has a connection of its own."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    with headless_chromium() as chromium:
        yield chromium
        connection.close()


def context_of(browser: Any, client: Client, live_server: Any, **options: Any) -> BrowserContext:
    """A window of the browser in which the client's person is signed in."""
    context = browser.new_context(base_url=live_server.url, **options)
    context.add_cookies(
        [{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}]
    )
    return context


def every_page(letter: Any, other: Any, redrive: Any) -> list[str]:
    """The addresses of all pages, with something on each; `letter` and `other` are of one queue and two causes."""
    queue = [letter.queue.name]
    return [
        reverse("overview"),
        reverse("queue", args=queue),
        reverse("queue-settings", args=queue),
        reverse("queue-pause", args=queue),
        reverse("letters", query={"q": f"queue:{letter.queue.name}"}),
        reverse("letters", query={"q": "agee:>7d"}),
        reverse("letters", query={"q": "state:discarded"}),
        reverse("redrive-letters", args=queue),
        reverse("redrive-letters", args=queue, query={"q": f"cluster:{other.cluster_id}"}),
        reverse("settle-letters", args=queue),
        reverse("patch-letters", args=queue),
        reverse("letter", args=[letter.pk]),
        reverse("edit-letter", args=[letter.pk]),
        reverse("cluster", args=[letter.cluster_id]),
        reverse("redrives"),
        reverse("redrive", args=[redrive.pk]),
        reverse("alerts"),
        reverse("system"),
    ]


@pytest.fixture
def full(signed_in: Any, die: Any) -> tuple[Client, list[str]]:
    """An admin, and all pages with something on them: letters of three causes, an edited one, a redrive, alerts."""
    client, letter, other = signed_in("admin"), die(), die("no tax code")
    edit_letter(letter=letter, body=b'{"loanId": 8}', reason="a try", by=client.user)
    sign_diagnosis(cluster=cluster_of(other), by=client.user, kind="permanent", cause="c", fix="f")
    begun = begin_redrive(die("another"), client.user)
    evaluate()
    return client, every_page(letter, other, begun)


def test_no_page_makes_the_browser_complain(browser: Any, live_server: Any, full: Any) -> None:
    client, pages = full
    page = context_of(browser, client, live_server).new_page()
    complaints = complaints_of(page)
    for address in pages:
        page.goto(address)
        page.wait_for_load_state("networkidle")
        assert not complaints, (address, complaints)
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            wider = page.evaluate(
                "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            )
            assert not wider, (address, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(browser: Any, live_server: Any, full: Any, scheme: Any) -> None:
    client, pages = full
    page = context_of(browser, client, live_server, color_scheme=scheme).new_page()
    found = {}
    for address in pages:
        page.goto(address)
        results = Axe().run(page)
        if results.violations_count:
            found[address] = results.generate_report()
    assert not found, "\n".join(f"{address}\n{report}" for address, report in found.items())


def test_a_redrive_is_followed_to_its_end_and_then_left_alone(
    browser: Any, live_server: Any, signed_in: Any, die: Any
) -> None:
    client, letter = signed_in("operator"), die()
    begun = begin_redrive(letter, client.user)
    page = context_of(browser, client, live_server).new_page()
    page.goto(reverse("redrive", args=[begun.pk]))
    expect(page.get_by_role("heading", name="0 of 1 have an outcome")).to_be_visible()
    page.locator("#to-cluster").focus()
    with declared(letter.queue.name, type="note", function=lambda message: None):
        consume_once(letter.queue)
    collect_outcomes(begun)
    expect(page.get_by_role("heading", name="1 of 1 have an outcome")).to_be_visible()
    expect(page.locator("#to-cluster")).to_be_focused()
    expect(page.locator("[hx-get]")).to_have_count(0)
    polls: list[str] = []
    page.on("request", lambda request: polls.append(request.url))
    # Longer than the two seconds between polls: there is nothing to wait for but their absence.
    page.wait_for_timeout(2_500)
    assert not polls


def test_figures_that_are_old_say_so(browser: Any, live_server: Any, signed_in: Any, die: Any) -> None:
    client = signed_in("operator")
    begun = begin_redrive(die(), client.user)
    page = context_of(browser, client, live_server).new_page()
    page.goto(reverse("redrive", args=[begun.pk]))
    page.route("**/redrives/**", lambda route: route.abort())
    expect(page.get_by_text("No answer from the server.")).to_be_visible()
    expect(page.get_by_role("heading", name="0 of 1 have an outcome")).to_be_visible()
    page.unroute("**/redrives/**")
    expect(page.get_by_text("No answer from the server.")).to_be_hidden()


def test_without_scripts_a_person_diagnoses_redrives_and_acknowledges(
    browser: Any, live_server: Any, signed_in: Any, die: Any
) -> None:
    client, letter = signed_in("operator"), die()
    evaluate()
    page = context_of(browser, client, live_server, java_script_enabled=False).new_page()
    page.goto("/alerts/")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_text("Acknowledged", exact=True)).to_be_visible()
    page.goto("/")
    page.get_by_role("link", name="Diagnose").click()
    page.get_by_label("Cause").fill("Member 7 is missing.")
    page.get_by_label("Fix", exact=True).fill("Imported.")
    page.get_by_role("button", name="Sign as operator").click()
    page.get_by_role("link", name="Preview the redrive of 1 letter").click()
    page.get_by_role("button", name="Start the redrive").click()
    expect(page.get_by_role("heading", name="Redrive", exact=False).first).to_be_visible()
    assert Redrive.objects.get(parts__cluster=letter.cluster).created_name == "operator"


def test_the_sidebar_opens_on_a_phone_and_the_theme_changes_there(
    browser: Any, live_server: Any, signed_in: Any, queue: Any
) -> None:
    context = context_of(browser, signed_in("viewer"), live_server, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto("/letters/")
    expect(page.get_by_role("navigation", name="Main")).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    page.get_by_text("viewer", exact=True).click()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.url.endswith("/letters/")
