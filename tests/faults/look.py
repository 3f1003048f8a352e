"""`python -m tests.faults.look`: the ledgers of the run's queues as JSON, with what was published, at one moment."""

import json
from dataclasses import asdict

import django
from django.db import connection, transaction

django.setup()

from dlqadmin.queues.models import SourceQueue  # noqa: E402
from dlqadmin.redrive.ledger import count_ledgers  # noqa: E402 - models need the line above

_PUBLISHED = "SELECT queue, count(*), count(DISTINCT message_id) FROM fault_published GROUP BY queue"


@transaction.atomic
def look() -> dict[str, dict[str, int]]:
    """By queue: the accounts, their difference, and the messages and message ids that were published."""
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute(_PUBLISHED)
        published = {queue: (messages, ids) for queue, messages, ids in cursor.fetchall()}
    names = dict(SourceQueue.objects.filter(name__in=published).values_list("pk", "name"))
    return {
        names[pk]: asdict(ledger)
        | {"difference": ledger.difference}
        | dict(zip(("published", "ids"), published[names[pk]], strict=True))
        for pk, ledger in count_ledgers(list(names)).items()
    }


if __name__ == "__main__":
    print(json.dumps(look()))
