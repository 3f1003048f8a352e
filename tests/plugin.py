"""Loaded before Django's settings (`-p tests.plugin`): gives the run a home and a PostgreSQL server of its own.

The first process of a run starts them; the workers of pytest-xdist inherit the environment. With DATABASE_URL set,
the tests use that server instead.
"""

import atexit
import os
import tempfile
from pathlib import Path

from dlqadmin import embedded
from tests import server

MARK = "DLQADMIN_TESTS_RUN"

if MARK not in os.environ:
    os.environ[MARK] = str(os.getpid())
    os.environ["DLQADMIN_DEMO"] = "1"
    os.environ.pop("CELERY_BROKER_URL", None)
    if os.environ.get("DATABASE_URL"):
        _folder = tempfile.TemporaryDirectory(prefix="dlqadmin-home-")
        home = Path(_folder.name)
    else:
        home = server.start_test_server()
        atexit.register(server.stop_test_server)
    # The environment is for the processes that this one starts; here the module was imported a moment too early.
    os.environ["DLQADMIN_HOME"] = str(home)
    embedded.HOME = home
    (home / "static").mkdir()
