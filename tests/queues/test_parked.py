"""Lines that are parked together: what they ask for at the least, and which of them comes first."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from extender.queues.parked import ParkedLines


@dataclass(frozen=True)
class Entry:
    """What stands in a line."""

    position: tuple[object, ...]


def test_they_are_in_the_order_in_which_they_were_parked() -> None:
    """The oldest is the one that was parked first, whatever its place, and the newest the last one."""
    lot = ParkedLines[Entry]("terms")
    for kind, place in (("a", 2), ("b", 1), ("c", 3)):
        lot.add(kind, [Entry((place,))], {})
    assert [line[0].position for line in lot.lines] == [(2,), (1,), (3,)]
    assert (lot.oldest.position, lot.newest.position, lot.first.position) == ((2,), (3,), (1,))
    lot.add("a", lot.take("a"), {})
    assert (lot.oldest.position, lot.newest.position, lot.first.position) == ((1,), (2,), (1,))


def test_what_not_all_ask_for_says_nothing() -> None:
    """The least is of what every line asks for; where the last line has gone, the next one begins again."""
    lot = ParkedLines[Entry]("terms")
    lot.add("a", [Entry((1,))], {"cpu": 4, "gpu": 1})
    lot.add("b", [Entry((2,))], {"cpu": 2})
    assert lot.least == {"cpu": 2}
    lot.take("a")
    lot.take("b")
    lot.add("c", [Entry((3,))], {"gpu": 8})
    assert lot.least == {"gpu": 8}


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9), st.booleans()), max_size=20))
def test_the_first_is_first_whoever_comes_and_goes(steps: list[tuple[str, int, bool]]) -> None:
    """It is known without a look at all, and is always who it is by such a look; so is which lines there are."""
    lot, lines = ParkedLines[Entry]("terms"), dict[str, list[Entry]]()
    for number, (kind, place, comes) in enumerate(steps):
        if kind in lines:
            assert lot.take(kind) == lines.pop(kind)
        if comes:
            lines[kind] = [Entry((place, number))]
            lot.add(kind, lines[kind], {})
        assert {kind: lot.line(kind) for kind in "abcdef"} == {kind: lines.get(kind, []) for kind in "abcdef"}
        assert [kind in lot for kind in "abcdef"] == [kind in lines for kind in "abcdef"]
        assert len(lot) == len(lines)
        if lines:
            assert lot.first.position == min(line[0].position for line in lines.values())
