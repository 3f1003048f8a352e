"""Text from outside is made safe to store and to show."""

from hypothesis import given
from hypothesis import strategies as st

from dlqadmin.text import display_safe, raw_bytes, storable


def test_nul_and_control_characters_become_visible() -> None:
    assert display_safe("a\0b\x07c\x7f") == "a␀b␇c␡"


def test_terminal_colours_disappear() -> None:
    assert display_safe("\x1b[31mFoo\x1b[0m") == "Foo"


def test_bidi_overrides_cannot_turn_a_text_round() -> None:
    assert "\u202e" not in display_safe("user\u202etxt.exe")


def test_a_long_text_is_cut_and_says_how_much_is_missing() -> None:
    shown = display_safe("x" * 200_000, limit=1000)
    assert len(shown) < 1100
    assert "199,000 more characters" in shown


def test_composed_and_decomposed_letters_are_the_same_text() -> None:
    assert display_safe("ła\u0328ka") == display_safe("łąka")


def test_line_breaks_and_tabs_stay() -> None:
    assert display_safe("a\n\tb\r\n") == "a\n\tb\r\n"


@given(st.text(alphabet=st.characters(codec=None)))  # surrogates included
def test_any_text_can_be_stored_and_its_bytes_kept(text: str) -> None:
    assert "\0" not in storable(text)
    storable(text).encode()
    display_safe(text).encode()
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert raw_bytes(text).decode() == text
