"""Every route has a rule: who may use it is asked in one place, before the view runs."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, cast

from django.contrib.auth.models import AbstractBaseUser
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRefresh

from dlqadmin.people.models import Role
from dlqadmin.people.permissions import ACTIONS, ADMIN, Owned, may

View = Callable[..., HttpResponseBase]


class Route(Protocol):
    """A guarded view. `actions`: HTTP method -> the action that `may()` is asked about."""

    actions: dict[str, str]

    def __call__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase: ...


def route(
    action: str | None = None, load: Callable[..., Owned] | None = None, *, post: str | None = None
) -> Callable[[View], Route]:
    """Guard a view: `action` for GET, `post` for POST; a method without an action is not allowed.

    `load` turns the URL's values into the object that the question is about (or raises Http404); the view is then
    called with that object instead. Actions that are not in ACTIONS are a KeyError when the module is imported.
    """
    actions = {method: name for method, name in (("GET", action), ("POST", post)) if name}
    for name in actions.values():
        ACTIONS[name]

    def guard(view: View) -> Route:
        @never_cache
        @require_http_methods([*actions, *(["HEAD"] if action else [])])
        @wraps(view)
        def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
            asked = actions["POST" if request.method == "POST" else "GET"]
            # Before anything is loaded: a stranger learns nothing from the difference between 404 and 403.
            if not request.user.is_authenticated and not may(request.user, asked):
                return _sign_in_first(request)
            target = load(**kwargs) if load else None
            if not may(request.user, asked, target):
                return refuse(request, asked)
            return view(request, target) if load else view(request, **kwargs)

        found = cast(Route, guarded)
        found.actions = actions
        return found

    return guard


def refuse(request: HttpRequest, action: str) -> HttpResponseBase:
    """The page that says who could do it, and nothing about the object."""
    return render(request, "403.html", {"who": _who_may(ACTIONS[action])}, status=403)


def signed_in_user(request: HttpRequest) -> AbstractBaseUser:
    """Who is signed in: for views whose rule lets in nobody else."""
    user = request.user
    if not isinstance(user, AbstractBaseUser):
        raise TypeError("the rule of this route lets in people who are not signed in")
    return user


def _who_may(needed: str) -> str:
    if needed == ADMIN:
        return _("Only a site admin may do that.")
    role = {Role.VIEWER: _("viewer"), Role.OPERATOR: _("operator"), Role.LEAD: _("lead")}[Role(needed)]
    return _("It takes the role “%(role)s” or more in the team that owns it, or a site admin.") % {
        "role": role
    }


def _sign_in_first(request: HttpRequest) -> HttpResponseBase:
    if getattr(request, "htmx", False):
        # The session ended under an open page: load it again as a whole, which leads to the sign-in and back.
        return HttpResponseClientRefresh()
    if request.method == "POST":
        return redirect("sign-in")
    return redirect_to_login(request.get_full_path())
