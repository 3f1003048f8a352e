"""What the tests of the pages share. Letters come about on the real way: published, tried, dead."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dlqadmin.alerts.evaluate import evaluate
from dlqadmin.alerts.models import Alert
from dlqadmin.consumers.consume import consume_once
from dlqadmin.consumers.registry import declared
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.deadletters.search import index_new_letters
from dlqadmin.messages.publish import publish
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.models import Redrive
from dlqadmin.redrive.run import collect_outcomes
from tests.web.making import begin_redrive

Die = Callable[..., DeadLetter]


@pytest.fixture
def signed_in(make_user: Callable[..., Any]) -> Callable[..., Client]:
    """A browser in which somebody with this role is signed in; `.user` is who."""

    def sign_in(role: str | None = "operator") -> Client:
        client = Client()
        client.user = make_user(role)  # type: ignore[attr-defined]
        client.force_login(client.user)  # type: ignore[attr-defined]
        return client

    return sign_in


@pytest.fixture
def die(queue: SourceQueue) -> Die:
    """Let one message die of `error`: published, tried as often as its queue says, dead."""

    def die(
        error: str = "member not found (loan 7)",
        *,
        into: SourceQueue = queue,
        type: str = "note",
        **message: Any,
    ) -> DeadLetter:
        def fail(message: Any) -> None:
            raise LookupError(error)

        publish(into, type=type, **({"body": {"loanId": 7}} | message))
        with declared(into.name, type=type, function=fail, body="bytes"):
            for _ in range(into.max_attempts):
                consume_once(into)
        index_new_letters()
        return DeadLetter.objects.filter(queue=into).latest("pk")

    return die


@pytest.fixture
def redrive(die: Die, make_user: Callable[..., Any]) -> Redrive:
    """A redrive of one letter that has ended well."""
    letter = die()
    begun = begin_redrive(letter, make_user("operator", name="redriver"))
    with declared(letter.queue.name, type="note", function=lambda message: None):
        consume_once(letter.queue)
    collect_outcomes(begun)
    begun.refresh_from_db()
    return begun


@pytest.fixture
def alert(die: Die) -> Alert:
    """The alert that one dead letter has raised."""
    die()
    evaluate()
    return Alert.objects.get()
