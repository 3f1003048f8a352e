"""The handlers of the demo: each fails in a way that is met in practice, and each can really be mended."""

from django.db import connection

from dlqadmin.consumers import Permanent, consumer
from dlqadmin.consumers.run import IncomingMessage
from dlqadmin.demo.library import member_of_loan
from dlqadmin.demo.models import Member, Notice


class MemberNotFound(LookupError):
    """The loan refers to a member that the library does not have."""


@consumer("late-notices", type="late_notice")
def send_late_notice(message: IncomingMessage) -> None:
    """Tell the member of an overdue loan. Members 7 and 13 are missing until somebody adds them."""
    loan = message.data["loanId"]
    try:
        member = Member.objects.get(number=member_of_loan(loan))
    except Member.DoesNotExist:
        raise MemberNotFound(f"member not found (loan {loan})") from None
    Notice.objects.create(loan_number=loan, member_number=member.number)


@consumer("invoices", type="invoice.created")
def post_invoice(message: IncomingMessage) -> None:
    """Hand an invoice to accounting, which refuses some of them for good and is out of reach for others' first try."""
    if not message.data.get("taxCode"):
        raise Permanent(f"invoice {message.data['invoice']} has no field 'taxCode'")
    if message.attempt == 1 and message.data["invoice"] % 10 == 0:
        raise ConnectionError("HTTP 503 from accounting: upstream connect error, reset before headers")


@consumer("search-index", type="book.changed")
def index_book(message: IncomingMessage) -> None:
    """Write a book into the catalogue's index; old records carry a date that the index cannot take."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::date", [message.data["acquired"]])


@consumer("loans", type="loan.returned")
def close_loan(message: IncomingMessage) -> None:
    """Close a loan; nothing fails here."""
