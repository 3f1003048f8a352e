"""The WSGI application."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dlqadmin.settings")
from dlqadmin.celery import app as celery_app

application = get_wsgi_application()
__all__ = ["application", "celery_app"]
