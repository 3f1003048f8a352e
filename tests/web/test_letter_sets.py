"""People select letters, change their bodies, redrive or settle them, and take it back, on the pages."""

from typing import Any

import pytest
from django.urls import reverse

from dlqadmin.consumers.consume import consume_once
from dlqadmin.consumers.registry import declared
from dlqadmin.deadletters.models import DeadLetter, LetterEdit
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.run import advance_redrives
from tests.web.making import cluster_of

PATCH = '[{"op": "replace", "path": "/loanId", "value": 8.50}]'


def page_of(name: str, queue: SourceQueue, **query: Any) -> str:
    return reverse(name, args=[queue.name], query=query)


@pytest.fixture
def causes(die: Any) -> list[DeadLetter]:
    """Three letters of two causes; the fix of the first is declared."""
    letters = [die("member <b>7</b> not found"), die("member <b>7</b> not found"), die("no tax code")]
    sign_diagnosis(cluster=cluster_of(letters[0]), by=None, kind="permanent", cause="c", fix="f")
    return letters


def test_the_preview_of_many_causes_says_which_gates_are_closed(
    signed_in: Any, queue: Any, causes: Any
) -> None:
    client = signed_in()
    page = client.get(page_of("redrive-letters", queue))
    assert "2 letters would be sent back" in page.text
    assert "2 causes, each with its own gate" in page.text
    assert "1 of 2 causes may go." in page.text
    assert "Nobody has diagnosed it; No fix is declared" in page.text
    assert "Adds up" in page.text
    started = client.post(page_of("redrive-letters", queue), {"cutoff": causes[0].pk}, follow=True)
    assert Redrive.objects.get().items.count() == 1, "the second came after the page was made"
    assert "left out:" not in started.text, "its letters came later too"
    client.post(page_of("redrive-letters", queue), follow=True)
    page = client.get(reverse("redrive", args=[Redrive.objects.latest("pk").pk]))
    assert "left out:" in page.text
    assert "&lt;b&gt;7&lt;/b&gt;" in page.text or "&lt;b&gt;<var>" in page.text


def test_a_large_redrive_shows_the_counts_that_were_kept_and_they_are_right(
    signed_in: Any, queue: Any, causes: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("dlqadmin.web.redrives.MOST_COUNTED", 0)
    client = signed_in()
    client.post(page_of("redrive-letters", queue, q=f"cluster:{causes[0].cluster_id}"))
    redrive = Redrive.objects.get()

    def shown() -> dict[str, int]:
        bars = client.get(reverse("redrive", args=[redrive.pk])).context["bars"]
        return {bar.outcome: bar.number for bar in bars if bar.number}

    assert shown() == {"pending": 2}
    advance_redrives()
    assert shown() == {"sent": 1, "pending": 1}
    client.post(reverse("control-redrive", args=[redrive.pk]), {"cancel": ""})
    assert shown() == {"sent": 1, "skipped": 1}
    with declared(queue.name, type="note", function=lambda message: None, body="bytes"):
        consume_once(queue)
    advance_redrives()
    assert shown() == {"succeeded": 1, "skipped": 1}


def test_letters_are_selected_in_the_list_and_redriven(signed_in: Any, queue: Any, causes: Any) -> None:
    client = signed_in()
    page = client.get("/letters/", {"q": f"queue:{queue.name}"}).text
    assert f'formaction="{page_of("redrive-letters", queue)}"' in page
    address = page_of("redrive-letters", queue, chosen="open", id=[causes[0].pk])
    assert "1 letter would be sent back" in client.get(address).text
    client.post(address)
    assert Redrive.objects.get().items.get().letter_id == causes[0].pk
    assert "1 that was named is not open any more" not in client.get(address).text
    assert "1 more is being redriven already" in client.get(address).text


@pytest.mark.parametrize("name", ["redrive-letters", "settle-letters", "patch-letters"])
def test_selecting_nothing_is_no_set_of_all(signed_in: Any, queue: Any, causes: Any, name: str) -> None:
    answer = signed_in("lead").get(page_of(name, queue, chosen="open"), follow=True)
    assert "nothing was selected" in answer.text
    assert answer.context["asked"].text == f"queue:{queue.name} state:open"


def test_the_list_offers_nothing_to_whoever_may_not(signed_in: Any, queue: Any, causes: Any) -> None:
    assert "formaction" not in signed_in("viewer").get("/letters/", {"q": f"queue:{queue.name}"}).text


def test_c27_all_that_match_are_those_of_the_filter_as_it_was_shown(
    signed_in: Any, queue: Any, causes: Any, die: Any
) -> None:
    client, settle = signed_in(), page_of("settle-letters", queue, q='error:"no tax"')
    shown = client.get(settle).context["form"]["cutoff"].value()
    late = die("no tax code")
    refused = client.post(settle, {"discard": "", "reason": "x", "number": 2, "cutoff": shown})
    assert "You typed 2; there are 1 letters." in refused.text
    client.post(settle, {"discard": "", "reason": "x", "number": 1, "cutoff": shown})
    states = dict(DeadLetter.objects.values_list("pk", "state"))
    assert states == {causes[0].pk: "open", causes[1].pk: "open", causes[2].pk: "discarded", late.pk: "open"}


def test_discarded_letters_are_found_and_opened_again(signed_in: Any, queue: Any, causes: Any) -> None:
    client, newest = signed_in(), causes[-1].pk
    settle = page_of("settle-letters", queue, q="error:member")
    assert "Settle 2 letters without sending them" in client.get(settle).text
    done = {"discard": "", "reason": "a test", "number": 2, "cutoff": newest}
    assert "2 letters were discarded." in client.post(settle, done, follow=True).text
    listed = client.get("/letters/", {"q": f"queue:{queue.name} state:discarded"}).text
    assert "Open them again…" in listed
    reopen = page_of("settle-letters", queue, q="error:member state:discarded")
    assert "Open 2 letters again?" in client.get(reopen).text
    again = client.post(reopen, {"reopen": "", "number": 2, "cutoff": newest}, follow=True)
    assert "2 letters are open again." in again.text
    assert DeadLetter.objects.open().count() == 3


def test_a_body_is_edited_shown_and_taken_back(signed_in: Any, causes: Any) -> None:
    client, letter = signed_in("lead"), causes[0]
    edit = reverse("edit-letter", args=[letter.pk])
    page = client.get(edit)
    assert page.context["form"]["body"].value() == '{"loanId": 7}'
    broken = client.post(edit, {"form": "text", "body": '{"loanId":', "reason": "x"})
    assert (broken.status_code, "must be JSON" in broken.text) == (422, True)
    assert "{&quot;loanId&quot;:</textarea>" in broken.text, "what was typed is lost"
    data = {"form": "text", "body": '{"loanId":8.50}', "reason": "<i>wrong</i> loan"}
    page = client.post(edit, data, follow=True).text
    assert "&lt;i&gt;wrong&lt;/i&gt; loan" in page
    assert "<ins>+ " in page
    assert "8.50" in page
    assert bytes(LetterEdit.objects.get().body) == b'{"loanId":8.50}'
    assert "The letter goes back with its own body." in client.post(edit, {"undo": ""}, follow=True).text
    assert not LetterEdit.objects.exists()


def test_bytes_are_edited_as_hexadecimal_digits(signed_in: Any, die: Any) -> None:
    client, letter = signed_in("lead"), die(body=b"\xff\x00\x01")
    edit = reverse("edit-letter", args=[letter.pk])
    page = client.get(edit)
    assert "hexadecimal" in page.text
    assert page.context["form"]["body"].value() == "ff 00 01"
    client.post(edit, {"form": "hex", "body": "ff 00\r\n02", "reason": "x"})
    assert bytes(LetterEdit.objects.get().body) == b"\xff\x00\x02"


def test_a_patch_is_tried_before_it_is_kept(signed_in: Any, queue: Any, causes: Any) -> None:
    client = signed_in("lead")
    address = page_of("patch-letters", queue, q="error:member")
    tried = client.post(address, {"patch": PATCH, "reason": "wrong loan", "try": ""})
    assert "2 bodies would change" in tried.text
    assert "<del>- " in tried.text
    assert not LetterEdit.objects.exists()
    hidden = {"cutoff": causes[1].pk, "changes": 2}
    kept = client.post(address, {"patch": PATCH, "reason": "wrong loan", "keep": "", **hidden}, follow=True)
    assert "2 bodies were changed." in kept.text
    assert "2 with edited bodies" in kept.text
    assert LetterEdit.objects.count() == 2


WRONG = [{"patch": "{"}, {"reason": ""}, {"patch": '[{"op":"remove","path":"/none"}]', "keep": ""}]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_patch_that_cannot_be_kept_says_why(signed_in: Any, queue: Any, causes: Any, wrong: Any) -> None:
    answer = signed_in("lead").post(page_of("patch-letters", queue), {"patch": PATCH, "reason": "x"} | wrong)
    assert answer.status_code == 422
    assert 'class="error"' in answer.text
    assert not LetterEdit.objects.exists()
