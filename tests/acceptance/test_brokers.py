"""The same promises with every broker: it carries hints, the rows are the truth."""

from collections.abc import Iterator

import pytest

from dlqadmin.messages.models import Claim, Message
from dlqadmin.messages.publish import Outgoing, publish, publish_many
from dlqadmin.people.models import Owner
from dlqadmin.queues.models import SourceQueue
from dlqadmin.redrive.ledger import read_ledger
from tests.acceptance import brokers
from tests.acceptance.processes import kill_all, wait_for
from tests.acceptance.workers import HANDLERS, state, worker

pytestmark = [pytest.mark.acceptance, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[brokers.RabbitMQ]:
    """RabbitMQ for the tests of this module: a virtual host takes seconds to make."""
    with brokers.rabbitmq() as broker:
        yield broker


@pytest.fixture
def empty_rabbitmq(rabbitmq) -> Iterator[brokers.RabbitMQ]:
    """RabbitMQ without queues; this process sends its wake-ups there."""
    rabbitmq.lose_everything()
    with rabbitmq.used_here():
        yield rabbitmq


@pytest.fixture
def redis() -> Iterator[brokers.Broker]:
    """Redis; this process sends its wake-ups there."""
    with brokers.redis() as broker, broker.used_here():
        yield broker


@pytest.fixture
def pgmq() -> Iterator[brokers.Broker]:
    """The test database as broker."""
    broker = brokers.Broker()
    with broker.used_here():
        yield broker


@pytest.fixture(params=["pgmq", "empty_rabbitmq", "redis"])
def broker(request) -> brokers.Broker:
    """Each broker in turn."""
    return request.getfixturevalue(request.param)


def publish_steps(queue: SourceQueue, numbers: range, failing: int = 0) -> None:
    """Publish messages with these numbers, and some that never succeed."""
    messages = [Outgoing(type="step", body={"n": n}) for n in numbers]
    publish_many(queue, [*messages, *(Outgoing(type="fail", body={}) for _ in range(failing))])


def test_nothing_is_lost_or_doubled_by_a_killed_worker_and_a_broker_that_loses_everything(
    broker, tmp_path
) -> None:
    queue = SourceQueue.objects.create(name="steady", max_attempts=2, backoff_base=0.1)
    with worker(tmp_path, HANDLERS, environment=broker.environment) as first:
        publish_steps(queue, range(60), failing=5)
        wait_for(lambda: state(queue) == (60, 0, 5), "60 processed and 5 dead")
        publish_steps(queue, range(60, 280), failing=5)
        wait_for(lambda: Owner.objects.count() > 80, "some of the others")
        kill_all(first)
    assert Message.objects.filter(queue=queue).count() > 50
    publish_steps(queue, range(280, 300))
    broker.lose_everything()
    with worker(tmp_path, HANDLERS, environment=broker.environment):
        wait_for(lambda: state(queue) == (300, 0, 10), "300 processed and 10 dead", seconds=90)
    assert Owner.objects.count() == 300
    assert not Claim.objects.exists()
    accounts = read_ledger(queue.pk)
    assert (accounts.received, accounts.difference) == (310, 0)


def test_in_rabbitmq_every_queue_is_a_quorum_queue_and_a_worker_fetches_no_more_than_it_can_run(
    empty_rabbitmq, tmp_path
) -> None:
    with worker(tmp_path, HANDLERS, environment=empty_rabbitmq.environment):
        wait_for(lambda: empty_rabbitmq.has("consumers"), "the worker's queues")
        for n in range(6):
            publish(SourceQueue.objects.create(name=f"held-{n}"), type="hold", body={})
        wait_for(lambda: Message.objects.exclude(claim=None).count() == 2, "two handlers to run")
        wait_for(
            lambda: empty_rabbitmq.waiting("consumers") == 4, "the other wake-ups to stay in their queue"
        )
        publish(SourceQueue.objects.create(name="late", celery_queue="slow-ones"), type="step", body={"n": 1})
        Owner.objects.create(name="Go", slug="go")
        wait_for(lambda: Message.objects.count() == 1, "the held messages to be processed")
    types = {name: empty_rabbitmq.type_of(name) for name in ("consumers", "system", "slow-ones")}
    assert set(types.values()) == {"quorum"}, types
    assert not empty_rabbitmq.has("celery_delayed_0"), "queues for countdowns, which we never use"


def test_a_classic_queue_of_the_same_name_ends_the_worker_with_advice(empty_rabbitmq, tmp_path) -> None:
    with empty_rabbitmq.connect() as connected:
        connected.default_channel.queue_declare("system", durable=True, auto_delete=False)
    with worker(tmp_path, environment=empty_rabbitmq.environment, beat=False) as refused:
        assert refused.wait(timeout=60) == 1
    log = (tmp_path / "log").read_text()
    assert "rabbitmqctl delete_queue" in log
    assert "for queue 'system'" in log
    assert "Traceback" not in log
