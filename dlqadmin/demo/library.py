"""The library behind the demo: what it publishes, what is missing in it, how that is mended."""

import random

from django.db import connection, transaction

from dlqadmin.demo.models import Member, Notice
from dlqadmin.leases.run import guarded
from dlqadmin.messages.publish import Outgoing, publish, publish_many
from dlqadmin.people.audit import Actor, record
from dlqadmin.people.models import Owner
from dlqadmin.queues.models import SourceQueue

MISSING = (7, 13)
MEMBERS = 20

OWNERS = {"Members": "members@library.example", "Billing": "billing@library.example", "Catalogue": ""}
# name -> owner, policy
QUEUES: dict[str, tuple[str, dict[str, object]]] = {
    "late-notices": ("Members", {"max_attempts": 3, "backoff_base": 0.5, "timeout": 10}),
    "invoices": ("Billing", {"max_attempts": 4, "backoff_base": 1, "timeout": 10, "alert_levels": [5, 20]}),
    "search-index": (
        "Catalogue",
        {"max_attempts": 5, "backoff_base": 0.5, "timeout": 10, "alert_levels": [10]},
    ),
    "loans": ("Members", {"max_attempts": 5, "timeout": 10}),
}


def member_of_loan(loan: int) -> int:
    """Loan n was lent to member n, counted round the twenty members."""
    return (loan - 1) % MEMBERS + 1


def is_loaded() -> bool:
    """Whether the demo's tables are there."""
    return Member._meta.db_table in connection.introspection.table_names()


@transaction.atomic
def load() -> bool:
    """Make tables, owners and queues, and publish the first messages; False, and no change, if they are there."""
    if is_loaded():
        return False
    with connection.schema_editor() as editor:
        editor.create_model(Member)
        editor.create_model(Notice)
    Member.objects.bulk_create(_member(n) for n in range(1, MEMBERS + 1) if n not in MISSING)
    for name, email in OWNERS.items():
        Owner.objects.get_or_create(slug=name.lower(), defaults={"name": name, "email": email})
    for name, (owner, policy) in QUEUES.items():
        SourceQueue.objects.get_or_create(
            name=name, defaults={"owner": Owner.objects.get(slug=owner.lower()), **policy}
        )
    _publish_first()
    return True


def _publish_first() -> None:
    publish_many(
        "late-notices", [Outgoing(type="late_notice", body={"loanId": n}) for n in range(1, MEMBERS + 1)]
    )
    publish_many("invoices", [_invoice(1000 + n, taxed=n % 9 != 0) for n in range(1, 31)])
    publish_many("search-index", [_book(n, dated=n % 8 != 0) for n in range(1, 25)])
    publish_many("loans", [Outgoing(type="loan.returned", body={"loanId": n}) for n in range(1, 41)])
    # What a library meets from outside: a program that does not know this queue's types, and a cut-off body.
    publish("loans", type="loan.lost", body={"loanId": 41})
    publish("loans", type="loan.returned", body=b'{"loanId": 42', content_type="application/json")


@guarded(last=True)
def trickle() -> None:
    """Publish a few messages, most of which succeed, so that pages move. No loan of a missing member is among them."""
    number = random.randrange(10_000, 99_999)
    publish("loans", type="loan.returned", body={"loanId": number})
    if number % 3 == 0:
        publish_many("invoices", [_invoice(number, taxed=number % 60 != 0)])
    if number % 4 == 0:
        publish_many("search-index", [_book(number, dated=number % 80 != 0)])


def missing_members() -> list[int]:
    """The members that loans refer to and that the library does not have."""
    known = set(Member.objects.filter(number__in=MISSING).values_list("number", flat=True))
    return [number for number in MISSING if number not in known]


@transaction.atomic
def add_missing_members(*, by: Actor) -> int:
    """The real fix of late-notices: give the library the members that it lacks; how many were added."""
    added = Member.objects.bulk_create(
        [_member(number) for number in missing_members()], ignore_conflicts=True
    )
    if added:
        queue = SourceQueue.objects.get(name="late-notices")
        record(
            by=by, action="demo.mend", target=queue, after={"members": [member.number for member in added]}
        )
    return len(added)


def _member(number: int) -> Member:
    return Member(number=number, name=f"Member {number}", email=f"member-{number}@library.example")


def _invoice(number: int, *, taxed: bool) -> Outgoing:
    body: dict[str, object] = {"invoice": number, "amount": "12.50", "currency": "EUR"}
    return Outgoing(
        type="invoice.created", body=body | ({"taxCode": "A1"} if taxed else {}), key=f"invoice-{number}"
    )


def _book(number: int, *, dated: bool) -> Outgoing:
    acquired = f"19{number % 90 + 10}-05-17" if dated else f"{number % 12 + 1}/1987"
    return Outgoing(
        type="book.changed", body={"book": number, "title": "Anadolu kuşları atlası", "acquired": acquired}
    )
