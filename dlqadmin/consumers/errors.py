"""What a handler may raise to say how its message should be treated, and what the runtime raises inside it."""


class Permanent(Exception):
    """Trying again cannot help: the message becomes a dead letter at once. `raise Permanent("why")`."""


class RetryAfter(Exception):
    """Try again after so many seconds; counts as a failed attempt. `raise RetryAfter(60)`."""

    def __init__(self, seconds: float, why: str = "") -> None:
        super().__init__(why or f"retry after {seconds:g} s")
        self.seconds = seconds


class HandlerTimeout(KeyboardInterrupt):
    """The handler ran longer than its time-out.

    A KeyboardInterrupt, because psycopg then cancels the running query and keeps the connection usable; an ordinary
    exception raised in there by a signal destroyed the connection.
    """


class ClaimLost(Exception):
    """The claim expired, or someone else holds it: this worker may settle nothing."""


class Interrupted(Exception):
    """The process is being ended while a handler ran: messages go back uncharged, then `cause` goes on."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(repr(cause))
        self.cause = cause
