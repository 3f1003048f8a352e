"""How things are written into URLs."""


class QueueNameConverter:
    """A queue's name as one segment of a path: its slashes become `~`, which no name holds.

    So `/queues/a~settings/` is the page of the queue "a/settings", and `/queues/a/settings/` the settings of "a".
    """

    regex = r"[\w.:~-]+"

    def to_python(self, value: str) -> str:
        """The name."""
        return value.replace("~", "/")

    def to_url(self, value: str) -> str:
        """The segment."""
        return value.replace("/", "~")
