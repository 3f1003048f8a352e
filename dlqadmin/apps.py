"""The Django app."""

from importlib import import_module

from django.apps import AppConfig
from django.conf import settings


class DlqadminConfig(AppConfig):
    name = "dlqadmin"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Load the modules that declare handlers, so that every process knows the same ones."""
        for module in settings.DLQADMIN_HANDLERS:
            import_module(module)
