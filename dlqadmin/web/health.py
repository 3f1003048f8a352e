"""Whether this process can serve."""

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse

from dlqadmin.web.routes import route


@route("health.view")
def healthz(request: HttpRequest) -> HttpResponse:
    """200 "ok" when the database answers, else 503. Public, and says no more than that."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return HttpResponse("database away", status=503, content_type="text/plain")
    return HttpResponse("ok", content_type="text/plain")
