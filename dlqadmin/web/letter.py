"""One dead letter: its body, headers, error, attempts, and the lives of its message."""

from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dlqadmin.deadletters.edit import edit_of
from dlqadmin.deadletters.models import DeadLetter, LetterEdit
from dlqadmin.people.permissions import may
from dlqadmin.redrive.facts import gate_facts
from dlqadmin.redrive.gate import Condition, judge, unmet_of
from dlqadmin.redrive.models import RedriveItem
from dlqadmin.web.body import HEAD_BYTES, view_body
from dlqadmin.web.diff import diff_bodies
from dlqadmin.web.headers import header_rows
from dlqadmin.web.load import load_letter
from dlqadmin.web.routes import route

MOST_ATTEMPTS = 100


@route("letter.view", load_letter)
def letter(request: HttpRequest, letter: DeadLetter) -> HttpResponse:
    """The page of one letter."""
    edit = edit_of(letter)
    head = letter.body_head  # type: ignore[attr-defined]
    context = {
        "letter": letter,
        "queue": letter.queue,
        "body": view_body(None if head is None else bytes(head), letter.body_size, request.GET.get("as", "")),
        "head_bytes": HEAD_BYTES,
        "headers": header_rows(letter.headers),
        "attempts": letter.attempt_rows()[:MOST_ATTEMPTS],
        "lives": lives_of(letter),
        "unmet": unmet_conditions(letter),
        "may_settle": can_be_settled(letter) and may(request.user, "letter.settle", letter),
        "may_redrive": may(request.user, "redrive.start", letter),
        "may_edit": letter.state == DeadLetter.State.OPEN and may(request.user, "letter.edit", letter),
        "edit": edit,
        "edit_lines": diff_bodies(bytes(letter.body or b""), bytes(edit.body)) if edit else [],
    }
    return render(request, "letter/page.html", context)


@route("letter.view", load_letter)
def letter_body(request: HttpRequest, letter: DeadLetter) -> HttpResponse:
    """The whole body as a download, as it was sent. It is never given a type that a browser would run."""
    return HttpResponse(
        bytes(letter.body or b""),
        content_type="application/octet-stream",
        headers={
            "Content-Disposition": f'attachment; filename="letter-{letter.pk}.bin"',
            "X-Content-Type-Options": "nosniff",
        },
    )


def can_be_settled(letter: DeadLetter) -> bool:
    """Whether a person may settle it, or take that back: not while its message works, nor once that had an outcome."""
    return letter.state != DeadLetter.State.REDRIVING and letter.outcome_at is None


def lives_of(letter: DeadLetter) -> list[DeadLetter]:
    """The letters of every death of this message in order, each with the item of its last redrive as `sent_with`."""
    lives = list(
        DeadLetter.objects.filter(lineage=letter.lineage, queue=letter.queue)
        .listed()
        .prefetch_related(Prefetch("edit", LetterEdit.objects.defer("body", "patch")))
        .order_by("generation")
    )
    items = RedriveItem.objects.filter(letter__in=lives).select_related("redrive").order_by("pk")
    last = {item.letter_id: item for item in items}
    for life in lives:
        life.sent_with = last.get(life.pk)  # type: ignore[attr-defined]
    return lives


def unmet_conditions(letter: DeadLetter) -> list[Condition]:
    """What the gate of an open letter's cluster still asks for."""
    if letter.state != DeadLetter.State.OPEN or letter.cluster is None:
        return []
    return unmet_of(judge(gate_facts(letter.cluster)))
