"""The queue: sorted as gangs come and go."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.admission.queue import Position, Queue
from extender.domain.membership import GroupApi, GroupRef


@dataclass(frozen=True)
class Entry:
    """What stands in a queue."""

    position: Position


def _ref(name: str) -> GroupRef:
    return GroupRef(GroupApi.COSCHEDULING, "default", name)


def _entry(place: tuple[bool, int, str]) -> Entry:
    return Entry(Position(*place, uid="the same for all"))


PLACES = st.tuples(st.booleans(), st.integers(0, 2), st.sampled_from("ab"))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | PLACES), max_size=20))
def test_each_gang_stands_once_and_in_order(steps: list[tuple[str, tuple[bool, int, str] | None]]) -> None:
    """Put in, moved and taken out at random, the entries are those that there are, in the order of their positions."""
    queue: Queue[Entry] = Queue()
    expected: dict[GroupRef, Entry] = {}
    for name, place in steps:
        if place is None:
            queue.remove(_ref(name))
            expected.pop(_ref(name), None)
        else:
            expected[_ref(name)] = _entry(place)
            queue.put(_ref(name), expected[_ref(name)])
    entries = list(queue)
    assert {id(entry) for entry in entries} == {id(entry) for entry in expected.values()}
    assert [entry.position for entry in entries] == sorted(entry.position for entry in expected.values())
    assert len(queue) == len(expected)


def test_an_emptied_queue_is_empty() -> None:
    """Nobody stands in a queue that was cleared, and whoever stood there can come again."""
    queue: Queue[Entry] = Queue()
    queue.put(_ref("a"), _entry((True, 0, "a")))
    queue.clear()
    assert list(queue) == []
    queue.put(_ref("a"), _entry((True, 0, "a")))
    assert len(queue) == 1
