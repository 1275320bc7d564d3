"""The worked examples in the comments of `eviction.search`: the code does what they say."""

from __future__ import annotations

import numpy as np
import pytest

from extender.eviction.search.choosing import Trial
from extender.eviction.search.room import Clearing, Cover, choices
from extender.eviction.search.units import Cost, Units
from tests.eviction.search.clusters import PodBudget, Site, gang, racks

WIDE, HALF, OTHER, LONG = range(4)


@pytest.fixture
def site() -> Site:
    """Return four nodes of 8 GPUs, all taken."""
    return with_priority(0)


def with_priority(priority: int) -> Site:
    """Return the site, on which the gang called `wide` has some priority."""
    full = Site(racks(1))
    full.run("wide", [("r0-0", 8), ("r0-1", 8)], seconds=100.0, priority=priority)
    full.run("half", [("r0-2", 4)], seconds=150.0)
    full.run("other", [("r0-2", 4)], seconds=250.0)
    full.run("long", [("r0-3", 8)], seconds=600.0)
    return full


def trial(site: Site, pods: int) -> tuple[Trial, Units]:
    """Return what a search for so many pods of 8 GPUs works with."""
    return site.trial(gang(pods, 8))


def evicted(site: Site) -> list[str]:
    """Return whom a search evicts for one pod of 8 GPUs."""
    found = site.search(gang(1, 8))
    assert found is not None
    return [eviction.victim.name for eviction in found.evictions]


@pytest.mark.parametrize("apart", [False, True])
def test_the_node_whose_next_pods_are_cheapest_is_cleared(site: Site, *, apart: bool) -> None:
    """`cover.py`: for two pods it evicts the gang that leaves room for both."""
    tried, units = trial(site, 2)
    assert np.rint(units.weight / 1000).tolist() == [1600, 600, 1000, 4800]
    clearing = Clearing(units, tried.free)
    everything = np.ones(len(units), dtype=np.bool_)
    cover = Cover(clearing, tried.demands[0], tried.reachable, everything, apart=apart)
    assert cover.run(2)
    assert np.flatnonzero(clearing.chosen).tolist() == [WIDE]


def test_the_cheapest_choice_is_the_first(site: Site) -> None:
    """`search.py`: of choices that lose as much the one with fewer gangs comes first."""
    tried, units = trial(site, 1)
    usable = np.ones(len(units), dtype=np.bool_)
    ways = choices(
        units, usable, tried.free, tried.demands, tree=tried.tree, level=tried.level, reachable=tried.reachable
    )
    assert ways is not None
    costs = {tuple(np.flatnonzero(chosen).tolist()): units.cost(chosen) for chosen in ways}
    first, second, third, *_ = costs
    assert (first, second, third) == ((WIDE,), (HALF, OTHER), (WIDE, HALF))
    assert costs[WIDE,] == Cost(0, 1_600_000, 1, 0, 2)
    assert costs[HALF, OTHER] == Cost(0, 1_600_000, 2, 0, 2)
    assert costs[LONG,] == Cost(0, 4_800_000, 1, 0, 1)
    assert evicted(site) == ["default/wide"]


def test_priority_and_budgets_come_first(site: Site) -> None:
    """`search.py`: where the cheapest gang has a higher priority, or a budget protects it, the two others go."""
    assert sorted(evicted(with_priority(5))) == ["default/half", "default/other"]
    site.budgets = PodBudget("wide", 0)
    assert sorted(evicted(site)) == ["default/half", "default/other"]
