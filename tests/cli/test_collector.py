"""The garbage collector: what it looks at is bounded, however much there is."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping

import pytest

from extender.cli.listening import GC_THRESHOLDS, settle_survivors, tune

#: Objects that one collection may look at: a few milliseconds.
MOST = 20_500


@pytest.fixture
def looked_at() -> Iterator[list[int]]:
    """Tune the collector as `muster serve` does; return how many objects each collection looks at from now on."""
    before, found = gc.get_threshold(), list[int]()

    def count(phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            found.append(sum(len(gc.get_objects(each)) for each in range(info["generation"] + 1)))

    gc.freeze()
    tune()
    gc.callbacks.append(count)
    yield found
    gc.callbacks.remove(count)
    gc.callbacks.remove(settle_survivors)
    gc.set_threshold(*before)
    gc.unfreeze()


def test_no_collection_looks_at_more_than_was_allocated_lately(looked_at: list[int]) -> None:
    """Not those of a cluster with many pods either: what has survived is left alone, also by a full collection."""
    kept = [[number] for number in range(40 * GC_THRESHOLDS[0])]
    gc.collect()
    assert len(looked_at) > 30
    assert max(looked_at) <= MOST
    assert len(kept) == 40 * GC_THRESHOLDS[0]


def test_cycles_that_are_given_up_soon_are_collected(looked_at: list[int]) -> None:
    """What is left of an error, a task or a call is found while it is new."""

    class Left:
        """One end of a cycle."""

        itself: object

    for _ in range(10 * GC_THRESHOLDS[0]):
        left = Left()
        left.itself = left
    assert looked_at
    gc.collect(0)
    assert sum(isinstance(each, Left) for each in gc.get_objects()) < 10
