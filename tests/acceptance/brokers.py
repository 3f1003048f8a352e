"""Brokers for the tests: what each is called, how it is reached without disturbing anybody, how it loses everything."""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from celery import Celery, current_app
from django.db import connection
from kombu import Connection
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError

from dlqadmin.brokers.choice import broker_settings

CELERY_QUEUES = ("consumers", "system", "slow-ones")


@dataclass(frozen=True)
class Broker:
    """A broker that is this test's alone. `url`: empty for pgmq in the test database."""

    url: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """For the processes that use it."""
        return {"CELERY_BROKER_URL": self.url, "CELERY_BROKER_TRANSPORT_OPTIONS": json.dumps(self.options)}

    @property
    def settings(self) -> dict[str, Any]:
        """Celery's settings, as those processes have them."""
        return broker_settings(self.url, connection.settings_dict, self.options)

    @contextmanager
    def used_here(self) -> Iterator[Celery]:
        """This process sends its wake-ups there, too."""
        proxy: Any = current_app
        before = proxy._get_current_object()
        app = Celery("tests", set_as_current=False)
        app.conf.update(self.settings)
        app.set_current()
        try:
            yield app
        finally:
            before.set_current()
            app.close()

    def lose_everything(self) -> None:
        """Whatever it holds is gone: wake-ups, and the triggers of jobs that wait for a worker."""
        with self.connect() as connected:
            for name in CELERY_QUEUES[:2]:
                connected.default_channel.queue_purge(name)

    def connect(self) -> Any:
        """A connection of kombu's."""
        settings = self.settings
        return Connection(settings["broker_url"], transport_options=settings["broker_transport_options"])


@dataclass(frozen=True)
class RabbitMQ(Broker):
    """RabbitMQ, in a virtual host of the test's own."""

    def lose_everything(self) -> None:
        """The queues themselves."""
        with self.connect() as connected:
            for name in CELERY_QUEUES:
                connected.default_channel.queue_delete(name)

    def type_of(self, queue: str) -> str:
        """The type of a queue, which RabbitMQ names when one of another type is asked for."""
        with self.connect() as connected:
            declare = connected.default_channel.queue_declare
            with pytest.raises(connected.channel_errors) as refused:
                declare(queue, durable=True, auto_delete=False, arguments={"x-queue-type": "stream"})
        return str(refused.value).rpartition("current is ")[2].split("'")[1]

    def has(self, queue: str) -> bool:
        """Whether there is such a queue."""
        with self.connect() as connected, suppress(connected.channel_errors):
            connected.default_channel.queue_declare(queue, passive=True)
            return True
        return False

    def waiting(self, queue: str) -> int:
        """How many messages of a queue no worker has fetched."""
        with self.connect() as connected:
            return connected.default_channel.queue_declare(queue, passive=True).message_count


@dataclass(frozen=True)
class RedisServer(Broker):
    """Redis, with a prefix of the test's own for every key."""

    def lose_everything(self) -> None:
        """Every key, also those that say which queues there are."""
        with Redis.from_url(self.url) as client:
            for key in client.scan_iter(f"{self.options['global_keyprefix']}*"):
                client.delete(key)


@contextmanager
def rabbitmq() -> Iterator[RabbitMQ]:
    """The virtual host of DLQADMIN_TEST_AMQP_URL, which is then for tests only; else a new one on this machine."""
    if given := os.environ.get("DLQADMIN_TEST_AMQP_URL"):
        with _own_queues(_reached(RabbitMQ(given))) as broker:
            yield broker
        return
    _reached(RabbitMQ("amqp://guest:guest@127.0.0.1:5672//"))
    name = f"dlqadmin-tests-{uuid.uuid4().hex[:12]}"
    _rabbitmqctl("add_vhost", name)
    try:
        _rabbitmqctl("set_permissions", "-p", name, "guest", ".*", ".*", ".*")
        yield RabbitMQ(f"amqp://guest:guest@127.0.0.1:5672/{name}")
    finally:
        _rabbitmqctl("delete_vhost", name)


@contextmanager
def redis() -> Iterator[Broker]:
    """The database that DLQADMIN_TEST_REDIS_URL names."""
    url = os.environ.get("DLQADMIN_TEST_REDIS_URL", "redis://127.0.0.1:6379/15")
    try:
        Redis.from_url(url, socket_connect_timeout=2).ping()
    except RedisError as error:
        pytest.skip(f"no Redis at {url} (DLQADMIN_TEST_REDIS_URL names another): {error}")
    broker = RedisServer(url, {"global_keyprefix": f"dlqadmin-tests-{uuid.uuid4().hex[:12]}:"})
    try:
        yield broker
    finally:
        broker.lose_everything()


def _reached(broker: RabbitMQ) -> RabbitMQ:
    with broker.connect() as connected:
        try:
            connected.ensure_connection(max_retries=1, interval_start=0, timeout=4)
        except OperationalError as error:
            address = connected.as_uri()
            pytest.skip(f"no RabbitMQ at {address} (DLQADMIN_TEST_AMQP_URL names another): {error}")
    return broker


@contextmanager
def _own_queues(broker: RabbitMQ) -> Iterator[RabbitMQ]:
    broker.lose_everything()
    try:
        yield broker
    finally:
        broker.lose_everything()


def _rabbitmqctl(*arguments: str) -> None:
    """Skips the test where it cannot be used."""
    program = shutil.which("rabbitmqctl") or shutil.which("rabbitmqctl", path="/usr/sbin")
    with suppress(OSError, subprocess.SubprocessError):
        if program:
            subprocess.run([program, "-q", *arguments], check=True, timeout=60, capture_output=True)
            return
    pytest.skip("rabbitmqctl cannot be used: let DLQADMIN_TEST_AMQP_URL name a virtual host for tests only")
