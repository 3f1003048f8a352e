"""Redrives of letters that people chose or filtered: of many causes, each behind its own gate."""

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from dlqadmin.clusters.models import ErrorCluster
from dlqadmin.consumers.consume import consume_once
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.query import BadQuery
from dlqadmin.deadletters.search import index_new_letters
from dlqadmin.deadletters.sets import LetterSet, of_cluster
from dlqadmin.messages.models import Message
from dlqadmin.messages.publish import Outgoing, publish_many
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.audit import audit_books
from dlqadmin.redrive.diagnose import current_diagnosis, sign_diagnosis
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.plan import judge_plan, plan_redrive
from dlqadmin.redrive.run import advance_redrives, count_outcomes
from dlqadmin.redrive.start import GateClosed, NothingToRedrive, start_redrive

pytestmark = pytest.mark.django_db(transaction=True)

CAUSES = ("member not found", "tax code missing", "disk full")


class Work:
    """Fails with the error that the message names, as long as that cause is there."""

    def __init__(self) -> None:
        self.there = set(CAUSES)
        self.done: list[int] = []

    def __call__(self, message: Any) -> None:
        if message.data["cause"] in self.there:
            raise LookupError(message.data["cause"])
        self.done.append(message.data["n"])


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def dead(make_queue: Any, handle: Any, work: Work) -> SourceQueue:
    """A queue with twelve letters, four of each cause."""
    queue: SourceQueue = make_queue("orders", max_attempts=1)
    handle(queue, work)
    publish_many(queue, [Outgoing(type="note", body={"n": n, "cause": CAUSES[n % 3]}) for n in range(12)])
    drain(queue)
    index_new_letters()
    return queue


def drain(queue: SourceQueue) -> None:
    while consume_once(queue).outcomes:
        pass


def cluster_of(cause: str) -> ErrorCluster:
    return ErrorCluster.objects.get(sample_text=cause)


def fix(*causes: str) -> None:
    for cause in causes:
        sign_diagnosis(cluster=cluster_of(cause), by=None, kind="permanent", cause=cause, fix="mended")


def turn(redrive: Redrive) -> Redrive:
    advance_redrives()
    drain(redrive.queue)
    advance_redrives()
    redrive.refresh_from_db()
    return redrive


def test_letters_of_closed_gates_are_left_out_and_named(dead, work) -> None:
    fix(*CAUSES[:2])
    judged = judge_plan(plan_redrive(LetterSet(dead, "")))
    assert (judged.plan.all.open, judged.sums.to_run, judged.closed, judged.difference) == (12, 8, 4, 0)
    assert [part.cluster.sample_text for part in judged.left_out] == ["disk full"]
    work.there = set()
    redrive = start_redrive(letters=LetterSet(dead, ""), by=None)
    left_out = redrive.parts.exclude(left_out="").get()
    assert (left_out.cluster.sample_text, left_out.letters) == ("disk full", 4)
    assert "Nobody has diagnosed it" in left_out.left_out
    turn(redrive)
    assert turn(redrive).state == "done"
    assert count_outcomes(redrive) == {"succeeded": 8}
    assert DeadLetter.objects.open().count() == 4
    assert audit_books().differences == []


def test_a_set_of_which_every_gate_is_closed_starts_nothing(dead) -> None:
    with pytest.raises(GateClosed) as closed:
        start_redrive(letters=LetterSet(dead, ""), by=None)
    assert len(closed.value.unmet) == len({condition.text for condition in closed.value.unmet})
    assert not Redrive.objects.exists()


def test_an_override_takes_the_letters_of_closed_gates_too(dead, make_user) -> None:
    redrive = start_redrive(letters=LetterSet(dead, ""), by=make_user("admin"), override_reason="to see")
    assert redrive.items.count() == 12
    assert not redrive.parts.exclude(left_out="").exists()


@pytest.mark.parametrize(
    ("text", "number"),
    [("type:note", 12), ("error:tax", 4), ("type:other", 0), ("age:>1h", 0), ("generation:1 disk", 4)],
)
def test_exactly_what_the_filter_finds_is_frozen(dead, text, number) -> None:
    fix(*CAUSES)
    letters = LetterSet(dead, text)
    assert plan_redrive(letters).all.open == number
    if number:
        redrive = start_redrive(letters=letters, by=None)
        assert (redrive.items.count(), redrive.filter_text) == (number, text)
        assert DeadLetter.objects.open().count() == 12 - number
    else:
        with pytest.raises(NothingToRedrive):
            start_redrive(letters=letters, by=None)


def test_of_letters_chosen_one_by_one_those_that_are_open_no_more_are_counted(dead) -> None:
    fix(*CAUSES)
    ids = list(DeadLetter.objects.order_by("pk").values_list("pk", flat=True))
    start_redrive(letters=LetterSet(dead, f"id:{ids[0]}"), by=None)
    DeadLetter.objects.filter(pk=ids[1]).update(state="discarded")
    plan = plan_redrive(LetterSet(dead, f"id:{','.join(map(str, ids[:4]))},999999"))
    assert (plan.all.open, plan.redriving, plan.gone) == (2, 1, 2)


def test_letters_of_another_queue_are_never_in_the_set(dead, make_queue) -> None:
    other = make_queue("other")
    pk = DeadLetter.objects.earliest("pk").pk
    assert plan_redrive(LetterSet(other, f"id:{pk}")).all.open == 0
    assert plan_redrive(LetterSet(other, "queue:orders")).all.open == 0


def test_a_filter_that_cannot_be_read_starts_nothing(dead) -> None:
    with pytest.raises(BadQuery):
        start_redrive(letters=LetterSet(dead, "agee:>7d"), by=None)


def test_there_is_a_canary_of_each_cause(dead) -> None:
    fix(*CAUSES)
    redrive = start_redrive(letters=LetterSet(dead, ""), by=None)
    canary = redrive.items.filter(is_canary=True)
    assert sorted(canary.values_list("part__cluster__sample_text", flat=True)) == sorted(CAUSES)


def test_only_the_diagnosis_whose_letters_died_again_is_refuted(dead, work) -> None:
    fix(*CAUSES)
    work.there = {"disk full"}
    redrive = start_redrive(letters=LetterSet(dead, ""), by=None)
    assert turn(redrive).state == "stopped"
    refuted = {cause: current_diagnosis(cluster_of(cause)) for cause in CAUSES}
    assert [cause for cause in CAUSES if refuted[cause].refuted_at] == ["disk full"]
    newest = DeadLetter.objects.latest("pk")
    why = refuted["disk full"].refuted_why
    assert why == f"1 of the letters of redrive {redrive.pk} died again, as letters {newest.pk}"
    assert count_outcomes(redrive) == {"succeeded": 2, "died again": 1, "skipped": 9}
    # The others' letters are open, and their gates too.
    assert start_redrive(letters=of_cluster(cluster_of("tax code missing")), by=None)
    assert audit_books().differences == []


def test_a_gate_that_closes_behind_the_canary_keeps_only_its_own_letters(dead, work) -> None:
    fix(*CAUSES)
    work.there = set()
    redrive = start_redrive(letters=LetterSet(dead, ""), by=None)
    advance_redrives()
    work.there = {"disk full"}
    # A message of the same cause is tried after the fix, and dies.
    publish_many(dead, [Outgoing(type="note", body={"n": 99, "cause": "disk full"})])
    work.there = {"disk full"}
    consume_all_but_canaries_succeed(dead, work)
    advance_redrives()
    redrive.refresh_from_db()
    assert count_outcomes(redrive)["skipped"] == 3
    why = redrive.items.filter(outcome="skipped").values_list("why", flat=True).distinct().get()
    assert "1 letter died after the fix" in why
    assert turn(redrive).state == "done"
    assert count_outcomes(redrive) == {"succeeded": 9, "skipped": 3}
    assert audit_books().differences == []


def consume_all_but_canaries_succeed(queue: SourceQueue, work: Work) -> None:
    """The canaries, which came first, succeed; the message that was published after them dies."""
    work.there = set()
    waiting = Message.objects.filter(queue=queue, letter_id=None).get()
    Message.objects.filter(pk=waiting.pk).update(available_at="2100-01-01T00:00Z")
    drain(queue)
    work.there = {"disk full"}
    Message.objects.filter(pk=waiting.pk).update(available_at="2000-01-01T00:00Z")
    drain(queue)
    work.there = set()


def test_whoever_starts_second_is_told_that_it_runs_already(dead) -> None:
    fix(*CAUSES)
    start_redrive(letters=LetterSet(dead, ""), by=None)
    with pytest.raises(NothingToRedrive, match="12 letters are being redriven"):
        start_redrive(letters=LetterSet(dead, "type:note"), by=None)


def test_the_command_previews_and_starts_a_set(dead, make_user, capsys) -> None:
    fix("tax code missing")
    make_user(name="ann")
    call_command("redrive", "--queue", "orders")
    said = capsys.readouterr().out
    assert "4 letters would be sent" in said
    assert "8 behind closed gates" in said
    assert not Redrive.objects.exists()
    call_command("redrive", "--queue", "orders", "--filter", "error:tax", "--start", "--by", "ann")
    assert Redrive.objects.get().created_name == "ann"
    for wrong in (
        ["--queue", "none"],
        [],
        ["--queue", "orders", "--filter", "agee:1"],
        ["7", "--filter", "x"],
        ["7"],
    ):
        with pytest.raises(CommandError):
            call_command("redrive", *wrong)
