"""The letters that a filter finds, as a file that is streamed."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect

from dlqadmin.deadletters.export import csv_of, jsonl_of
from dlqadmin.people.permissions import visible_owners
from dlqadmin.web.asked import list_address
from dlqadmin.web.letters import asked_for
from dlqadmin.web.routes import route

FORMS = {"csv": (csv_of, "text/csv; charset=utf-8"), "jsonl": (jsonl_of, "application/x-ndjson")}


@route("letters.export")
def export_letters(request: HttpRequest, form: str) -> HttpResponseBase:
    """The letters of the list, whole, as CSV or JSON Lines; a filter that cannot be read leads back to the list."""
    asked = asked_for(request.GET.get("q", ""))
    if asked.mistake:
        return redirect(list_address(asked.text))
    write, content_type = FORMS[form]
    headers = {
        "Content-Disposition": f'attachment; filename="letters.{form}"',
        "X-Content-Type-Options": "nosniff",
    }
    if request.method == "HEAD":
        return HttpResponse(content_type=content_type, headers=headers)
    lines = write(asked.letters(visible_owners(request.user)))
    return StreamingHttpResponse(lines, content_type=content_type, headers=headers)
