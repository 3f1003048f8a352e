"""Error texts of one cause have one fingerprint; those of two causes have two."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlqadmin.clusters.fingerprint import fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("member not found (loan 7)", "member not found (loan 13)"),
        ("timeout after 3.5 s", "timeout after 10.25 s"),
        ("no route to 10.0.0.1:5432", "no route to 192.168.1.77:6432"),
        (
            "job 550e8400-e29b-41d4-a716-446655440000 failed",
            "job 6BA7B810-9DAD-11D1-80B4-00C04FD430C8 failed",
        ),
        ("closed at 2026-11-30T02:14:08Z", "closed at 2025-01-02 03:04:05.123+01:00"),
        ("GET https://a.example/x?id=1 failed", "GET https://b.example/y failed"),
        ("no mailbox anna@example.org", "no mailbox bo.li@mail.example.com"),
        ("bad object 0x7f3a", "bad object 0xdeadbeef"),
        (
            "commit 3f786850e387550fdab836ed7e6dc881de23001b lost",
            "commit 89e6c98d92887913cadf06b2adb97f26cde4849b lost",
        ),
        ("two  spaces\r\nand 1 line", "two spaces and 2 line"),
    ],
)
def test_values_are_noise(one, other) -> None:
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HTTP 404 for /x/1", "HTTP 500 for /x/1"),
        ('relation "api_usage_rollup" does not exist', 'relation "members" does not exist'),
        ("KeyError: 'email'", "KeyError: 'phone'"),
        ("exit status 1", "exit status 137"),
        ("the handler called sys.exit(1)", "the handler called sys.exit(2)"),
        ("[Errno 111] refused", "[Errno 104] reset"),
        ("SQLSTATE 23505", "SQLSTATE 40001"),
    ],
)
def test_names_and_codes_are_identity(one, other) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_the_class_of_the_error_is_identity() -> None:
    assert fingerprint("boom", "ValueError").digest != fingerprint("boom", "KeyError").digest


def test_no_text_is_a_cause_of_its_own_and_nothing_is_invented() -> None:
    assert fingerprint("").template == "no error recorded"


def test_the_template_names_what_was_masked() -> None:
    assert fingerprint("member not found (loan 7)").template == "member not found (loan <int>)"


@pytest.mark.parametrize(
    "hostile", ["/a" * 100_000, "a" * 200_000 + "!", "1-" * 100_000, "a@" * 100_000, "0x" * 100_000]
)
def test_hostile_text_takes_no_time(hostile) -> None:
    start = time.perf_counter()
    fingerprint(hostile)
    assert time.perf_counter() - start < 0.1


@given(st.text())
def test_any_text_has_a_fingerprint_and_always_the_same(text) -> None:
    assert fingerprint(text) == fingerprint(text)
    assert len(fingerprint(text).digest) == 64
