"""What the pages say, and that nothing from outside can break out of them."""

import base64
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dlqadmin.alerts.evaluate import evaluate
from dlqadmin.alerts.models import Alert, Notification
from dlqadmin.clock import db_now
from dlqadmin.consumers.consume import consume_one
from dlqadmin.consumers.registry import declared
from dlqadmin.deadletters.models import LetterText
from dlqadmin.messages.publish import publish
from dlqadmin.people.models import Owner
from dlqadmin.queues import books
from dlqadmin.queues.models import AccountKind, SourceQueue
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.ledger import Ledger, read_ledgers
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.stages import Progress, Stage, progress_of
from tests.web.making import begin_redrive, cluster_of

NASTY = "<script>alert('x')</script>\"><img src=x onerror=alert(1)> \0 \u202e {{ 7 }} {% now %} %s"


@pytest.fixture
def nasty_addresses(die: Any, make_user: Any, queue: SourceQueue) -> list[str]:
    """Every page of a letter in which everything from outside is hostile."""
    header = base64.b64encode(NASTY.encode()).decode()
    letter = die(
        NASTY,
        type=NASTY,
        body=NASTY,
        key=NASTY,
        message_id=NASTY.replace("\0", ""),
        content_type=NASTY,
        content_encoding=NASTY,
        headers=[(NASTY, NASTY, header), ("bytes", "bytes", "AP8="), ("null", "null", None)],
    )
    cluster, person = cluster_of(letter), make_user("operator", name="<b>bob")
    sign_diagnosis(
        cluster=cluster,
        by=person,
        kind="permanent",
        cause=NASTY.replace("\0", ""),
        fix=NASTY.replace("\0", ""),
    )
    evaluate()
    begun = begin_redrive(letter, person)
    die(NASTY, type=NASTY)
    Owner.objects.update(name="<i>owner")
    Notification.objects.update(last_error=NASTY.replace("\0", ""), target="<u>@example.com")
    return [
        "/",
        "/letters/?state=all",
        "/redrives/",
        "/alerts/",
        reverse("queue", args=[queue.name]),
        reverse("queue-settings", args=[queue.name]),
        *(reverse("letter", args=[letter.pk]) + f"?as={form}" for form in ("", "pretty", "raw", "hex")),
        reverse("cluster", args=[cluster.pk]),
        reverse("redrive", args=[begun.pk]),
    ]


def test_nothing_from_outside_becomes_markup_on_any_page(signed_in: Any, nasty_addresses: list[str]) -> None:
    client = signed_in("admin")
    for address in nasty_addresses:
        page = client.get(address)
        assert page.status_code == 200, address
        for markup in ("<script>", "<img", "onerror=alert(1)>", "<b>bob", "<i>owner", "<u>@"):
            assert markup not in page.text, (address, markup)
        assert "\0" not in page.text
        assert "\u202e" not in page.text


def test_the_overview_says_first_how_many_queues_need_a_person(
    signed_in: Any, die: Any, make_queue: Any
) -> None:
    client = signed_in("operator")
    assert "<h1>No queue yet</h1>" not in client.get("/").text
    assert "<h1>No dead letters</h1>" in client.get("/").text
    die()
    assert "<h1>1 queue needs a person</h1>" in client.get("/").text
    die(into=make_queue("invoices"))
    assert "<h1>2 queues need a person</h1>" in client.get("/").text


def test_a_stranger_sees_no_queue_and_reads_why(signed_in: Any, die: Any) -> None:
    die()
    page = signed_in(None).get("/").text
    assert "<h1>No queue yet</h1>" in page
    assert "late-notices" not in page


def test_the_next_step_follows_the_cluster_through_its_life(signed_in: Any, die: Any) -> None:
    client, letter = signed_in("operator"), die()
    cluster, by = cluster_of(letter), client.user

    def step() -> str:
        row = client.get("/").text.partition('class="next-list"')[2]
        return row.partition(f'id="next-{letter.queue_id}"')[2].partition(">")[2].partition("<")[0]

    assert step() == "Diagnose"
    sign_diagnosis(cluster=cluster, by=by, kind="permanent", cause="Member 7 is missing.")
    assert step() == "Declare the fix"
    sign_diagnosis(cluster=cluster, by=by, kind="permanent", cause="Member 7 is missing.", fix="Imported.")
    assert step() == "Redrive"
    die()
    assert step() == "Diagnose again"


def test_the_stage_of_a_cluster_is_what_the_gate_says(signed_in: Any, die: Any) -> None:
    by = signed_in("operator").user
    new, fixed, refuted = cluster_of(die("new")), cluster_of(die("fixed")), cluster_of(die("refuted"))
    for cluster in (fixed, refuted):
        sign_diagnosis(cluster=cluster, by=by, kind="permanent", cause="c", fix="f")
    die("refuted")
    found = progress_of([new.pk, fixed.pk, refuted.pk])
    assert found[new.pk] == Progress(Stage.NEW, gate_open=False)
    assert found[fixed.pk] == Progress(Stage.FIX_DECLARED, gate_open=True)
    assert found[refuted.pk] == Progress(Stage.CAME_BACK, gate_open=False)


def test_the_books_of_a_queue_add_up_in_view(signed_in: Any, queue: SourceQueue, die: Any) -> None:
    client = signed_in("operator")
    die()
    for _ in range(3):
        publish(queue, type="fine", body={})
    with declared(queue.name, type="fine", function=lambda message: None):
        consume_one(queue)
    ledger = read_ledgers([queue.pk])[queue.pk]
    assert ledger == Ledger(received=4, processed=1, waiting=2, dead=1)
    assert ledger.difference == 0
    page = client.get(reverse("queue", args=[queue.name])).text
    assert "Adds up" in page
    assert '<tr><th scope="row">Received</th><td>4</td></tr>' in page


def test_the_books_add_up_in_every_state_of_a_redrive(signed_in: Any, queue: SourceQueue, die: Any) -> None:
    by = signed_in("operator").user
    begin_redrive(die(), by)
    assert read_ledgers([queue.pk])[queue.pk] == Ledger(received=1, waiting=1)


@pytest.mark.parametrize("more", [-1, 1])
def test_books_that_do_not_add_up_say_so(more: int, signed_in: Any, queue: SourceQueue, die: Any) -> None:
    die()
    books.post(queue.pk, AccountKind.RECEIVED, more)
    page = signed_in("viewer").get(reverse("queue", args=[queue.name])).text
    assert "Does not add up" in page
    assert "Adds up" not in page


def test_a_letter_shows_its_attempts_and_all_its_lives(signed_in: Any, queue: SourceQueue, die: Any) -> None:
    client = signed_in("operator")
    first = die("member not found")
    begun = begin_redrive(first, client.user)

    def fail(message: Any) -> None:
        raise LookupError("member not found")

    with declared(queue.name, type="note", function=fail):
        for _ in range(3):
            consume_one(queue, due_before=None)
    second = first.next.get()
    page = client.get(reverse("letter", args=[second.pk])).text
    for text in (
        "Attempt 1",
        "Attempt 3",
        "died 2 times",
        f"letter {first.pk}",
        f"Redrive {begun.pk}",
        "this letter",
    ):
        assert text in page
    assert "Traceback (most recent call last)" in page


def test_a_body_is_downloaded_as_it_was_and_never_as_a_page(signed_in: Any, die: Any) -> None:
    body = b"<script>alert(1)</script>\0\xff"
    letter = die(body=body)
    response = signed_in("viewer").get(reverse("letter-body", args=[letter.pk]))
    assert response.content == body
    assert response["Content-Type"] == "application/octet-stream"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Disposition"].startswith("attachment")


def test_a_page_never_loads_a_large_body(signed_in: Any, die: Any) -> None:
    letter = die(body=b"x" * 1_000_000)
    client = signed_in("viewer")
    page = client.get(reverse("letter", args=[letter.pk]))
    assert len(page.content) < 200_000
    assert "at most 65,536 of 1,000,000 bytes" in page.text
    assert "body" in page.context["letter"].get_deferred_fields()
    assert "body" in client.get("/letters/").context["rows"][0].get_deferred_fields()


def test_big_numbers_of_a_body_keep_their_digits_on_the_page(signed_in: Any, die: Any) -> None:
    letter = die(body=b'{"id": 123456789012345678901234567890, "price": 1.00}')
    page = signed_in("viewer").get(reverse("letter", args=[letter.pk])).text
    assert "123456789012345678901234567890" in page
    assert "1.00" in page


@pytest.mark.parametrize(("body", "said"), [(None, "No body"), (b"", "An empty body")])
def test_no_body_and_an_empty_one_are_told_apart(
    body: bytes | None, said: str, signed_in: Any, die: Any
) -> None:
    assert said in signed_in("viewer").get(reverse("letter", args=[die(body=body).pk])).text


def test_the_list_has_pages_in_both_directions(signed_in: Any, die: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("dlqadmin.web.letters.PAGE", 2)
    client, ids = signed_in("viewer"), [die().pk for _ in range(5)]

    def shown(query: str) -> list[int]:
        return [letter.pk for letter in client.get("/letters/" + query).context["rows"]]

    assert shown("") == ids[:-3:-1]
    assert shown(f"?before={ids[3]}") == [ids[2], ids[1]]
    assert shown(f"?before={ids[1]}") == [ids[0]]
    assert shown(f"?after={ids[0]}") == [ids[2], ids[1]]
    assert shown(f"?after={ids[2]}") == [ids[4], ids[3]]


def test_the_list_filters_by_what_is_asked(signed_in: Any, die: Any, make_queue: Any) -> None:
    client, here = signed_in("viewer"), die()
    there = die("another thing", into=make_queue("team/invoices"), type="bill", key="k")

    def shown(text: str) -> set[int]:
        return {letter.pk for letter in client.get("/letters/", {"q": text}).context["rows"]}

    assert shown("") == {here.pk, there.pk}
    assert shown("queue:team/invoices") == {there.pk}
    assert shown(f"cluster:{here.cluster_id}") == {here.pk}
    assert shown("state:resolved") == set()
    assert shown("member") == shown('error:"not found"') == shown(f"id:{here.pk}") == {here.pk}
    assert shown("type:bill key:k age:<1h attempts:>1 generation:1 state:all") == {there.pk}
    assert shown("age:>1h") == shown("attempts:>9") == shown("type:bill type:odd key:x") == set()


@pytest.mark.parametrize(
    "query",
    [
        "state:odd",
        "cluster:x",
        "agee:>7d",
        "age:7",
        "id:-1",
        'error:"open',
        "a\0b",
        f"id:{10**19}",
        "x" * 4_001,
    ],
)
def test_a_filter_that_cannot_be_read_finds_nothing_and_says_where(
    query: str, signed_in: Any, die: Any
) -> None:
    die()
    page = signed_in("viewer").get("/letters/", {"q": query})
    assert page.status_code == 200
    assert page.context["asked"].mistake
    assert 'role="alert" id="q-error"' in page.text
    assert not page.context["rows"]


def test_each_part_of_the_filter_can_be_taken_away(signed_in: Any, die: Any) -> None:
    die("<b>boom</b>")
    page = signed_in("viewer").get("/letters/", {"q": 'type:note error:"<b>boom</b>" age:<1h'})
    assert [term for term, _ in page.context["asked"].chips] == [
        "type:note",
        'error:"<b>boom</b>"',
        "age:<1h",
    ]
    assert 'href="/letters/?q=type%3Anote++age%3A%3C1h"' in page.text
    assert "error:&quot;&lt;b&gt;boom&lt;/b&gt;&quot;" in page.text
    assert "<b>boom</b>" not in page.text


@pytest.mark.parametrize("query", [f"before={10**30}", "newest=\0", "after=-1"])
def test_an_odd_place_in_the_list_is_no_error(query: str, signed_in: Any, die: Any) -> None:
    die()
    assert signed_in("viewer").get(f"/letters/?{query}").status_code == 200


def test_the_queue_of_another_team_cannot_be_filtered_for(signed_in: Any, make_queue: Any, die: Any) -> None:
    die("secret", into=make_queue("theirs", owner=Owner.objects.create(name="Other", slug="other")))
    client = signed_in("viewer")
    theirs, nowhere = (
        client.get("/letters/", {"q": f"queue:{name} state:all"}) for name in ("theirs", "nowhere")
    )
    assert "secret" not in theirs.text
    assert theirs.context["queue"] is nowhere.context["queue"] is None


def test_the_alerts_say_who_was_told_and_whether_it_arrived(signed_in: Any, alert: Alert) -> None:
    client = signed_in("operator")
    assert "on its way" in client.get("/alerts/").text
    Notification.objects.update(state="failed", last_error="SMTPException", tries=10)
    page = client.get("/alerts/").text
    assert "0 delivered, 1 failed" in page
    assert "10 tries: SMTPException" in page
    Notification.objects.update(state="sent", sent_at=db_now())
    assert "Delivered" in client.get("/alerts/").text


def test_an_alert_that_closed_is_listed_for_a_day(signed_in: Any, alert: Alert) -> None:
    Alert.objects.update(state="closed", closed_at=db_now())
    page = signed_in("viewer").get("/alerts/").text
    assert "<h1>No alert is firing</h1>" in page
    assert "1 closed in the last 24 h" in page


def test_empty_pages_are_kind(signed_in: Any, queue: SourceQueue) -> None:
    client = signed_in("viewer")
    assert "No letter matches" in client.get("/letters/").text
    assert "Nothing was redriven yet" in client.get("/redrives/").text
    assert "No alert is open" in client.get("/alerts/").text
    assert "No dead letters" in client.get(reverse("queue", args=[queue.name])).text


def test_numbers_on_pages_are_grouped_but_ids_are_not(signed_in: Any, die: Any) -> None:
    letter = die()
    LetterText.objects.all().delete()
    type(letter).objects.filter(pk=letter.pk).update(id=1234567)
    page = signed_in("viewer").get("/letters/").text
    assert 'href="/letters/1234567/"' in page
    assert ">1234567<" in page
    assert "1,234,567" not in page


def rows_and_queries(client: Client, address: str, django_assert_max_num_queries: Any) -> int:
    client.get(address)
    with django_assert_max_num_queries(100) as queries:
        assert client.get(address).status_code == 200
    return len(queries.captured_queries)


def test_a_page_asks_as_often_for_many_rows_as_for_few(
    signed_in: Any, die: Any, make_queue: Any, make_user: Any, django_assert_max_num_queries: Any
) -> None:
    client, person = signed_in("operator"), make_user("operator", name="redriver")

    def fill(numbers: range) -> None:
        for number in numbers:
            into = make_queue(f"queue-{number}")
            begin_redrive(die(f"error {'x' * number}", into=into), person)
            die(f"another {'y' * number}", into=into)
            die(f"cause {'z' * number}")
        evaluate()

    def count() -> dict[str, int]:
        return {
            address: rows_and_queries(client, address, django_assert_max_num_queries)
            for address in ["/", "/letters/", "/redrives/", "/alerts/", "/queues/late-notices/"]
        }

    fill(range(1, 4))
    few = count()
    fill(range(4, 16))
    assert count() == few
    assert max(few.values()) <= 18, few


def test_the_frame_costs_at_most_three_queries(
    signed_in: Any, die: Any, django_assert_max_num_queries: Any
) -> None:
    die()
    client = signed_in("viewer")
    with django_assert_max_num_queries(5) as queries:  # two of them: session and user
        client.get("/nowhere/")
    assert len(queries.captured_queries) >= 3


def test_the_sidebar_holds_twelve_queues_and_leads_to_all(signed_in: Any, make_queue: Any) -> None:
    for number in range(14):
        make_queue(f"queue-{number:02}")
    page = signed_in("viewer").get("/letters/").text
    assert page.partition('class="side-foot"')[0].count('<span class="side-name">') == 12
    assert "All 14 queues" in page


def test_a_redrive_page_counts_every_letter_once(signed_in: Any, redrive: Redrive) -> None:
    page = signed_in("viewer").get(reverse("redrive", args=[redrive.pk]))
    assert page.context["total"] == sum(part.number for part in page.context["bars"]) == 1
    assert "Adds up" in page.text
    assert "1 of 1 have an outcome, 100\u00a0%" in page.text
