"""Django's settings of the peer, a project that has nothing but a database: Celery's task inserts through it."""

import environ

SECRET_KEY = "the peer signs nothing"  # noqa: S105
DATABASES = {"default": environ.Env().db_url()}
INSTALLED_APPS: list[str] = []
USE_TZ = True
