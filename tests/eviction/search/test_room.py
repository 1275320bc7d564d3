"""What evictions in a domain cost at least, and all choices of a few: the bound is never above the cost."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from extender.eviction.search.choosing import Trial
from extender.eviction.search.room import MOST_PIECES, Clearing, ColumnRequest, VictimRoomRequest, bounds, choices
from extender.eviction.search.units import Units
from extender.placement.candidates import PlacementTerms
from tests.eviction.search.clusters import Site, full, gang, racks, required


def asked(site: Site, pods: int, gpus: int, terms: PlacementTerms) -> tuple[Trial, Units]:
    """Return what a search works with."""
    return site.trial(gang(pods, gpus), terms)


def lowest(trial: Trial, units: Units, usable: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the bound of each rack."""
    path = trial.tree.path(trial.level)
    return bounds(Clearing(units, trial.free), trial.demands, path, int(path.max()) + 1, usable)


def all_choices(trial: Trial, units: Units, usable: NDArray[np.bool_]) -> list[NDArray[np.bool_]] | None:
    """Return the choices that make room in some rack, the cheapest first."""
    found = choices(
        units, usable, trial.free, trial.demands, tree=trial.tree, level=trial.level, reachable=trial.reachable
    )
    return None if found is None else list(found)


def test_no_choice_costs_less_than_the_least_bound() -> None:
    """Whatever makes room in a rack costs at least the bound of some rack; without a choice no rack has one."""
    compared = 0
    for seed in range(40):
        random = Random(seed)
        site = full(random, racks(random.randint(1, 3), 2), random.randint(1, 6))
        trial, units = asked(site, random.randint(1, 4), random.choice((1, 4, 8)), required("rack"))
        everybody = np.ones(len(units), dtype=np.bool_)
        found, bound = all_choices(trial, units, everybody), lowest(trial, units, everybody)
        assert found is not None
        extras = float(units.weight[~units.core].sum())  # go with their gang for nothing, which the bound does not know
        assert all(units.price(chosen) + extras >= bound.min() - 1e-6 for chosen in found)
        assert all(trial.holds(Clearing(units, trial.free, chosen)) for chosen in found)
        assert [units.cost(chosen) for chosen in found] == sorted(units.cost(chosen) for chosen in found)
        compared += len(found)
        if np.isinf(bound).all():
            assert found == []
    assert compared > 100


def test_a_bound_counts_pieces_in_part() -> None:
    """Half of what the cheapest gang frees costs half of it; what nobody can free costs without end."""
    site = Site(racks(2, 1))
    site.run("one", [("r0-0", 8)], seconds=1.0)
    site.run("two", [("r1-0", 2)], seconds=1.0)
    trial, units = asked(site, 1, 4, required("rack"))
    everybody = np.ones(len(units), dtype=np.bool_)
    assert np.allclose(lowest(trial, units, everybody), [units.weight[0] / 2, 0.0])
    assert np.isinf(lowest(trial, units, ~everybody)).tolist() == [True, False]
    assert bounds(Clearing(units, trial.free), trial.demands, np.full(2, -1), 0, everybody).tolist() == []
    asked_of_nothing, none = asked(Site(racks(1, 1)), 9, 1, required("rack"))
    assert np.isinf(lowest(asked_of_nothing, none, np.zeros(0, dtype=np.bool_))).tolist() == [True]


def test_too_many_pieces_are_left_to_others() -> None:
    """More pieces than can be tried in all ways are not tried."""
    site = Site(racks(1, 4))
    for number in range(MOST_PIECES + 1):
        site.run(f"job-{number}", [(f"r0-{number % 4}", 1)])
    trial, units = asked(site, 1, 8, required("rack"))
    everybody = np.ones(len(units), dtype=np.bool_)
    assert all_choices(trial, units, everybody) is None
    everybody[0] = False
    assert all_choices(trial, units, everybody) is not None


@pytest.mark.parametrize(("free", "usable"), [((8, 4, 3), [8, 3, 3]), ((7, 4, 0), [6, 3, 0]), ((-1, 2, 5), [0, 0, 5])])
def test_what_pods_of_two_shapes_can_use(free: tuple[int, ...], usable: list[int]) -> None:
    """On each node it is the greatest sum of what they ask for that is no more than is free."""
    everywhere = np.ones(3, dtype=np.bool_)
    demands = [VictimRoomRequest(np.array([gpus]), everywhere, pods) for gpus, pods in ((3, 2), (5, 1))]
    together = ColumnRequest(demands, 0)
    assert together.wanted == 11
    assert together.caps(np.array([free]), np.arange(3)).tolist() == usable


def test_what_can_be_used_hangs_on_who_is_admitted_and_is_all_of_very_much() -> None:
    """A node that admits only some shapes is used by these alone; very much that is free counts whole."""
    admitted = [np.array([True, True, False]), np.array([True, False, False])]
    demands = [VictimRoomRequest(np.array([gpus << 30]), admitted[at], 1) for at, gpus in enumerate((3, 5))]
    together = ColumnRequest(demands, 0)
    assert together.wanted == 8
    assert together.caps(np.array([[11, 11, 11]]) << 30, np.arange(3)).tolist() == [11, 9, 0]
    assert together.caps(np.array([[1_000_001]]) << 30, np.array([0])).tolist() == [1_000_001]


def test_shapes_that_fit_only_without_each_other_have_no_room() -> None:
    """A pod of eight GPUs or two of four fit on a node that is cleared, and not both."""
    site = Site(racks(2, 1))
    site.run("one", [("r0-0", 8)])
    site.run("two", [("r1-0", 8)])
    trial, units = site.trial([*gang(1, 8), *gang(2, 4, "other")])
    choices_of_two = (np.array(chosen, dtype=np.bool_) for chosen in ((1, 0), (0, 1), (1, 1)))
    holding = [trial.holds(Clearing(units, trial.free, chosen)) for chosen in choices_of_two]
    assert holding == [False, False, True]


def test_counting_never_denies_what_a_plan_finds() -> None:
    """Whenever pods of two or three shapes can be placed once pieces have left, the columns have room for them."""
    outcomes = {(True, True): 0, (True, False): 0, (False, False): 0, (False, True): 0}
    for seed in range(60):
        random = Random(seed)
        site = full(random, racks(random.randint(1, 3), random.randint(1, 3)), random.randint(2, 12))
        sizes = random.sample((1, 2, 3, 4, 5, 8), random.randint(2, 3))
        pods = [pod for size in sizes for pod in gang(random.randint(1, 4), size, f"of-{size}")]
        trial, units = site.trial(pods, required(random.choice(("", "rack", "block"))))
        for _ in range(10):
            chosen = np.array([random.random() < 0.7 for _ in range(len(units))])
            for core in np.flatnonzero(chosen & units.core).tolist():
                chosen[units.extras(core)] = True
            outcomes[trial.holds(Clearing(units, trial.free, chosen)), trial.fits(units, chosen)] += 1
    assert outcomes[False, True] == 0
    assert outcomes[True, True] > 50
    assert outcomes[False, False] > 10 * outcomes[True, False]
