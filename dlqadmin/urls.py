"""All routes."""

from django.conf import settings
from django.urls import include, path

urlpatterns = [path("", include("dlqadmin.web.urls"))]
if settings.DLQADMIN_DEMO:
    urlpatterns.append(path("", include("dlqadmin.demo.urls")))
