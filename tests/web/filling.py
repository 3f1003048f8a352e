"""Filling in a page's form as a browser does: what it shows goes back, but for what the test changes."""

from typing import Any

from django.test import Client


def filled(client: Client, address: str, **changes: Any) -> dict[str, Any]:
    """What a browser would send for the form of this page, with `changes`; None leaves a box unticked."""
    form = client.get(address).context["form"]
    shown = {field.name: field.value() for field in form if not field.field.disabled}
    sent = {name: getattr(value, "pk", value) for name, value in (shown | changes).items()}
    lines = {name: "\n".join(value) for name, value in sent.items() if isinstance(value, list)}
    return {name: value for name, value in (sent | lines).items() if value is not None and value is not False}
