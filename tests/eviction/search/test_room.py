"""What evictions in a domain cost at least, and all choices of a few: the bound is never above the cost."""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from extender.eviction.search.choosing import Trial
from extender.eviction.search.room import MOST_PIECES, Clearing, bounds, choices
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
