"""The peer of the pages: Django's admin over the letters, with the columns of our list."""

from django.contrib import admin
from django.urls import include, path

from dlqadmin.deadletters.models import DeadLetter


class Letters(admin.ModelAdmin):
    """What the list of letters shows, as the admin makes it."""

    list_display = ("id", "type", "error_text", "state", "queue", "attempts", "generation", "died_at")
    list_filter = ("state", "queue")
    list_select_related = ("queue", "cluster")
    list_per_page = 50


site = admin.AdminSite()
site.register(DeadLetter, Letters)

urlpatterns = [path("admin/", site.urls), path("", include("dlqadmin.urls"))]
