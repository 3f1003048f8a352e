"""The consumer runtime: claim, run, settle. What a handler's author needs is importable from here."""

from dlqadmin.consumers.errors import Permanent, RetryAfter
from dlqadmin.consumers.registry import consumer

__all__ = ["Permanent", "RetryAfter", "consumer"]
