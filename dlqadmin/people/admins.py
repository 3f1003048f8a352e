"""The first admin of an installation."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from django.contrib.auth import get_user_model


@dataclass(frozen=True, slots=True)
class NewAdmin:
    """The admin that was just made, and the file that keeps the password for its owner."""

    name: str
    password: str
    kept_in: Path


def ensure_admin(folder: Path, name: str = "admin", email: str = "admin@localhost") -> NewAdmin | None:
    """Create the first admin with a generated password kept in `folder` (mode 0600); None if there is an admin."""
    users = get_user_model()
    if users.objects.filter(is_superuser=True).exists():
        return None
    password = secrets.token_urlsafe(12)
    kept = folder / "admin_password"
    kept.unlink(missing_ok=True)
    kept.touch(mode=0o600)
    kept.write_text(f"{name}\n{password}\n")
    users.objects.create_superuser(username=name, email=email, password=password)
    return NewAdmin(name, password, kept)
