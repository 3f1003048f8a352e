"""The stand-alone console leans on nothing that happens to run on the machine."""

from celery import current_app
from django.conf import settings

from dlqadmin.brokers.pgmq import celery_settings


def test_every_process_sends_its_wakeups_to_the_configured_broker() -> None:
    """Celery's own default would be a RabbitMQ on this machine."""
    assert current_app.main == "dlqadmin"
    assert current_app.conf.broker_url == settings.CELERY_BROKER_URL


def test_without_a_broker_url_the_database_is_the_broker() -> None:
    database = {"NAME": "d", "USER": "u", "PASSWORD": "", "HOST": "/a folder", "PORT": "5432", "OPTIONS": {}}
    url, options = celery_settings("", database)
    assert url.startswith("pgmq://")
    assert options["conn_string"] == "dbname=d user=u host='/a folder' port=5432"


def test_another_broker_gets_no_options_of_pgmq() -> None:
    assert celery_settings("amqp://user:secret@mq//", {}) == ("amqp://user:secret@mq//", {})


def test_another_pgmq_database_is_named_by_its_url_alone() -> None:
    url, options = celery_settings("pgmq://u:p@h/d", {"NAME": "elsewhere"})
    assert url == "pgmq://u:p@h/d"
    assert "conn_string" not in options
