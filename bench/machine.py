"""What a measurement ran on."""

import os
import platform
import time
from statistics import median
from typing import Any

import celery
import django
import psutil
import psycopg
from django.db import connection

COMMITS = 50


def describe(rabbitmq: str) -> dict[str, Any]:
    """Hardware, load at this moment, versions, and the durability of the database that Django is connected to."""
    return {
        "cpu": f"{os.cpu_count()} x {_cpu()}",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "django": django.get_version(),
        "celery": celery.__version__,
        "psycopg": psycopg.__version__,
        "postgresql": setting("server_version"),
        "fsync": setting("fsync"),
        "synchronous_commit": setting("synchronous_commit"),
        "commit": f"{_commit_seconds() * 1000:.1f} ms",
        "rabbitmq": rabbitmq,
    }


def setting(name: str) -> str:
    """A setting of the database's server, as our sessions have it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        value: str = cursor.fetchone()[0]
    return value


def _commit_seconds() -> float:
    """The median time of a small transaction that waits for the disk: what settling singly costs at least."""
    times = []
    with connection.cursor() as cursor:
        for _ in range(COMMITS):
            begin = time.monotonic()
            cursor.execute("SELECT pg_logical_emit_message(true, 'bench', 'commit')")
            times.append(time.monotonic() - begin)
    return median(times)


def _cpu() -> str:
    """The processor's model, as far as the system tells."""
    try:
        with open("/proc/cpuinfo") as lines:
            models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        models = []
    return models[0] if models else platform.processor() or platform.machine()
