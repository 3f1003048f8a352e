"""The library's own page: what it lacks, and the button that mends it for real."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import ngettext

from dlqadmin.demo import library
from dlqadmin.demo.models import Member, Notice
from dlqadmin.people.permissions import may
from dlqadmin.web.routes import route


@route("overview.view", post="demo.mend")
def demo_library(request: HttpRequest) -> HttpResponse:
    """Members, missing members, notices sent; POST adds the missing members."""
    if request.method == "POST":
        added = library.add_missing_members(by=request.user if isinstance(request.user, User) else None)
        said = ngettext("%d member was added.", "%d members were added.", added) % added
        messages.success(request, said)
        return redirect("demo-library")
    context = {
        "members": Member.objects.count(),
        "missing": library.missing_members(),
        "notices": Notice.objects.count(),
        "may_mend": may(request.user, "demo.mend"),
    }
    return render(request, "demo/library.html", context)
