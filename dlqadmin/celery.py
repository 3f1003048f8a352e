"""The Celery app of the stand-alone console (`celery -A dlqadmin …`)."""

import os

from celery import Celery

from dlqadmin.brokers import transports

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dlqadmin.settings")

transports.install()
app = Celery("dlqadmin")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["dlqadmin"])
