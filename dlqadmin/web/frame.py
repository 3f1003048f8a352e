"""What the frame around every page shows: counts, the queues by urgency, who is signed in."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject, cached_property
from django.utils.translation import gettext as _

from dlqadmin.alerts.urgency import QueueUrgency, urgencies
from dlqadmin.people.permissions import User, role_rank, visible_owners
from dlqadmin.queues.models import SourceQueue

MOST_QUEUES = 12
THEMES = ("system", "light", "dark")
THEME_COOKIE = "theme"


@dataclass
class Sidebar:
    """The queues that the signed-in person may see, the most urgent first; read once, and only if it is shown."""

    user: User

    @cached_property
    def all_queues(self) -> list[QueueUrgency]:
        """Every queue."""
        return urgencies(visible_owners(self.user)) if self.user.is_authenticated else []

    @property
    def queues(self) -> list[QueueUrgency]:
        """As many as the sidebar holds."""
        return self.all_queues[:MOST_QUEUES]

    @cached_property
    def paused(self) -> set[int]:
        """The ids of paused queues, also of those that the person may not see."""
        return set(SourceQueue.objects.filter(paused=True, archived_at=None).values_list("pk", flat=True))

    @property
    def letters(self) -> int:
        """Open dead letters."""
        return sum(queue.letters for queue in self.all_queues)

    @property
    def redrives(self) -> int:
        """Redrives under way."""
        return sum(queue.redrives for queue in self.all_queues)

    @property
    def firing(self) -> int:
        """Queues with an alert that nobody has acknowledged."""
        return sum(queue.alert_state == "firing" for queue in self.all_queues)

    @property
    def firing_critical(self) -> bool:
        """Whether one of them is critical."""
        return any(q.alert_state == "firing" and q.alert_severity == "critical" for q in self.all_queues)

    @property
    def role(self) -> str:
        """The person's highest role, in words."""
        owners = visible_owners(self.user)
        if owners is None:
            return _("site admin")
        names = [_("no role yet"), _("viewer"), _("operator"), _("lead")]
        return names[max((role_rank(self.user, owner) for owner in owners), default=0)]


def frame(request: HttpRequest) -> dict[str, Any]:
    """Context processor. No query runs unless a template shows the sidebar, and none at all for anonymous users."""
    return {
        "sidebar": SimpleLazyObject(lambda: Sidebar(request.user)),
        "theme": chosen_theme(request),
        "environment": settings.DLQADMIN_ENVIRONMENT,
        "demo": settings.DLQADMIN_DEMO,
    }


def chosen_theme(request: HttpRequest) -> str:
    """`light`, `dark` or `system`, as the cookie says."""
    theme = request.COOKIES.get(THEME_COOKIE, "system")
    return theme if theme in THEMES else "system"
