"""What is remembered only to save time."""

from __future__ import annotations

import gc
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from extender.caches import Shared, SizedDict, sized_cache


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Word:
    """A value that may be shared."""

    text: str


def test_equal_values_are_one_object() -> None:
    """The first of equal values stands for all of them."""
    shared = Shared[Word]()
    first = shared(Word("a"))
    assert shared(Word("a")) is first
    assert shared(Word("b")) is not first
    assert len(shared) == 1


def test_a_value_goes_with_those_that_hold_it() -> None:
    """Nothing is kept that nothing else holds, however many there were."""
    shared = Shared[Word]()
    held = shared(Word("held"))
    for number in range(100):
        shared(Word(str(number)))
    gc.collect()
    assert len(shared) == 1
    assert shared(Word("held")) is held


def test_a_result_is_computed_once() -> None:
    """As long as there is room, a function is called once for each arguments."""
    calls: list[str] = []

    @sized_cache(100, lambda text: len(text))  # noqa: PLW0108 - by name, as the function has it
    def double(text: str) -> str:
        calls.append(text)
        return 2 * text

    assert [double("a"), double("a"), double("b"), double("a")] == ["aa", "aa", "bb", "aa"]
    assert calls == ["a", "b"]


def test_a_result_that_is_too_large_is_not_kept() -> None:
    """It crowds out nothing that is kept, but is computed each time."""
    known: SizedDict[str, str] = SizedDict(10)
    known.keep("small", "x", 4)
    assert known.keep("large", "y", 11) == "y"
    assert "large" not in known


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12))))
def test_sizes_never_exceed_the_bound(kept: list[tuple[int, int]]) -> None:
    """Whatever is kept, again or for the first time: together it is within the bound, and the newest is there."""
    known: SizedDict[int, int] = SizedDict(20)
    sizes: dict[int, int] = {}
    for key, size in kept:
        known.keep(key, size, size)
        sizes[key] = size
        assert sum(sizes[each] for each in known) <= 20
        assert known[key] == size
    for key in list(known):
        assert known.forget(key) == sizes[key]
    assert known.forget(0) is None
    assert not known
