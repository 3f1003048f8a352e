"""The Celery app of the stand-alone console (`celery -A dlqadmin …`)."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dlqadmin.settings")

app = Celery("dlqadmin")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["dlqadmin"])
