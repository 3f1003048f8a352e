"""Signing in and out, and the choice of the theme."""

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model, login, logout
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _

from dlqadmin.web.frame import THEME_COOKIE, THEMES
from dlqadmin.web.routes import route

A_YEAR = 365 * 24 * 3600


class SignInForm(AuthenticationForm):
    """User name or e-mail, and password."""

    error_messages = {
        "invalid_login": _("That name and password do not belong together."),
        "inactive": _("This account is switched off."),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = _("User name or e-mail")

    def clean_username(self) -> str:
        """The user name; an e-mail address stands for it if exactly one account has that address."""
        given: str = self.cleaned_data["username"]
        users = get_user_model()._default_manager
        if "@" not in given or users.filter(username=given).exists():
            return given
        names = users.filter(email__iexact=given, is_active=True).values_list("username", flat=True)[:2]
        return names[0] if len(names) == 1 else given


@route("session.start", post="session.start")
def sign_in(request: HttpRequest) -> HttpResponse:
    """The sign-in page. Whoever is signed in goes on to where they wanted to go."""
    target = next_page(request)
    if request.method == "GET" and request.user.is_authenticated:
        return redirect(target)
    form = SignInForm(request, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        login(request, form.get_user())
        return redirect(target)
    context = {"form": form, "next": target, "asked": "next" in request.GET}
    return render(request, "sign_in/page.html", context, status=422 if form.errors else 200)


@route(post="session.end")
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    return redirect(settings.LOGOUT_REDIRECT_URL)


@route(post="theme.choose")
def choose_theme(request: HttpRequest) -> HttpResponse:
    """Keep the theme in a cookie, which outlives the session."""
    response = redirect(next_page(request))
    asked = request.POST.get("theme", "")
    theme = asked if asked in THEMES else THEMES[0]
    response.set_cookie(
        THEME_COOKIE,
        theme,
        max_age=A_YEAR,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )
    return response


def next_page(request: HttpRequest) -> str:
    """The page to go on to: what `next` says if that is on this site, else the overview."""
    asked = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(asked, {request.get_host()}, require_https=request.is_secure())
    return asked if safe else resolve_url(settings.LOGIN_REDIRECT_URL)
