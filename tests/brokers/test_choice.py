"""What Celery is told about each broker."""

import pytest
from celery import Celery
from celery.worker.consumer import Consumer as CelerysConsumer

from dlqadmin.brokers.choice import broker_settings
from dlqadmin.brokers.rabbitmq import Consumer

DATABASE = {"NAME": "d", "USER": "u", "HOST": "/a folder"}


@pytest.mark.parametrize("url", ["amqp://mq//", "amqps://mq/production", "pyamqp://mq//"])
def test_every_queue_of_rabbitmq_is_a_quorum_queue_whoever_declares_it(url: str) -> None:
    app = Celery(set_as_current=False, task_default_queue="system", **broker_settings(url, DATABASE))
    queues = [app.amqp.queues[name] for name in ("system", "consumers", "slow-ones")]
    assert [queue.queue_arguments for queue in queues] == [{"x-queue-type": "quorum"}] * 3


@pytest.mark.parametrize("url", ["", "pgmq://u:p@h/d", "redis://h/0"])
def test_other_brokers_hear_nothing_of_queue_types(url: str) -> None:
    assert broker_settings(url, DATABASE).keys() == {"broker_url", "broker_transport_options"}


def test_a_worker_of_rabbitmq_leaves_out_the_queues_for_countdowns_and_nothing_else() -> None:
    left_out = set(CelerysConsumer.Blueprint.default_steps) - set(Consumer.Blueprint.default_steps)
    assert left_out == {"celery.worker.consumer.delayed_delivery:DelayedDelivery"}


def test_redis_keeps_what_is_being_worked_on_for_longer_than_any_turn() -> None:
    assert broker_settings("rediss://h/0", DATABASE)["broker_transport_options"]["visibility_timeout"] >= 3600


def test_options_of_the_installation_win() -> None:
    settings = broker_settings("", DATABASE, {"polling_interval": 1})
    assert settings["broker_transport_options"]["polling_interval"] == 1
    assert settings["broker_transport_options"]["init_extension"] is False
