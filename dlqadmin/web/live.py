"""Pages that stay fresh: HTMX asks for a page's live region with the version that it shows, and gets 204 if nothing
changed, the region if it did, and 286 with the last state when nothing will change any more."""

import hashlib
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django.utils.safestring import mark_safe
from django_htmx.http import HTMX_STOP_POLLING


def render_live(
    request: HttpRequest,
    template: str,
    context: dict[str, Any],
    *,
    seconds: int,
    finished: bool = False,
    **query: Any,
) -> HttpResponse:
    """The page `template`, or only its partial `live` when HTMX polls for it, every `seconds`.

    `query` is added to the address that is polled. The region must hold no form: what a person types would be lost,
    and its CSRF token would make every version a new one.
    """
    fragment = render_to_string(f"{template}#live", context, request)
    version = hashlib.sha256(fragment.encode()).hexdigest()[:16]
    live = {
        "fragment": mark_safe(fragment),  # noqa: S308 (a template has rendered and escaped it)
        "url": _address(request, version, query),
        "seconds": seconds,
        "finished": finished,
    }
    if not wants_fragment(request):
        response = render(request, template, context | {"live": live})
    elif request.GET.get("version") == version and not finished:
        response = HttpResponse(status=204)
    else:
        status = HTMX_STOP_POLLING if finished else 200
        response = render(request, "parts/live.html", {"live": live}, status=status)
    patch_vary_headers(response, ["HX-Request"])
    return response


def wants_fragment(request: HttpRequest) -> bool:
    """Whether HTMX wants a part of the page: not for a boosted link, nor to restore its history."""
    htmx = request.htmx  # type: ignore[attr-defined]
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request


def _address(request: HttpRequest, version: str, query: dict[str, Any]) -> str:
    asked = request.GET.copy()
    for name, value in {**query, "version": version}.items():
        asked[name] = str(value)
    return f"{request.path}?{asked.urlencode()}"
