"""What ends a measurement early."""


class BenchError(Exception):
    """The measurement cannot be made. The message is a sentence or two for the user: what is wrong, what to do."""
