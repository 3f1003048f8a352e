"""People preview, start, approve, pause and cancel redrives, and settle letters, on the pages."""

from typing import Any

import pytest
from django.urls import reverse

from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.sets import of_cluster
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.diagnose import sign_diagnosis
from dlqadmin.redrive.ledger import read_ledger
from dlqadmin.redrive.models import Redrive
from dlqadmin.web.asked import address
from tests.web.making import cluster_of


@pytest.fixture
def fixed(die: Any) -> Any:
    """A cluster of three letters with a declared fix."""
    letters = [die() for _ in range(3)]
    cluster = cluster_of(letters[0])
    sign_diagnosis(cluster=cluster, by=None, kind="permanent", cause="missing", fix="added")
    return cluster


def post(client: Any, route: str, thing: Any, **data: Any) -> Any:
    return client.post(reverse(route, args=[thing.pk]), data, follow=True)


def of(route: str, cluster: Any) -> str:
    """The address of a page about the letters of a cluster."""
    return address(route, of_cluster(cluster))


def post_set(client: Any, route: str, cluster: Any, **data: Any) -> Any:
    return client.post(of(route, cluster), data, follow=True)


def test_the_preview_adds_up_and_its_options_are_kept(signed_in: Any, fixed: Any) -> None:
    client = signed_in()
    page = client.get(of("redrive-letters", fixed))
    assert "3 letters would be sent back" in page.text
    assert "Adds up" in page.text
    cutoff = page.context["plan"].cutoff
    post_set(
        client, "redrive-letters", fixed, canary=2, window=50, rate="1.5", stop_percent=10, cutoff=cutoff
    )
    redrive = Redrive.objects.get()
    assert (redrive.canary, redrive.window, redrive.rate, redrive.stop_percent) == (2, 50, 1.5, 10.0)
    assert redrive.cutoff_letter_id == cutoff


@pytest.mark.parametrize("wrong", [{"canary": -1}, {"window": 0}, {"rate": "x"}, {"stop_percent": 101}])
def test_bad_options_start_nothing_and_say_where(signed_in: Any, fixed: Any, wrong: dict[str, Any]) -> None:
    answer = post_set(signed_in(), "redrive-letters", fixed, **wrong)
    assert answer.status_code == 422
    assert f"id_{next(iter(wrong))}_error" in answer.text
    assert not Redrive.objects.exists()


def test_only_an_admin_overrides_the_gate(signed_in: Any, die: Any) -> None:
    cluster = cluster_of(die())
    assert post_set(signed_in(), "redrive-letters", cluster, override_reason="x").status_code == 422
    assert "Override the gate" not in signed_in("lead").get(of("redrive-letters", cluster)).text
    answer = post_set(signed_in("admin"), "redrive-letters", cluster, override_reason="we <b>must</b>")
    assert "although the gate was closed" in answer.text
    assert "we &lt;b&gt;must&lt;/b&gt;" in answer.text


def test_a_second_person_approves(signed_in: Any, fixed: Any) -> None:
    SourceQueue.objects.update(approval_above=1)
    client = signed_in()
    assert "No second person has approved" in post_set(client, "redrive-letters", fixed).text
    assert "Approved." in post(signed_in("lead"), "approve-redrive", fixed, letters=3).text
    assert post_set(client, "redrive-letters", fixed).status_code == 200
    assert Redrive.objects.exists()


def test_a_redrive_is_paused_resumed_and_cancelled(signed_in: Any, fixed: Any) -> None:
    client = signed_in()
    post_set(client, "redrive-letters", fixed)
    redrive = Redrive.objects.get()
    for button, state in (("pause", "Paused"), ("resume", "Running"), ("cancel", "Cancelled")):
        assert state in post(client, "control-redrive", redrive, **{button: ""}).text
    assert "The redrive is Cancelled." in post(client, "control-redrive", redrive, pause="").text
    assert DeadLetter.objects.open().count() == 3


def test_a_letter_is_discarded_with_a_reason_and_opened_again(signed_in: Any, die: Any) -> None:
    client, letter = signed_in(), die()
    assert "Say why" in post(client, "settle-letter", letter, discard="", reason=" ").text
    assert (
        "1 letter was discarded." in post(client, "settle-letter", letter, discard="", reason="a test").text
    )
    assert "1 letter is open again." in post(client, "settle-letter", letter, reopen="").text
    assert "1 letter was resolved." in post(client, "settle-letter", letter, resolve="", reason="called").text
    assert read_ledger(letter.queue_id).difference == 0


def test_all_letters_of_a_set_are_settled_only_if_their_number_is_typed(signed_in: Any, fixed: Any) -> None:
    client = signed_in()
    cutoff = DeadLetter.objects.latest("pk").pk
    answer = post_set(client, "settle-letters", fixed, discard="", reason="x", number=2, cutoff=cutoff)
    assert (answer.status_code, "there are 3 letters" in answer.text) == (422, True)
    answer = post_set(client, "settle-letters", fixed, discard="", reason="", number=3, cutoff=cutoff)
    assert answer.status_code == 422
    answer = post_set(client, "settle-letters", fixed, discard="", reason="x", number=3, cutoff=cutoff)
    assert "3 letters were discarded." in answer.text
    assert not DeadLetter.objects.open().exists()
