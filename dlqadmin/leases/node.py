"""What this process is called."""

import os
import socket


def node_name(role: str = "") -> str:
    """Host and process id, with the role before them: `beat@host:123`."""
    place = f"{socket.gethostname()}:{os.getpid()}"
    return f"{role}@{place}" if role else place
