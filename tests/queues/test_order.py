"""The queues: sorted as gangs come and go, and judged in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import pytest
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
    kind: str | None = None


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
    for entry in walk:
        yield entry
        walk.turns_changed()


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


class TestKinds:
    """Entries of which one verdict is true."""

    @staticmethod
    def queues(*kinds: str | None) -> Queues[Entry]:
        """Return a queue with an entry of each of these kinds, the first first."""
        queues: Queues[Entry] = Queues()
        for index, kind in enumerate(kinds):
            queues.put(_ref(str(index)), replace(_entry((True, 0, f"{index:02}")), kind=kind))
        return queues

    @staticmethod
    def serial(entry: Entry) -> int:
        """Return which one it was."""
        return int(entry.position.created)

    def test_those_behind_are_gone_by(self) -> None:
        """Once a verdict is on a kind, none that is behind in its line comes, and all others do in their order."""
        walk = self.queues("a", "a", None, "b", "a", "b", None, "a", "c").in_turn(lambda _: ())
        met = []
        for entry in walk:
            met.append(self.serial(entry))
            if self.serial(entry) in {1, 2, 8}:
                walk.close()
        assert met == [0, 1, 2, 3, 5, 6, 8]

    def test_those_of_a_kind_come_later_together(self) -> None:
        """Who is deferred alone takes those of its kind along; who is like no other goes alone."""
        walk = self.queues("a", None, "a", None, "c").in_turn(lambda _: ())
        met = []
        for entry in walk:
            if self.serial(entry) in {0, 1, 4} and not walk.is_last:
                walk.defer_alone()
            else:
                met.append(self.serial(entry))
        assert met == [3, 0, 1, 2, 4]

    def test_a_walk_goes_over_what_stood_when_it_began(self) -> None:
        """Who comes or goes meanwhile, stands there for the next walk; this one comes by whom it began with."""
        queues = self.queues("a", "a", "a")
        walk = queues.in_turn(lambda _: ())
        queues.remove(_ref("1"))
        queues.put(_ref("3"), replace(_entry((True, 0, "03")), kind="a"))
        assert [self.serial(entry) for entry in walk] == [0, 1, 2]
        assert [self.serial(entry) for entry in queues.in_turn(lambda _: ())] == [0, 2, 3]

    def test_a_whole_queue_comes_later(self) -> None:
        """Who is deferred takes along all that stand behind it in its queue, of whatever kind; other queues go on."""
        queues = self.queues("a", None, "b", "a", "b")
        queues.put(_ref("other"), _entry((True, 0, "50"), "other"))
        walk = queues.in_turn(lambda name: (name == "other",))
        met = []
        for entry in walk:
            if self.serial(entry) == 1 and not walk.is_last:
                walk.defer()
            else:
                met.append(self.serial(entry))
        assert met == [0, 50, 1, 2, 3, 4]

    @settings(deadline=None)
    @given(
        st.lists(st.tuples(st.sampled_from("rgb"), st.sampled_from(["a", "b", None]), st.booleans()), max_size=25),
        st.lists(st.sampled_from(["pass", "close", "placed", "defer", "defer alone"]), min_size=60, max_size=60),
    )
    def test_a_walk_is_that_over_sorted_lists(
        self, drawn: list[tuple[str, str | None, bool]], moves: list[str]
    ) -> None:
        """Whatever is done on the way, the next entry is the first of those that are left, by a look at all of them."""
        queues: Queues[Entry] = Queues()
        left: list[Entry] = []
        for index, (queue, kind, patient) in enumerate(drawn):
            entry = replace(_entry((patient, 0, f"{index:02}"), queue), kind=kind if patient else None)
            queues.put(_ref(str(index)), entry)
            left.append(entry)
        used, fixed, later, is_last = Counter[str](), dict[str, int](), list[Entry](), False
        walk = queues.in_turn(lambda name: (used[name],))
        for move in moves:
            if not left:
                left, later, fixed, is_last = later, [], {}, True
            urgent = [each for each in left if not (each.position.not_partial or is_last)]
            if left and not urgent and not fixed:
                fixed = dict(used)
            expected = min(
                urgent or left,
                key=lambda each: (0 if urgent else fixed.get(each.queue, 0), each.position),
                default=None,
            )
            found = list(islice(walk, 1))
            assert found == ([] if expected is None else [expected])
            if not found:
                return
            (entry,) = found
            left.remove(entry)
            shared = sum(1 for each in queues.entries if (each.queue, each.kind) == (entry.queue, entry.kind)) > 1
            of_kind = [
                each for each in left if entry.kind and shared and each.queue == entry.queue and each.kind == entry.kind
            ]
            if move == "close":
                walk.close()
                left = [each for each in left if each not in of_kind]
            elif move == "placed":
                used[entry.queue] += 1
                walk.turns_changed()
                fixed = {} if fixed else fixed
            elif move == "defer alone" and not walk.is_last:
                walk.defer_alone()
                later += [entry, *of_kind]
                left = [each for each in left if each not in of_kind]
            elif move == "defer" and not walk.is_last and entry.position.not_partial:
                walk.defer()
                behind = [each for each in left if each.queue == entry.queue and each.position.not_partial]
                later += [entry, *behind]
                left = [each for each in left if each not in behind]


class TestParkedLines:
    """Lines of a kind that a walk goes by together."""

    @staticmethod
    def queues(*kinds: str, parked: str = "") -> Queues[Entry]:
        """Return a queue with an entry of each of these kinds, the first first, some of which are parked."""
        queues = TestKinds.queues(*kinds)
        for kind in parked:
            queues.park(queues.line("", kind)[0], "terms", {})
        return queues

    def test_a_walk_comes_by_the_first_of_them(self) -> None:
        """It stands for all lines that are parked on the same terms; the other walk comes by each entry."""
        queues = self.queues("a", "b", "c", "b", "d", parked="cb")
        walk = queues.past_parked(lambda _: ())
        assert [(TestKinds.serial(entry), walk.parked is not None) for entry in walk] == [
            (0, False),
            (1, True),
            (4, False),
        ]
        assert [TestKinds.serial(entry) for entry in queues.in_turn(lambda _: ())] == [0, 1, 2, 3, 4]
        assert [entry.kind for entry in queues.line("", "b")] == ["b", "b"]
        assert list(queues.names) == [""]

    def test_they_are_parked_by_what_they_wait_for(self) -> None:
        """Each of several terms has its lines; a line that is parked again is on the new ones alone."""
        queues = self.queues("a", "b", "c", parked="abc")
        queues.park(queues.line("", "b")[0], 7, {})
        walk = queues.past_parked(lambda _: ())
        assert [TestKinds.serial(entry) for entry in walk] == [0, 1]
        assert [len(lot or ()) for lot in (queues.parked_on("", "terms"), queues.parked_on("", 7))] == [2, 1]
        assert queues.parked_on("", 8) is None

    @pytest.mark.parametrize("comes", [True, False])
    def test_whoever_comes_or_goes_unparks_its_line(self, *, comes: bool) -> None:
        """The walk comes by all of the line then, and by one of the other lines."""
        queues = self.queues("a", "b", "b", "a", "c", parked="abc")
        if comes:
            queues.put(_ref("new"), replace(_entry((True, 0, "09")), kind="b"))
        else:
            queues.remove(_ref("1"))
        walk = queues.past_parked(lambda _: ())
        assert [TestKinds.serial(entry) for entry in walk] == ([0, 1, 2, 9] if comes else [0, 2])

    def test_nothing_is_left_of_those_that_went(self) -> None:
        """A queue in which all were parked and have gone is none."""
        queues = self.queues("a", "b", parked="ab")
        queues.remove(_ref("0"))
        queues.remove(_ref("1"))
        assert not queues.names
        assert _all(queues) == list(queues.past_parked(lambda _: ())) == []
        queues = self.queues("a", parked="a")
        queues.clear()
        assert list(queues.past_parked(lambda _: ())) == []

    def test_a_walk_may_come_by_those_behind_a_place(self) -> None:
        """The others stay parked."""
        queues = self.queues("a", "b", "c", "d", "c", parked="abcd")
        lot = queues.parked_on("", "terms")
        assert lot is not None
        walk = queues.past_parked(lambda _: ())
        next(walk)
        walk.join_lines("", queues.unpark("", lot, queues.line("", "b")[0].position))
        assert [TestKinds.serial(entry) for entry in walk] == [2, 3, 4]
        assert [line[0].kind for line in lot.lines] == ["a", "b"]

    @pytest.mark.parametrize("when", ["before", "in turn", "gone by", "at the end", "deferred"])
    def test_lines_come_whenever_they_join(self, when: str) -> None:
        """Before the turn of their queue, in it, or after it: at once then, but for a queue that is deferred."""
        queues = self.queues("a", "b", parked="b")
        queues.put(_ref("other"), _entry((True, 0, "50"), "other"))
        walk = queues.past_parked(lambda name: (name == "other",))
        (lot,) = (queues.parked_on("", "terms"),)
        assert lot is not None
        met = []
        if when == "before":
            walk.join_lines("", queues.unpark("", lot))
        for entry in walk:
            serial = TestKinds.serial(entry)
            if when == "deferred" and serial == 0 and not walk.is_last:
                walk.defer()
                walk.join_lines("", queues.unpark("", lot))
                continue
            met.append(serial)
            if (when, serial) in {("in turn", 0), ("gone by", 50)}:
                walk.join_lines("", queues.unpark("", lot))
        if when == "at the end":
            walk.join_lines("", queues.unpark("", lot))
            met += [TestKinds.serial(entry) for entry in walk]
        assert (
            met
            == {
                "before": [0, 1, 1, 50],
                "in turn": [0, 1, 1, 50],
                "gone by": [0, 1, 50, 1],
                "at the end": [0, 1, 50, 1],
                "deferred": [50, 0, 1, 1],
            }[when]
        )

    @settings(deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["come", "go", "park"]),
                st.integers(0, 12),
                st.sampled_from("rg"),
                st.sampled_from("abc"),
            ),
            max_size=40,
        )
    )
    def test_a_walk_that_takes_them_in_comes_by_all_in_their_order(
        self, steps: list[tuple[str, int, str, str]]
    ) -> None:
        """Whoever came, went and was parked before; so does one that goes by none of them."""
        queues: Queues[Entry] = Queues()
        for number, (what, which, queue, kind) in enumerate(steps):
            entry = queues.get(_ref(str(which)))
            if what == "come":
                queues.put(_ref(str(which)), replace(_entry((True, 0, f"{number:02}"), queue), kind=kind))
            elif what == "go":
                queues.remove(_ref(str(which)))
            elif entry is not None:
                queues.park(entry, "terms", {})
        everyone = sorted(queues.entries, key=lambda each: (each.queue, each.position))
        turn: Callable[[str], tuple[object, ...]] = lambda name: (name,)  # noqa: E731 - one for two walks
        assert list(queues.in_turn(turn)) == everyone
        walk, met = queues.past_parked(turn), []
        for entry in walk:
            if (lot := walk.parked) is not None:
                walk.join_lines(entry.queue, queues.unpark(entry.queue, lot))
            else:
                met.append(entry)
        assert met == everyone
