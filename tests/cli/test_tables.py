"""Plain tables and bars."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from extender.cli.tables import Column, bar, cleaned, lines

WORDS = st.text(st.characters(codec="utf-8"), max_size=12)


def test_columns_are_aligned_under_their_headings() -> None:
    """Numbers at the right, words at the left, nothing after the last word."""
    found = lines(
        [Column("GANG"), Column("GPUS", right=True), Column("PHASE")], [("a/b", "8", "Running"), ("c", "", "")]
    )
    assert [line.plain for line in found] == ["GANG  GPUS  PHASE", "a/b      8  Running", "c"]


def test_headings_can_be_left_out() -> None:
    """The cells stand as they would without them."""
    assert [line.plain for line in lines([Column("GANG"), Column("N")], [("a", "b")], headers=False)] == ["a  b"]


def test_wide_characters_take_two_columns() -> None:
    """What follows them is aligned all the same."""
    first, second = lines([Column("A"), Column("B")], [("\u65e5\u672c", "x"), ("abcd", "x")], headers=False)
    assert (first.plain, second.plain) == ("\u65e5\u672c  x", "abcd  x")


@given(WORDS)
def test_no_text_steers_the_terminal(word: str) -> None:
    """Escape sequences, line ends and the like are replaced; all else is as it was."""
    shown = cleaned(word).plain
    assert shown.isprintable() or "\ufffd" in shown
    assert "\x1b" not in shown
    assert not word.isprintable() or shown == word


def test_texts_keep_their_colours() -> None:
    """What this program coloured itself is not touched."""
    text = Text("x", "red")
    assert cleaned(text) is text


@given(st.lists(st.integers(0, 50), max_size=4), st.integers(1, 30), st.integers(0, 50))
def test_a_bar_has_its_width_whatever_is_drawn(values: list[int], width: int, more: int) -> None:
    """Parts that are more than the whole are cut off, and an empty whole is an empty bar."""
    drawn = bar([(value, "#", "") for value in values], sum(values) + more, width).plain
    assert len(drawn) == width
    assert ("#" in drawn) == (sum(values) > 0)


def test_little_is_still_seen() -> None:
    """One GPU of a thousand takes a cell."""
    assert bar([(1, "#", "")], 1000, 10).plain == "#" + "\u00b7" * 9
