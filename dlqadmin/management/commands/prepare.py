"""`manage.py prepare`: bring a database to where the services can start. Safe to run again."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection, transaction

from dlqadmin.brokers import pgmq
from dlqadmin.demo import library
from dlqadmin.people.admins import ensure_admin


class Command(BaseCommand):
    """Migrate, install the broker's objects, collect static files, make the first admin, load the demo."""

    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        """Do each step that is not done yet; say what was done."""
        call_command("migrate", verbosity=0, interactive=False)
        if settings.CELERY_BROKER_URL.startswith("pgmq://"):
            with transaction.atomic():
                pgmq.install(connection)
        if folder := getattr(settings, "EMAIL_FILE_PATH", None):
            Path(folder).mkdir(mode=0o700, exist_ok=True)  # mails name people
        call_command("collectstatic", verbosity=0, interactive=False)
        if admin := ensure_admin(settings.HOME):
            self.stdout.write(f"Sign in as {admin.name} with the password {admin.password}")
            self.stdout.write(f"It is shown this once and kept in {admin.kept_in}")
        if settings.DLQADMIN_DEMO and library.load():
            self.stdout.write("The demo library is loaded.")
        self.stdout.flush()  # the services write next
