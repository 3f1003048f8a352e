"""Messages that wait or run, and how they are published. `from dlqadmin.messages.publish import publish`."""
