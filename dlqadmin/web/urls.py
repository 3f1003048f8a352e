"""Routes of the pages. Each view carries its rule, see `dlqadmin.web.routes`."""

from django.urls import path, register_converter

from dlqadmin.web.alerts import acknowledge_alert, alerts
from dlqadmin.web.cluster import cluster, diagnose_cluster
from dlqadmin.web.converters import QueueNameConverter
from dlqadmin.web.editing import edit_body, patch_bodies
from dlqadmin.web.export import export_letters
from dlqadmin.web.grouping import (
    edit_cluster,
    merge_clusters,
    split_by_part,
    split_templates,
    tell_clusters_apart,
    undo_grouping,
)
from dlqadmin.web.health import healthz
from dlqadmin.web.letter import letter, letter_body
from dlqadmin.web.letters import letters
from dlqadmin.web.overview import overview
from dlqadmin.web.pause import queue_pause, queue_resume
from dlqadmin.web.queue import queue
from dlqadmin.web.redrives import redrive, redrives
from dlqadmin.web.redriving import approve_redrive, control_redrive, redrive_letters
from dlqadmin.web.session import choose_theme, sign_in, sign_out
from dlqadmin.web.settings import queue_settings
from dlqadmin.web.settling import resolve_dropped, settle_letter, settle_letters
from dlqadmin.web.system import system

register_converter(QueueNameConverter, "queue")

urlpatterns = [
    path("", overview, name="overview"),
    path("queues/<queue:name>/", queue, name="queue"),
    path("queues/<queue:name>/pause/", queue_pause, name="queue-pause"),
    path("queues/<queue:name>/resume/", queue_resume, name="queue-resume"),
    path("queues/<queue:name>/settings/", queue_settings, name="queue-settings"),
    path("letters/", letters, name="letters"),
    path("letters/export.csv", export_letters, {"form": "csv"}, name="export-csv"),
    path("letters/export.jsonl", export_letters, {"form": "jsonl"}, name="export-jsonl"),
    path("letters/<int:pk>/", letter, name="letter"),
    path("letters/<int:pk>/body", letter_body, name="letter-body"),
    path("clusters/<int:pk>/", cluster, name="cluster"),
    path("clusters/<int:pk>/diagnosis/", diagnose_cluster, name="diagnose-cluster"),
    path("queues/<queue:name>/redrive/", redrive_letters, name="redrive-letters"),
    path("queues/<queue:name>/resolve-dropped/", resolve_dropped, name="resolve-dropped"),
    path("queues/<queue:name>/settle/", settle_letters, name="settle-letters"),
    path("queues/<queue:name>/patch/", patch_bodies, name="patch-letters"),
    path("clusters/<int:pk>/approve/", approve_redrive, name="approve-redrive"),
    path("letters/<int:pk>/edit/", edit_body, name="edit-letter"),
    path("letters/<int:pk>/settle/", settle_letter, name="settle-letter"),
    path("redrives/<int:pk>/control/", control_redrive, name="control-redrive"),
    path("clusters/<int:pk>/merge/", merge_clusters, name="merge-clusters"),
    path("clusters/<int:pk>/apart/", tell_clusters_apart, name="tell-clusters-apart"),
    path("clusters/<int:pk>/split/", split_templates, name="split-templates"),
    path("clusters/<int:pk>/part/", split_by_part, name="split-by-part"),
    path("clusters/<int:pk>/undo/", undo_grouping, name="undo-grouping"),
    path("clusters/<int:pk>/edit/", edit_cluster, name="edit-cluster"),
    path("redrives/", redrives, name="redrives"),
    path("redrives/<int:pk>/", redrive, name="redrive"),
    path("alerts/", alerts, name="alerts"),
    path("alerts/<int:pk>/acknowledge/", acknowledge_alert, name="acknowledge-alert"),
    path("system/", system, name="system"),
    path("sign-in/", sign_in, name="sign-in"),
    path("sign-out/", sign_out, name="sign-out"),
    path("theme/", choose_theme, name="theme"),
    path("healthz/", healthz, name="healthz"),
]
