"""All routes."""

from django.urls import include, path

urlpatterns = [path("", include("dlqadmin.web.urls"))]
