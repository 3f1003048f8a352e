"""The Django app."""

from importlib import import_module

from django.apps import AppConfig
from django.conf import settings


class DlqadminConfig(AppConfig):
    name = "dlqadmin"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Load the Celery app, the jobs and the modules that declare handlers: every process knows the same ones.

        Without its app, a process (a command, a web server, a test) would send wake-ups to Celery's default broker. A
        project that embeds dlqadmin loads an app of its own and leaves DLQADMIN_CELERY out.
        """
        celery = getattr(settings, "DLQADMIN_CELERY", None)
        for module in [*([celery] if celery else []), "dlqadmin.tasks", *settings.DLQADMIN_HANDLERS]:
            import_module(module)
