"""Routes of the demo."""

from django.urls import path

from dlqadmin.demo.views import demo_library

urlpatterns = [path("demo/", demo_library, name="demo-library")]
