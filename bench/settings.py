"""Django's settings of the measured dlqadmin workers: dlqadmin's own, with Celery queues that nobody else reads."""

import os

from bench.names import PREFIX_VARIABLE, queue_settings
from dlqadmin.settings import *  # noqa: F403 - all of them

vars().update(
    {f"CELERY_{name.upper()}": value for name, value in queue_settings(os.environ[PREFIX_VARIABLE]).items()}
)
