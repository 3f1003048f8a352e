#!/usr/bin/env python3
"""Django's command line. It starts the embedded PostgreSQL first, unless DATABASE_URL names another server."""

import os
import sys

# `run` starts the server itself, once it knows that nothing else runs here; the others read and write files only
# (makemigrations merely warns when it cannot compare them with a database).
WITHOUT_DATABASE = {
    "collectstatic",
    "compilemessages",
    "findstatic",
    "help",
    "makemessages",
    "makemigrations",
    "run",
    "version",
}
ABOUT_A_COMMAND = {"-h", "--help", "--version"}


def needs_database(arguments: list[str]) -> bool:
    """Whether the command that these arguments (without the program's name) call reads the database."""
    return bool(arguments) and arguments[0] not in WITHOUT_DATABASE and not ABOUT_A_COMMAND & set(arguments)


def main() -> int:
    """Run the command; the exit code when it did not get that far."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dlqadmin.settings")
    try:
        from django.core.management import execute_from_command_line  # noqa: PLC0415 - to say what is missing

        from dlqadmin import embedded  # noqa: PLC0415
    except ModuleNotFoundError as error:
        print(f"{error}. Run `make setup`, then .venv/bin/python manage.py …", file=sys.stderr)
        return 1
    try:
        if not os.environ.get("DATABASE_URL"):
            embedded.prepare_home()
            if needs_database(sys.argv[1:]):
                embedded.ensure_running()
        execute_from_command_line(sys.argv)
    except embedded.EmbeddedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
