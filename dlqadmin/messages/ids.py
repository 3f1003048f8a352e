"""Ids of messages."""

import uuid_utils


def new_message_id() -> str:
    """A uuid7: unique over all machines, and rising with time, so that indexes on it stay compact."""
    return str(uuid_utils.uuid7())
