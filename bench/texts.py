"""Error texts to measure with: the wording of many libraries, with values that differ.

`BENCH_TEXTS` names a folder of CSV files with a column `text` to measure with those instead.
"""

import csv
import os
import random
import string
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from bench.errors import BenchError

# One under the other, "---" between them; {kind} is a value.
WORDINGS = r"""
duplicate key value violates unique constraint "{name}_pkey"
DETAIL:  Key (id)=({int}) already exists.
---
ERROR: insert or update on table "{name}" violates foreign key constraint "{name}_fk" (SQLSTATE 23503)
---
relation "{name}" does not exist
LINE 1: SELECT id, total FROM {name} WHERE tenant = {int}
                              ^
---
deadlock detected
DETAIL:  Process {int} waits for ShareLock on transaction {int}; blocked by process {int}.
Process {int} waits for ShareLock on transaction {int}; blocked by process {int}.
HINT:  See server log for query details.
---
connection to server at "{ip}", port 5432 failed: FATAL:  sorry, too many clients already
---
KeyError: '{name}'
---
ValueError: invalid literal for int() with base 10: '{word}'
---
AttributeError: 'NoneType' object has no attribute '{name}'
---
[{time},123: ERROR/ForkPoolWorker-{small}] Task shop.{name}[{uuid}] raised unexpected: LookupError('no stock for {int}')
---
Traceback (most recent call last):
  File "/srv/app/consumer.py", line {small}, in handle
    process(message.body)
  File "/srv/app/{name}.py", line {small}, in process
    store = open_store(message.tenant)
  File "/srv/app/stores.py", line {small}, in open_store
    raise LookupError(f"no store {{tenant}}")
LookupError: no store {int} of {name}
---
requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://api.{host}/v1/{name}/{int}?page={small}
---
503 Server Error: Service Unavailable for url: https://{host}/{uuid}
---
HTTPSConnectionPool(host='{host}', port=443): Read timed out. (read timeout={small})
---
[Errno 111] Connection refused
---
[Errno 2] No such file or directory: '/data/in/{word}-{int}.csv'
---
java.lang.IllegalStateException: order {int} of customer {int} is closed
	at com.shop.{name}.Orders.close(Orders.java:{small})
	at com.shop.{name}.Listener.onMessage(Listener.java:{small})
	at org.springframework.messaging.handler.InvocableHandlerMethod.doInvoke(InvocableHandlerMethod.java:169)
	at org.springframework.amqp.rabbit.SimpleMessageListenerContainer.run(SimpleMessageListenerContainer.java:993)
	at java.base/java.lang.Thread.run(Thread.java:840)
---
java.lang.NullPointerException
	at com.shop.{name}.Mapper.map(Mapper.java:{small})
	at com.shop.{name}.Listener.onMessage(Listener.java:{small})
	at java.base/java.lang.Thread.run(Thread.java:840)
---
org.springframework.amqp.rabbit.ListenerExecutionFailedException: Listener method 'void handle()' threw exception
	at org.springframework.amqp.rabbit.listener.adapter.MessagingMessageListenerAdapter.invoke(Adapter.java:{small})
	at com.shop.{name}.Listener.onMessage(Listener.java:{small})
Caused by: java.io.IOException: no route to {ip}
	at com.shop.{name}.Client.send(Client.java:{small})
	... {small} more
---
System.TimeoutException: The operation has timed out after {int} ms.
   at Shop.{name}.Sender.Send(Message message) in C:\src\Sender.cs:line {small}
   at Shop.Program.Main()
---
Error: connect ECONNREFUSED {ip}:5672
    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1494:16)
---
failed to process message {uuid}: dial tcp {ip}:5432: i/o timeout
---
rpc error: code = Unavailable desc = upstream {host} is draining, retry in {small}s
---
PRECONDITION_FAILED - unknown delivery tag {int}
---
NOT_FOUND - no queue '{name}.retry' in vhost '/'
---
An error occurred (AccessDenied) when calling the {name} operation: Access Denied
---
worker {word}-{hex}-{hex}: lease {int} is held by node {uuid}
---
{{"error":{{"code":"{name}","message":"charge {hex} was refused","type":"card_error"}},"request_id":"req_{hex}"}}
---
webhook delivery {uuid} failed: HTTP 410 from https://hooks.{host}/t/{hex} ({int} ms)
---
No exchange rate for pair EUR/TRY on {date}
---
payment of {int}.{small} EUR by {email} was refused: limit reached
---
job {uuid} aborted: missing required setting {upper}
---
message {int} is {int} bytes, more than the limit of {int} bytes
---
Sipariş {int} işlenemedi: stok yetersiz (ürün: SKU-{int}, istenen: {small}, mevcut: {small})
---
Der Auftrag {int} wurde von {email} am {date} storniert
""".strip().split("\n---\n")

_HEX = "0123456789abcdef"


def texts(number: int, seed: int = 1) -> list[str]:
    """So many error texts, the same for the same seed. Raises BenchError if `BENCH_TEXTS` holds none."""
    folder = os.environ.get("BENCH_TEXTS")
    if folder:
        given = [row["text"] for path in sorted(Path(folder).glob("*.csv")) for row in _rows(path)]
        if not given:
            raise BenchError(f"BENCH_TEXTS={folder} has no CSV file with a column text.")
        return given
    dice = random.Random(seed)
    return [_filled(dice.choice(WORDINGS), dice) for _ in range(number)]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return rows if rows and "text" in rows[0] else []


def _filled(wording: str, dice: random.Random) -> str:
    text = wording.replace("{{", "{").replace("}}", "}")
    for kind, value in _VALUES.items():
        while (mark := f"{{{kind}}}") in text:
            text = text.replace(mark, value(dice), 1)
    return text


def _letters(dice: random.Random, alphabet: str, number: int) -> str:
    return "".join(dice.choices(alphabet, k=number))


_NAMES = (
    "orders",
    "members",
    "loans",
    "invoices",
    "payments",
    "stock",
    "shipments",
    "refunds",
    "tax_rates",
    "holds",
)
_VALUES: dict[str, Callable[[random.Random], str]] = {
    "int": lambda dice: str(dice.randrange(100, 10_000_000)),
    "small": lambda dice: str(dice.randrange(1, 400)),
    "uuid": lambda dice: str(UUID(int=dice.getrandbits(128))),
    "hex": lambda dice: _letters(dice, _HEX, 12),
    "ip": lambda dice: ".".join(str(dice.randrange(256)) for _ in range(4)),
    "host": lambda dice: f"{_letters(dice, string.ascii_lowercase, 6)}-{dice.randrange(9)}.example.com",
    "email": lambda dice: f"{_letters(dice, string.ascii_lowercase, 7)}@example.org",
    "word": lambda dice: _letters(dice, string.ascii_lowercase, 6),
    "name": lambda dice: dice.choice(_NAMES),
    "upper": lambda dice: dice.choice(_NAMES).upper() + "_URL",
    "date": lambda dice: f"2026-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}",
    "time": lambda dice: (
        f"2026-01-{dice.randrange(1, 29):02} {dice.randrange(24):02}:{dice.randrange(60):02}:09"
    ),
}
