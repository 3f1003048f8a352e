"""Error texts of one cause have one fingerprint; those of two causes have two."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlqadmin.clusters.fingerprint import TEMPLATE_LIMIT, fingerprint


def same(*texts: str) -> bool:
    return len({fingerprint(text).digest for text in texts}) == 1


@pytest.mark.parametrize(
    "texts",
    [
        ("member not found (loan 7)", "member not found (loan 13)"),
        ("timeout after 3.5 s", "timeout after 10.25 s", "timeout after 900ms", "timeout after 2 minutes"),
        ("no route to 10.0.0.1:5432", "no route to 192.168.1.77:6432", "no route to db-1.corp.internal:5432"),
        ("no route to fe80::1ff:fe23:4567:890a", "no route to 2001:db8::7"),
        (
            "job 550e8400-e29b-41d4-a716-446655440000 failed",
            "job 6BA7B810-9DAD-11D1-80B4-00C04FD430C8 failed",
            "job 01HZXK3V9Q8R7T6Y5W4E3R2T1Z failed",
            "job 4711 failed",
        ),
        (
            "closed at 2026-11-30T02:14:08Z",
            "closed at 2025-01-02 03:04:05.123+01:00",
            "closed at Fri Jun 17 07:07:00 2005",
            "closed at 17 Mar 2024",
            "closed at 27.11.2024 08:15",
        ),
        ("GET https://a.example/x?id=1&y=alpha failed", "GET https://b.example/y failed"),
        ("no mailbox anna@example.org", "no mailbox bo.li@mail.example.com"),
        ("bad object 0x7f3a", "bad object 0xdeadbeef", "bad object 0xDEADBEEF"),
        ("Order@1b2c3d4e is closed", "Order@7f00aa12 is closed"),
        ("cannot read /var/lib/a/b.csv", r"cannot read C:\data\in\c.csv", "cannot read report-7.csv"),
        ("ch_3Nq8mZ2eXk refused", "ch_9Kd0pW7aQx refused"),
        ("SKU-59480 is out of stock", "BX-8713 is out of stock"),
        ("permission denied for user anna", "permission denied for user bo"),
        ("unknown currency: EURO", "unknown currency: ZZZ"),
        ("could not convert string to float: '--'", "could not convert string to float: '40.106,78'"),
        ("invalid literal for int() with base 10: 'n/a'", "invalid literal for int() with base 10: ''"),
        (
            "Can't retry mail.send[a1b2c3d4e5] kwargs:{'to': 'Anna'}",
            "Can't retry mail.send[ffee00dd11] kwargs:{}",
        ),
        ("refused (card holder: Zoë Müller, amount: 7)", "refused (card holder: Chloé O'Brien, amount: 1)"),
        ("two  spaces\r\nand 1 line", "two spaces\nand 2 line"),
        ("项目20240316323633支付失败", "项目9支付失败"),
    ],
)
def test_values_are_noise(texts) -> None:
    assert same(*texts)


# C57
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HTTP 404 for /x/1", "HTTP 500 for /x/1"),
        ("503 Server Error: busy for url: http://a/b", "500 Server Error: busy for url: http://a/b"),
        ("request failed with status code 502", "request failed with status code 401"),
        ('relation "api_usage_rollup" does not exist', 'relation "members" does not exist'),
        ('column "address2" is missing', 'column "address1" is missing'),
        ("KeyError: 'email'", "KeyError: 'phone'"),
        ("missing required setting SMTP_HOST", "missing required setting API_KEY"),
        ("no queue 'emails.retry' in vhost '/'", "no queue 'sms.retry' in vhost '/'"),
        ("exit status 1", "exit status 137"),
        ("the handler called sys.exit(1)", "the handler called sys.exit(2)"),
        ("worker exited: signal 9", "worker exited: signal 11"),
        ("[Errno 111] refused", "[Errno 104] reset"),
        ("[WinError 10061] refused", "[WinError 10054] refused"),
        ("SQLSTATE 23505", "SQLSTATE 40001"),
        ("ORA-00001: violated", "ORA-02291: violated"),
        ("failed [HRESULT = 0x800f080d]", "failed [HRESULT = 0x800f0805]"),
        ("(550, b'5.1.1 <a@b.example>: rejected')", "(452, b'4.2.2 <a@b.example>: rejected')"),
        ("rpc error: code = Unavailable desc = x", "rpc error: code = Internal desc = x"),
        ("com.acme.Order is null", "com.acme.Customer is null"),
        ("Invalid value", "invalid value"),
    ],
)
def test_names_and_codes_are_identity(one, other) -> None:
    assert not same(one, other)


# C55, among others
@pytest.mark.parametrize(
    "wrapped",
    [
        "attempt 3 of 5: disk quota exceeded",
        "[2026-04-06 17:09:54,279: ERROR/ForkPoolWorker-4] disk quota exceeded",
        "2026-04-06T17:09:54Z ERROR disk quota exceeded",
        "ERROR: disk quota exceeded",
        "worker billing-7d18c5b2c-e192c: disk quota exceeded",
        "[billing-7d18c5b2c-e192c] disk quota exceeded",
        "failed to process message 3cd4b07c-c863-434b-ac66-84b78bd6f291: disk quota exceeded",
        "(507, 'disk quota exceeded')",
        "\x1b[31mdisk quota exceeded\x1b[0m",
        "\n  disk quota exceeded\r\n",
        "disk quota exceeded\nDETAIL:  4711 of 4711 used.",
    ],
)
def test_a_wrapper_is_noise(wrapped) -> None:
    assert same(wrapped, "disk quota exceeded")


PYTHON = """Traceback (most recent call last):
  File "/srv/shop/consumer.py", line {line}, in handle
    process(message.body)
  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode
    x
{error}"""
JAVA = """org.acme.ListenerExecutionFailedException: Listener method 'void handle()' threw exception
\tat org.springframework.amqp.Adapter.invoke(Adapter.java:{line})
\tat org.acme.OrderListener.onMessage(OrderListener.java:{line})
Caused by: {error}
\tat org.acme.OrderService.total(OrderService.java:{line})
\t... {line} more"""
NET = """System.AggregateException: One or more errors occurred. ---> {error}
   at Acme.Billing.Handler.Handle(Message m) in /src/Handler.cs:line {line}
   --- End of inner exception stack trace ---"""


@pytest.mark.parametrize("trace", [PYTHON, JAVA, NET])
def test_a_trace_is_noise_when_the_exception_says_what_went_wrong(trace) -> None:
    told = "shop.QuotaError: quota of tenant 7 is used up"
    assert same(trace.format(line=7, error=told), trace.format(line=81, error=told), told)
    assert not same(trace.format(line=7, error=told), trace.format(line=7, error="shop.QuotaError: no quota"))


def test_the_first_own_frame_is_identity_when_no_line_says_anything() -> None:
    def nothing(function: str, line: int) -> str:
        return (
            f"java.lang.NullPointerException\n\tat java.util.Objects.check(Objects.java:{line})\n"
            f"\tat org.acme.{function}(Shop.java:{line})\n\tat org.acme.Listener.onMessage(Listener.java:9)"
        )

    assert same(nothing("Invoice.map", 7), nothing("Invoice.map", 80))
    assert not same(nothing("Invoice.map", 7), nothing("Order.total", 7))


def test_the_traceback_of_a_letter_is_asked_only_when_class_and_text_say_nothing() -> None:
    trace = PYTHON.format(line=7, error="AssertionError")
    other = trace.replace("in handle", "in refund")
    assert fingerprint("", "AssertionError", trace).digest != fingerprint("", "AssertionError", other).digest
    assert fingerprint("boom", "ValueError", trace) == fingerprint("boom", "ValueError")


def test_json_is_told_by_its_type_code_and_message() -> None:
    one = '{"error":{"charge":"ch_VdJaYu6FWz","code":"card_declined","message":"Declined."},"request_id":"req_oA5"}'
    assert same(one, one.replace("VdJaYu6FWz", "8xD2kLm91Q").replace("oA5", "9k1"))
    assert not same(one, one.replace("card_declined", "expired_card"))


def test_the_class_of_the_error_is_identity() -> None:
    assert fingerprint("boom", "ValueError").digest != fingerprint("boom", "KeyError").digest


def test_no_text_is_a_cause_of_its_own_and_nothing_is_invented() -> None:
    assert fingerprint("").template == "no error recorded"
    assert fingerprint(" \n\x00").template == "no error recorded"


def test_the_template_names_what_was_masked_and_the_values_are_kept() -> None:
    found = fingerprint("member anna@example.org not found (loan 7)")
    assert found.template == "member <email> not found (loan <int>)"
    assert [(one.kind, one.value) for one in found.parameters] == [
        ("email", "anna@example.org"),
        ("int", "7"),
    ]


# C53 of the public reports
def test_composed_and_decomposed_letters_are_the_same() -> None:
    text = "łąka: Müşteri bulunamadı"
    assert same(unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text))


# C48
def test_nul_and_other_control_characters_change_nothing() -> None:
    assert same("a\x00b", "ab")
    assert same("quota\u200b exceeded", "quota exceeded")


HOSTILE = [
    *(
        "/a",
        "a",
        "1-",
        "a@",
        "0x",
        "'a",
        "(",
        "[{(",
        "a.",
        "a:",
        " ",
        "a ",
        "1",
        "Jan ",
        "invalid user ",
        "name: Abc ",
    ),
    *(
        '{"a":',
        "\x1b[",
        "args: [",
        "Error: ",
        "[a1] ",
        "ERROR: ",
        "A.",
        "（",
        "http://",
        "12345678-1234-",
        "\n",
        "\r",
    ),
    *(
        "e\u0301",
        "value a a a a a ",
        "value '",
        "<int> ",
        "x=1,",
        ":1",
        "2024-01-01T",
        "1.2_3",
        "\nCaused by: x",
    ),
    *("\n  at a.b.C(X.java:1)", "nested exception is ", "Traceback (most recent call last)\n"),
]


# C59
@pytest.mark.parametrize("piece", HOSTILE)
def test_two_hundred_kilobytes_of_hostile_text_take_less_than_50_ms(piece) -> None:
    text = piece * (200_000 // len(piece)) + "!"
    times = []
    for number in range(3):
        start = time.perf_counter()
        found = fingerprint(f"{number}{text}")
        times.append(time.perf_counter() - start)
        assert len(found.template) <= TEMPLATE_LIMIT
    assert min(times) < 0.05


@given(st.text())
def test_any_text_has_a_fingerprint_and_always_the_same(text) -> None:
    assert fingerprint(text) == fingerprint(text)
    assert len(fingerprint(text).digest) == 64
    assert "\x00" not in fingerprint(text).template


# C56
@pytest.mark.parametrize(
    "value",
    [
        "3f786850e387550fdab836ed7e6dc881de23001b.hyperdrive.local:5432",
        "https://api.example.com/v1/x?token=9f8e7d",
        "2026-11-30T10:11:12.345Z",
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "4711",
    ],
)
def test_five_hundred_errors_that_differ_in_a_value_are_one_cause(value) -> None:
    values = [
        value.translate(str.maketrans("13579", f"{n % 10}{n // 10 % 10}{n // 100}84")) for n in range(500)
    ]
    assert same(*(f"write CONNECTION_CLOSED {one}" for one in values))
