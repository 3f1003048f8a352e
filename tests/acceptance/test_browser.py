"""The first walk of a new user, in a real browser, through everything that `make run` starts."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.processes import running_dlqadmin, wait_for
from tests.browsing import complaints_of, headless_chromium, needs_chromium

pytestmark = [pytest.mark.acceptance, pytest.mark.browser, needs_chromium]


@pytest.fixture
def address(home: Path) -> Iterator[str]:
    """The address of a dlqadmin that runs with the demo."""
    with running_dlqadmin(home) as url:
        yield url


def sign_in(page: Page, address: str, home: Path) -> None:
    name, password = (home / "admin_password").read_text().split()
    page.goto(address)
    page.get_by_label("user name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_from_two_dead_notices_to_twenty_processed(address: str, home: Path) -> None:
    with headless_chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        complaints = complaints_of(page)

        sign_in(page, address, home)
        expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile("queue|dead letters"))

        queue_page = f"{address}queues/late-notices/"
        page.goto(queue_page)
        wait_for(
            lambda: _shows(page, queue_page, "dead", 2) and _shows(page, queue_page, "processed", 18),
            "2 dead letters",
        )
        page.get_by_role("link", name=re.compile(r"member not found \(loan int\)")).first.click()

        expect(page.get_by_role("button", name="Redrive 2 letters")).to_be_disabled()
        expect(page.get_by_text("Nobody has diagnosed it").first).to_be_visible()
        cluster_page = page.url

        # A fix is declared that is none: the canary says so, and the diagnosis is refuted.
        _sign(page, cause="The member service was down.", fix="It was started again.")
        _redrive(page)
        redrive_page = page.url
        wait_for(lambda: _says(page, redrive_page, "Stopped"), "the redrive to stop", seconds=90)
        wait_for(lambda: _alerted(page, address, "stopped"), "the owner's alert")
        page.goto(cluster_page)
        expect(page.get_by_text("Came back").first).to_be_visible()
        expect(page.get_by_role("button", name="Redrive 2 letters")).to_be_disabled()

        page.get_by_role("link", name="Demo library").first.click()
        page.get_by_role("button", name="Add members 7, 13").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("The library has every member")

        page.goto(cluster_page)
        _sign(page, cause="Members 7 and 13 were missing.", fix="They were added.")
        _redrive(page)

        expect(page.get_by_role("heading", level=1)).to_contain_text("Redrive")
        page.goto(queue_page)
        wait_for(
            lambda: _shows(page, queue_page, "processed", 20) and _shows(page, queue_page, "dead", 0),
            "20 processed, 0 dead",
        )
        assert complaints == []


def _sign(page: Page, cause: str, fix: str) -> None:
    """Sign a diagnosis with a declared fix."""
    cause_field = page.get_by_label("Cause")
    if not cause_field.is_visible():
        page.get_by_text("Write a new diagnosis").click()
    cause_field.fill(cause)
    page.get_by_label("Fix", exact=True).fill(fix)
    page.get_by_role("button", name=re.compile("^Sign as")).click()


def _redrive(page: Page) -> None:
    """From the page of a cluster whose gate is open over the preview to the redrive."""
    page.get_by_role("link", name=re.compile("^Preview the redrive of 2 letters")).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("2 letters would be sent back")
    page.get_by_role("button", name="Start the redrive").click()


def _alerted(page: Page, address: str, word: str) -> bool:
    """Whether the page of alerts names the redrive, and somebody was told; twice, if it was held before it stopped."""
    page.goto(f"{address}alerts/")
    row = page.get_by_role("row", name=re.compile(f"Redrive \\d+ in late-notices {word}"))
    return row.count() > 0 and bool(re.search(r"once|[0-9] times", row.first.inner_text()))


def _says(page: Page, url: str, word: str) -> bool:
    page.goto(url)
    return page.locator(".page-head").get_by_text(word).count() > 0


def _shows(page: Page, url: str, account: str, number: int) -> bool:
    """Whether the ledger of the queue's page has this number in this account; the page is loaded again each time."""
    page.goto(url)
    row = page.locator(".ledger tr", has=page.get_by_role("rowheader", name=re.compile(f"^{account}", re.I)))
    return row.count() > 0 and re.sub(r"\D", "", row.first.locator("td").last.inner_text()) == str(number)
