"""Who may do what: one table of actions, one question."""

from typing import Any, Protocol

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from dlqadmin.people.models import Membership, Role


class Owned(Protocol):
    """Anything that belongs to an owner, or to nobody (`None`: then only admins may act on it)."""

    @property
    def owner_id(self) -> int | None: ...


ADMIN = "admin"
ANYBODY = "anybody"
SIGNED_IN = "signed in"

_RANK = {Role.VIEWER: 1, Role.OPERATOR: 2, Role.LEAD: 3}

# action -> the least role in the owner of the object; SIGNED_IN and ANYBODY need no object.
ACTIONS: dict[str, str] = {
    "health.view": ANYBODY,
    "session.start": ANYBODY,
    "session.end": SIGNED_IN,
    "theme.choose": SIGNED_IN,
    "overview.view": SIGNED_IN,  # lists show only the queues of one's own teams
    "letters.view": SIGNED_IN,
    "letters.export": SIGNED_IN,
    "alerts.view": SIGNED_IN,
    "redrives.view": SIGNED_IN,
    "system.view": SIGNED_IN,
    "queue.view": Role.VIEWER,
    "letter.view": Role.VIEWER,
    "cluster.view": Role.VIEWER,
    "redrive.view": Role.VIEWER,
    "alert.acknowledge": Role.OPERATOR,
    "cluster.diagnose": Role.OPERATOR,
    "cluster.regroup": Role.OPERATOR,  # merge, split, undo
    "cluster.edit": Role.OPERATOR,  # name, note, assignee, mute, close
    "redrive.start": Role.OPERATOR,  # and its preview
    "redrive.approve": Role.OPERATOR,
    "redrive.control": Role.OPERATOR,  # pause, resume, cancel
    "redrive.override": ADMIN,
    "letter.settle": Role.OPERATOR,  # discard, resolve, open again
    "letter.edit": Role.LEAD,  # another body goes to work
    "queue.pause": Role.OPERATOR,  # and resume
    "queue.configure": Role.LEAD,
    "queue.assign": ADMIN,
    "demo.mend": ADMIN,
}

User = AbstractBaseUser | AnonymousUser


def may(user: User, action: str, target: Owned | None = None) -> bool:
    """Whether `user` may do `action` to `target`.

    Site admins (`is_superuser`) may do everything; others what their role in the target's owner allows. An action
    that is not in ACTIONS is a programming error: KeyError, never a silent yes.
    """
    needed = ACTIONS[action]
    if needed == ANYBODY:
        return True
    if not user.is_authenticated or not user.is_active:
        return False
    if getattr(user, "is_superuser", False) or needed == SIGNED_IN:
        return True
    if needed == ADMIN or target is None or target.owner_id is None:
        return False
    return _RANK[Role(needed)] <= role_rank(user, target.owner_id)


def role_rank(user: User, owner_id: int) -> int:
    """The user's rank in an owner: 0 none, 1 viewer, 2 operator, 3 lead."""
    return max((_RANK[Role(role)] for owner, role in _roles(user) if owner == owner_id), default=0)


def visible_owners(user: User) -> list[int] | None:
    """The owners whose queues a user may see; None stands for all, unowned queues included."""
    if getattr(user, "is_superuser", False):
        return None
    return [owner for owner, _ in _roles(user)]


def _roles(user: Any) -> list[tuple[int, str]]:
    """The user's memberships, read once for each user object (that is: once for each request)."""
    if not hasattr(user, "_dlqadmin_roles"):
        user._dlqadmin_roles = list(
            Membership.objects.filter(user_id=user.pk).values_list("owner_id", "role")
        )
    roles: list[tuple[int, str]] = user._dlqadmin_roles
    return roles
