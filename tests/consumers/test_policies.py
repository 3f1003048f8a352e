"""Which errors are worth another attempt: by the queue, by name; by the handler, by class; by type."""

import json

import pytest

from dlqadmin.consumers.consume import consume_batch
from dlqadmin.consumers.decide import is_permanent
from dlqadmin.consumers.settle import Outcome, policy_of
from dlqadmin.deadletters.models import DeadLetter
from dlqadmin.messages.models import Message
from tests.consumers.work import LONG, publish_notes

Reason = DeadLetter.Reason


class Refused(Exception):
    """What a remote service says."""


class Overloaded(Refused):
    """Worth another attempt, although it is a refusal."""


HERE = __name__


def raising(error):
    def handler(message) -> None:
        raise error

    return handler


def outcome_of(queue, handle, error, **options) -> Outcome:
    handle(queue, raising(error), **options)
    publish_notes(queue, [1])
    outcomes = +consume_batch(queue)
    assert outcomes.total() == 1
    return next(iter(outcomes))


@pytest.mark.parametrize(
    ("permanent", "transient", "error", "outcome"),
    [
        ([], [], Refused(), Outcome.RETRY),
        (["Refused"], [], Refused(), Outcome.DEAD),
        ([f"{HERE}.Refused"], [], Refused(), Outcome.DEAD),
        (["elsewhere.Refused"], [], Refused(), Outcome.RETRY),
        (["Refused"], [], Overloaded(), Outcome.DEAD),
        (["Refused"], ["Overloaded"], Overloaded(), Outcome.RETRY),
        (["Refused"], ["Overloaded"], Refused(), Outcome.DEAD),
        (["Overloaded"], ["Refused"], Overloaded(), Outcome.DEAD),
        (["Refused"], ["Refused"], Refused(), Outcome.RETRY),
        (["Exception"], [], ValueError(), Outcome.DEAD),
        (["LookupError"], [], KeyError("k"), Outcome.DEAD),
        (["builtins.LookupError"], ["IndexError"], IndexError(), Outcome.RETRY),
    ],
)
def test_a_queue_names_errors_and_the_nearest_named_class_decides(
    make_queue, handle, permanent, transient, error, outcome
) -> None:
    queue = make_queue(permanent_errors=permanent, transient_errors=transient, backoff_base=LONG)
    assert outcome_of(queue, handle, error) is outcome
    if outcome is Outcome.DEAD:
        letter = DeadLetter.objects.get()
        assert (letter.reason, letter.attempts) == (Reason.PERMANENT, 1)


@pytest.mark.parametrize(
    ("permanent", "transient", "error", "outcome"),
    [
        ((Refused,), (), Refused(), Outcome.DEAD),
        ((Refused,), (), Overloaded(), Outcome.DEAD),
        ((Refused,), (Overloaded,), Overloaded(), Outcome.RETRY),
        ((Overloaded,), (Refused,), Overloaded(), Outcome.DEAD),
        ((Exception,), (Refused,), Overloaded(), Outcome.RETRY),
        ((json.JSONDecodeError,), (), ValueError(), Outcome.RETRY),
        ((ValueError,), (), json.JSONDecodeError("no", "", 0), Outcome.DEAD),
    ],
)
@pytest.mark.parametrize("atomic", [True, False])
def test_a_handler_declares_classes_and_the_nearest_one_decides(
    make_queue, handle, permanent, transient, error, outcome, atomic
) -> None:
    queue = make_queue(backoff_base=LONG)
    assert (
        outcome_of(queue, handle, error, permanent=permanent, transient=transient, atomic=atomic) is outcome
    )


def test_a_transient_error_is_retried_no_longer_than_the_threshold_allows(make_queue, handle) -> None:
    queue = make_queue(max_attempts=2, transient_errors=["Refused"])
    handle(queue, raising(Refused()))
    publish_notes(queue, [1])
    assert [consume_batch(queue)[Outcome.DEAD] for _ in range(2)] == [0, 1]
    assert DeadLetter.objects.get().reason == Reason.THRESHOLD


def test_named_in_no_list_an_error_is_not_permanent() -> None:
    assert is_permanent(("a.B", "builtins.Exception"), permanent=["a.C", "B.a"], transient=[]) is False


def test_a_type_may_have_its_own_policy_and_the_others_keep_the_queues(make_queue, handle) -> None:
    overrides = {
        "stubborn": {"max_attempts": 5},
        "hasty": {"max_attempts": 2, "permanent_errors": ["Refused"]},
        "slow": {"backoff_base": LONG},
    }
    queue = make_queue(max_attempts=3, retry_overrides=overrides)
    for type in ("note", *overrides):
        handle(queue, raising(ValueError()), type=type)
        publish_notes(queue, [1], type=type)
    for _ in range(6):
        consume_batch(queue)
    letters = dict(DeadLetter.objects.values_list("type", "attempts"))
    assert letters == {"note": 3, "stubborn": 5, "hasty": 2}
    assert Message.objects.get().attempts == 1


def test_every_field_of_a_policy_can_be_overridden_for_a_type(make_queue) -> None:
    own = {
        "max_attempts": 9,
        "backoff_base": 1.5,
        "backoff_factor": 3.0,
        "backoff_cap": 7.0,
        "backoff_jitter": True,
        "permanent_errors": ["A"],
        "transient_errors": ["B"],
    }
    queue = make_queue(retry_overrides={"note": own})
    policy = policy_of(queue, "note")
    assert (policy.max_attempts, policy.base, policy.factor, policy.cap, policy.jitter) == (
        9,
        1.5,
        3.0,
        7.0,
        True,
    )
    assert (policy.permanent, policy.transient) == (["A"], ["B"])
    assert policy_of(queue, "other").max_attempts == 3
