"""The queues: sorted as gangs come and go, and judged in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.queues.order import Position, Queues


@dataclass(frozen=True)
class Entry:
    """What stands in a queue."""

    position: Position
    queue: str = ""


def _ref(name: str) -> GroupRef:
    return GroupRef(COSCHEDULING, "default", name)


def _entry(place: tuple[bool, int, str], queue: str = "") -> Entry:
    not_partial, priority, created = place
    return Entry(Position(not_partial, not_aged=True, minus_priority=priority, created=created, uid="same"), queue)


def _all(queues: Queues[Entry]) -> list[Entry]:
    return list(_walk(queues, lambda name: (name,)))


def _walk(queues: Queues[Entry], turn: Callable[[str], tuple[object, ...]]) -> Iterator[Entry]:
    """Go through all, whose turns may change with each."""
    walk = queues.in_turn(turn)
    while stretch := walk.stretch():
        for index, entry in enumerate(stretch):
            yield entry
            if walk.turns_changed(index + 1):
                break


PLACES = st.tuples(st.booleans(), st.integers(0, 2), st.sampled_from("ab"))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | PLACES), max_size=20))
def test_each_gang_stands_once_and_in_order(steps: list[tuple[str, tuple[bool, int, str] | None]]) -> None:
    """Put in, moved and taken out at random, the entries are those that there are, in the order of their positions."""
    queues: Queues[Entry] = Queues()
    expected: dict[GroupRef, Entry] = {}
    for name, place in steps:
        if place is None:
            queues.remove(_ref(name))
            expected.pop(_ref(name), None)
        else:
            expected[_ref(name)] = _entry(place)
            queues.put(_ref(name), expected[_ref(name)])
    entries = _all(queues)
    assert {id(entry) for entry in entries} == {id(entry) for entry in expected.values()}
    assert [entry.position for entry in entries] == sorted(entry.position for entry in expected.values())
    assert len(queues) == len(expected)


def test_emptied_queues_are_empty() -> None:
    """Nobody stands in queues that were cleared, and whoever stood there can come again."""
    queues: Queues[Entry] = Queues()
    queues.put(_ref("a"), _entry((True, 0, "a")))
    queues.clear()
    assert _all(queues) == []
    queues.put(_ref("a"), _entry((True, 0, "a")))
    assert len(queues) == 1


def test_a_gang_that_changes_queues_stands_in_one() -> None:
    """A gang that is put into another queue does not stand in the former one any more."""
    queues: Queues[Entry] = Queues()
    queues.put(_ref("a"), _entry((True, 0, "a"), "red"))
    queues.put(_ref("a"), _entry((True, 0, "a"), "blue"))
    assert list(queues.names) == ["blue"]


def test_queues_take_turns_as_their_shares_change() -> None:
    """The queue that has less goes next, each time somebody of another has been given something."""
    queues: Queues[Entry] = Queues()
    for index in range(6):
        queues.put(_ref(f"red-{index}"), _entry((True, 0, str(index)), "red"))
        queues.put(_ref(f"blue-{index}"), _entry((True, 0, str(index)), "blue"))
    used: Counter[str] = Counter()
    seen = []
    for entry in _walk(queues, lambda name: (used[name] / (2 if name == "red" else 1),)):
        used[entry.queue] += 1
        seen.append(entry.queue)
        if len(seen) == 6:
            break
    assert Counter(seen) == {"red": 4, "blue": 2}


def test_of_queues_that_come_at_once_the_older_gang_goes_first() -> None:
    """As long as no share decides, gangs of all queues stand in one order."""
    queues: Queues[Entry] = Queues()
    for index, name in enumerate(["red", "blue", "red", "blue"]):
        queues.put(_ref(str(index)), _entry((True, 0, str(index)), name))
    entries = _walk(queues, lambda _: (0,))
    assert [entry.position.created for entry in entries] == ["0", "1", "2", "3"]


def test_a_gang_that_holds_nodes_goes_before_every_share() -> None:
    """A gang with some members bound is judged first, whatever its queue has already."""
    queues: Queues[Entry] = Queues()
    queues.put(_ref("whole"), _entry((True, 0, "a"), "poor"))
    queues.put(_ref("partial"), _entry((False, 0, "b"), "rich"))
    entries = _walk(queues, lambda name: (name == "rich",))
    assert [entry.queue for entry in entries] == ["rich", "poor"]
