"""What all tests share: a test database that can also be the broker, and small makers of things."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from celery import current_app
from django.contrib.auth import get_user_model
from django.db import connection, connections, transaction

from dlqadmin.brokers import pgmq
from dlqadmin.consumers.registry import declared
from dlqadmin.people.models import Membership, Owner
from dlqadmin.queues.models import SourceQueue


@pytest.fixture(autouse=True)
def quick_settings(settings: Any) -> None:
    """Pages are rendered without collectstatic, and passwords are hashed quickly."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The test database gets the broker's objects, and Celery in this process uses it as broker."""
    # A live server's threads must not keep connections: they would keep the test database from being dropped.
    connections.settings["default"]["CONN_MAX_AGE"] = 0
    with django_db_blocker.unblock(), transaction.atomic():
        pgmq.install(connection)
    _, options = pgmq.celery_settings("", connection.settings_dict)
    current_app.conf.broker_transport_options = options
    yield
    # Nor may the broker's connections.
    current_app.pool.force_close_all()  # type: ignore[attr-defined]


@pytest.fixture
def owner(db: None) -> Owner:
    """A team."""
    return Owner.objects.create(name="Members", slug="members", email="members@library.example")


@pytest.fixture
def make_queue(db: None, owner: Owner) -> Callable[..., SourceQueue]:
    """Make a queue of that team whose messages are due again at once."""

    def make(name: str = "late-notices", **policy: Any) -> SourceQueue:
        values = {"owner": owner, "max_attempts": 3, "backoff_base": 0.0, "backoff_jitter": False} | policy
        return SourceQueue.objects.create(name=name, **values)

    return make


@pytest.fixture
def queue(make_queue: Callable[..., SourceQueue]) -> SourceQueue:
    """The queue `late-notices` with threshold 3."""
    return make_queue()


@pytest.fixture
def handle() -> Iterator[Callable[..., None]]:
    """Declare handlers that are gone after the test: `handle(queue, function, type=…)`."""
    with ExitStack() as stack:

        def declare(
            queue: SourceQueue, function: Callable[[Any], Any], type: str = "note", **options: Any
        ) -> None:
            stack.enter_context(declared(queue.name, type=type, function=function, **options))

        yield declare


@pytest.fixture
def make_user(db: None, owner: Owner) -> Callable[..., Any]:
    """Make a person with a role in the team; `admin` is a site admin, None a stranger."""

    def make(role: str | None = "operator", name: str = "") -> Any:
        name = name or (role or "stranger")
        users = get_user_model().objects
        if role == "admin":
            return users.create_superuser(
                username=name, email=f"{name}@library.example", password="correct horse"
            )
        user = users.create_user(username=name, email=f"{name}@library.example", password="correct horse")
        if role:
            Membership.objects.create(user=user, owner=owner, role=role)
        return user

    return make
