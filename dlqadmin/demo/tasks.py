"""The singleton job of the demo."""

from django.conf import settings

from dlqadmin.demo import library
from dlqadmin.leases.jobs import job

if settings.DLQADMIN_DEMO:
    job("demo.trickle", every=settings.DLQADMIN_DEMO_EVERY)(library.trickle)
