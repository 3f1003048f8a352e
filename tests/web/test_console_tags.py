"""How ages, shares and error templates are written."""

from datetime import timedelta

import pytest
from django.utils import timezone

from dlqadmin.templatetags.console import age, duration, masked, percent


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "under 1 min"),
        (0, "under 1 min"),
        (59, "under 1 min"),
        (60, "1 min"),
        (150, "2 min"),
        (11_400, "3 h 10 min"),
        (86_400, "1 d"),
        (9 * 86_400 + 5, "9 d"),
        (1200 * 86_400, "1,200 d"),
    ],
)
def test_an_age_is_told_in_its_largest_units(seconds: int, text: str) -> None:
    assert duration(timedelta(seconds=seconds)).replace("\u00a0", " ") == text


def test_an_age_is_never_negative() -> None:
    assert "clock skew" in age(timezone.now() + timedelta(minutes=5), True)
    assert "ago" not in age(timezone.now() + timedelta(minutes=5), True)


def test_an_age_has_the_exact_moment_beside_it() -> None:
    moment = timezone.now().replace(microsecond=0)
    stamp = moment.strftime("%Y-%m-%d %H:%M:%S")
    assert f'title="{stamp} UTC"' in age(moment)
    assert f'datetime="{stamp.replace(" ", "T")}Z"' in age(moment)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.01, "< 0.1 %"),
        (0.7, "0.7 %"),
        (3, "3 %"),
        (94.4, "94 %"),
        (99.99, "99.9 %"),
        (100, "100 %"),
    ],
)
def test_a_share_that_is_not_all_or_nothing_never_looks_like_it(share: float, text: str) -> None:
    assert percent(share).replace("\u00a0", " ") == text


def test_masked_values_are_marked_and_everything_else_is_escaped() -> None:
    assert masked("<b> & <int> of <script>") == "&lt;b&gt; &amp; <var>int</var> of &lt;script&gt;"
    assert masked("<var>int</var>") == "&lt;var&gt;int&lt;/var&gt;"
    assert masked("a\u202eb") == "a⟨U+202E⟩b"
