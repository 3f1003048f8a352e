"""Settings of the stand-alone console. Everything that differs between installations comes from the environment.

A project that embeds dlqadmin as an app uses its own settings; no package below `web` reads this module.
"""

import os
import secrets
from pathlib import Path

import environ
from csp.constants import NONE, SELF

from dlqadmin import embedded
from dlqadmin.brokers.choice import broker_settings

BASE_DIR = Path(__file__).resolve().parent.parent
HOME = embedded.HOME
env = environ.Env()


def _secret_key() -> str:
    """The key from the environment, else one that is generated once and kept readable by its owner only."""
    if key := env.str("SECRET_KEY", default=""):
        return key
    kept = HOME / "secret_key"
    try:
        return kept.read_text().strip()
    except FileNotFoundError:
        HOME.mkdir(parents=True, exist_ok=True)
        # Written apart and linked into place: of several first processes exactly one key wins.
        draft = HOME / f"secret_key.{os.getpid()}"
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(50))
        try:
            os.link(draft, kept)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return kept.read_text().strip()


SECRET_KEY = _secret_key()
DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "csp",
    "django_htmx",
    "template_partials",
    "dlqadmin",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "dlqadmin.urls"
WSGI_APPLICATION = "dlqadmin.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dlqadmin.web.frame.frame",
            ],
        },
    },
]

# Database: the embedded server, or the one that DATABASE_URL names.
if env.str("DATABASE_URL", default=""):
    DATABASES = {"default": env.db_url()}
else:
    _address = embedded.address(HOME)
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": _address["host"],
            "PORT": _address["port"],
            "USER": _address["user"],
            "NAME": _address["dbname"],
        }
    }
DATABASES["default"] |= {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Celery: the same database as broker (pgmq), or the broker that CELERY_BROKER_URL names.
_broker = broker_settings(
    env.str("CELERY_BROKER_URL", default=""),
    DATABASES["default"],
    env.json("CELERY_BROKER_TRANSPORT_OPTIONS", default={}),
)
vars().update({f"CELERY_{name.upper()}": value for name, value in _broker.items()})
CELERY_BROKER_URL: str = _broker["broker_url"]  # once more by its name, for type checkers
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_DEFAULT_QUEUE = "system"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULER = "dlqadmin.leases.scheduler:LeaseScheduler"

# dlqadmin itself.
DLQADMIN_CELERY = "dlqadmin.celery"
DLQADMIN_DEMO = env.bool("DLQADMIN_DEMO", default=False)
DLQADMIN_HANDLERS = env.list("DLQADMIN_HANDLERS", default=[])
DLQADMIN_ENVIRONMENT = env.str("DLQADMIN_ENVIRONMENT", default="demo" if DLQADMIN_DEMO else "")
if DLQADMIN_DEMO:
    DLQADMIN_HANDLERS += ["dlqadmin.demo.handlers"]
DLQADMIN_DEMO_EVERY = env.float(
    "DLQADMIN_DEMO_EVERY", default=6.0
)  # seconds between new messages of the demo
DLQADMIN_URL = env.str("DLQADMIN_URL", default=f"http://127.0.0.1:{env.str('PORT', default='8000')}")

# Mail: EMAIL_URL (smtp://user:password@host:587), else files in .dlqadmin/mail that can be read.
EMAIL_TIMEOUT = 10  # seconds
DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", default="dlqadmin@localhost")
if env.str("EMAIL_URL", default=""):
    vars().update(env.email_url())
else:
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    EMAIL_FILE_PATH = HOME / "mail"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English")]  # a language joins with its complete catalogue in locale/
LOCALE_PATHS = [BASE_DIR / "locale"]
TIME_ZONE = "UTC"
USE_TZ = True
USE_THOUSAND_SEPARATOR = True

STATIC_URL = "static/"
STATIC_ROOT = HOME / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "sign-in"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.bool("HTTPS_ONLY", default=False)
SECURE_SSL_REDIRECT = env.bool("HTTPS_ONLY", default=False)
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.str("LOG_LEVEL", default="INFO")},
    "loggers": {
        "celery.worker.strategy": {"level": "WARNING"},  # a line for each wake-up would drown the rest
        "celery.app.trace": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
    },
}
