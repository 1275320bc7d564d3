"""The pieces that can be evicted: what each leaves where, and what it costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from extender.eviction.search.room import Clearing, VictimRoomRequest, prune
from extender.eviction.search.units import Cost, Units
from tests.cluster.conftest import GPU
from tests.eviction.search.clusters import Site, racks


def elastic() -> Site:
    """Return a site with an elastic gang, two extras among its four pods, and a gang of one pod."""
    site = Site(racks(1, 2))
    site.run("elastic", [("r0-0", 2), ("r0-1", 2), ("r0-0", 1), ("r0-1", 1)], extras=2, seconds=10.0)
    site.run("plain", [("r0-1", 4)], seconds=100.0, priority=3)
    return site


def units_of(site: Site) -> Units:
    """Return the pieces, by what they hold of GPUs."""
    return Units(site.victims, site.table, np.array([site.table.resources.index(GPU)], dtype=np.intp))


def choice(units: Units, *pieces: int) -> NDArray[np.bool_]:
    """Return a choice of pieces."""
    chosen = np.zeros(len(units), dtype=np.bool_)
    chosen[list(pieces)] = True
    return chosen


def test_each_extra_and_each_core_is_a_piece() -> None:
    """The extras come first, in the order in which they go; each piece leaves room where its pods are."""
    units = units_of(elastic())
    assert units.core.tolist() == [False, False, True, True]
    assert [[pod.name for pod in units.pods([piece])] for piece in range(4)] == [
        ["elastic-3"],
        ["elastic-2"],
        ["elastic-0", "elastic-1"],
        ["plain-0"],
    ]
    entries = [units.entries(piece) for piece in range(4)]
    assert [units.rows[each].tolist() for each in entries] == [[1], [0], [0, 1], [1]]
    assert [units.freed[0, each].tolist() for each in entries] == [[1], [1], [2, 2], [4]]
    assert list(units.extras(2)) == [0, 1]
    assert units.lost.tolist() == [10_000, 10_000, 60_000, 400_000]


def test_costs_tell_gangs_from_extras() -> None:
    """Extras that go with their gang are lost with it; alone they count behind everything but the number of pods."""
    units = units_of(elastic())
    assert units.cost(choice(units)) == Cost(0, 0, 0, 0, 0)
    assert units.cost(choice(units, 0)) == Cost(0, 0, 0, 10_000, 1)
    assert units.cost(choice(units, 0, 1, 2)) == Cost(0, 60_000, 1, 0, 4)
    assert units.cost(choice(units, 1, 3)) == Cost(3, 400_000, 1, 10_000, 2)
    assert units.price(choice(units, 0, 1, 2)) == units.weight[2]
    assert units.price(choice(units, 0, 1)) < 0.5 / len(units)


def test_evictions_name_victims_in_order() -> None:
    """A choice is one eviction for each victim, the pods of the core first."""
    site = elastic()
    units = units_of(site)
    found = units.evictions(choice(units, 0, 1, 2, 3))
    assert [each.victim for each in found] == site.victims
    assert [pod.name for pod in found[0].pods] == ["elastic-0", "elastic-1", "elastic-3", "elastic-2"]
    assert units.evictions(choice(units)) == ()


def test_pods_that_hold_nothing_leave_nothing() -> None:
    """A pod whose claim is gone, or whose node is, leaves no room and is no loss; without victims there is nothing."""
    site = elastic()
    site.table.release("uid-plain-0")
    site.table.remove("r0-0")
    units = units_of(site)
    assert [units.rows[units.entries(piece)].tolist() for piece in range(4)] == [[1], [], [1], []]
    assert units.lost.tolist() == [10_000, 0, 30_000, 0]
    empty = Units([], site.table, np.array([0], dtype=np.intp))
    assert (len(empty), empty.rows.tolist(), empty.row_starts.tolist()) == (0, [], [0])


def test_evicting_and_sparing_are_inverse() -> None:
    """Extras go with their core, and stay gone when the core is put back; each piece gives its room once."""
    site = elastic()
    units = units_of(site)
    free = site.table.free()[[site.table.resources.index(GPU)]]
    clearing = Clearing(units, free)
    assert clearing.evict(0) == [0]
    assert clearing.evict(2) == [1, 2]
    assert clearing.free.tolist() == [[8, 4]]
    clearing.spare(2)
    assert clearing.free.tolist() == [[6, 2]]
    other = clearing.copy()
    other.spare(0)
    assert clearing.chosen.tolist() == [True, True, False, False]
    assert np.array_equal(other.free, Clearing(units, free, choice(units, 1)).free)


def test_caps_are_those_of_the_scarcest_column() -> None:
    """Nodes that do not admit the pods take none, overcommitted ones neither; a request for nothing fits for all."""
    free = np.array([[8, 8, 8, -1], [4, 9, 9, 9]])
    demand = VictimRoomRequest(np.array([2, 3]), np.array([True, True, False, True]), 10)
    assert demand.caps(free, np.arange(4)).tolist() == [1, 3, 0, 0]
    assert (
        VictimRoomRequest(np.array([0, 0]), np.ones(4, dtype=np.bool_), 10).caps(free, np.arange(4)).tolist()
        == [10] * 4
    )


def test_pruning_spares_the_dearest_first() -> None:
    """What need not go is left out, gangs before extras, the dearest first; of equal extras the first one goes."""
    site = elastic()
    units = units_of(site)
    free = site.table.free()[[site.table.resources.index(GPU)]]
    everybody = choice(units, 0, 1, 2, 3)

    def free_gpus(number: int) -> list[int]:
        chosen = prune(units, free, everybody, lambda clearing: int(clearing.free.sum()) >= number)
        return np.flatnonzero(chosen).tolist()

    assert int(free.sum()) == 6
    assert free_gpus(6) == []
    assert free_gpus(7) == [0]
    assert free_gpus(8) == [0, 1]
    assert free_gpus(12) == [0, 1, 2]
    assert free_gpus(16) == [0, 1, 2, 3]
    kept = prune(units, free, everybody, lambda _: True, keep=choice(units, 1))
    assert np.flatnonzero(kept).tolist() == [1]
