"""The bandwidth model: which part of a ring is the slowest, and by how much."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.hardware.bandwidth import (
    NO_COMMUNICATION,
    IslandUse,
    bus_bandwidth,
    contribution,
    step,
)
from extender.objects.topology import Objective

FLAT = (1.0, 1.0)
ALLREDUCE, ALLTOALL, NONE = Objective.ALLREDUCE, Objective.ALLTOALL, Objective.NONE


def h100(gpus: int) -> IslandUse:
    """Return so many GPUs of an HGX H100 with eight 400 Gb/s NICs."""
    return IslandUse(
        inner={8: 475.0, 4: 365.0, 7: 460.0}.get(gpus, math.inf), outer=47.0 * gpus, nic=50, gpus=gpus, nvls=True
    )


rates = st.floats(min_value=0.5, max_value=2000, allow_nan=False)
shares = st.floats(min_value=0.01, max_value=1.5)
objectives = st.sampled_from([ALLREDUCE, ALLTOALL, NONE])
uses = st.builds(
    IslandUse, inner=rates, outer=rates, nic=rates, gpus=st.integers(1, 72), nvls=st.booleans(), clique=st.booleans()
)


def test_one_island_is_as_fast_as_its_nvlink() -> None:
    """Eight GPUs of one H100 node: 475 GB/s."""
    assert bus_bandwidth([h100(8)], FLAT, ALLREDUCE) == 475


def test_a_split_of_four_and_four_beats_seven_and_one() -> None:
    """4+4 on two nodes reach 329 GB/s; 7+1 only 82, because one GPU has one NIC."""
    assert bus_bandwidth([h100(4), h100(4)], FLAT, ALLREDUCE) == pytest.approx(4 * 47 * 2 * 7 / 8)
    assert bus_bandwidth([h100(7), h100(1)], FLAT, ALLREDUCE) == pytest.approx(47 * 2 * 7 / 8)


def test_two_nodes_with_nvlink_sharp_exceed_their_network() -> None:
    """Two full H100 nodes are bound by NVLink, four by the network; two A100 nodes are bound by the network too."""
    a100 = IslandUse(inner=230, outer=94, nic=25, gpus=8)
    assert bus_bandwidth([h100(8)] * 2, FLAT, ALLREDUCE) == 475
    assert bus_bandwidth([h100(8)] * 4, FLAT, ALLREDUCE) == 376
    assert bus_bandwidth([a100] * 2, FLAT, ALLREDUCE) == 94


def test_the_tier_factor_is_felt_only_where_the_network_is_the_bound() -> None:
    """Crossing the core costs two H100 nodes nothing, eight of them 17 %."""
    core = (0.83, 0.30)
    assert bus_bandwidth([h100(8)] * 2, core, ALLREDUCE) == 475
    assert bus_bandwidth([h100(8)] * 8, core, ALLREDUCE) == pytest.approx(376 * 0.83)


def test_cliques_lose_a_little_in_twos_and_half_beyond() -> None:
    """Two GB200 racks keep 0.96 of one rack's bandwidth, twenty keep half."""
    rack = IslandUse(inner=835, outer=72 * 47, nic=50, gpus=72, nvls=True, clique=True)
    assert bus_bandwidth([rack], FLAT, ALLREDUCE) == 835
    assert bus_bandwidth([rack] * 2, FLAT, ALLREDUCE) == pytest.approx(835 * 0.96)
    assert bus_bandwidth([rack] * 20, FLAT, ALLREDUCE) == pytest.approx(835 * 0.5)
    assert bus_bandwidth([replace(rack, outer=188.0)] * 2, FLAT, ALLREDUCE) == 188


def test_an_all_to_all_sees_one_nic() -> None:
    """Between nodes each GPU sends through its own NIC: 50 GB/s less what the tier takes."""
    assert bus_bandwidth([h100(8)] * 2, (0.95, 0.6), ALLTOALL) == 30
    assert bus_bandwidth([h100(8)], (0.95, 0.6), ALLTOALL) == 475


def test_without_an_objective_every_placement_is_alike() -> None:
    """With objective `none` one node is no better than two."""
    assert bus_bandwidth([h100(8)], FLAT, NONE) == math.inf
    assert bus_bandwidth([h100(4), h100(4)], FLAT, NONE) == math.inf


@pytest.mark.parametrize("islands", [[], [IslandUse(math.inf, 47, 50, 1)]], ids=["nobody", "one GPU"])
def test_fewer_than_two_gpus_communicate_with_nobody(islands: list[IslandUse]) -> None:
    """There is no bandwidth to predict."""
    assert bus_bandwidth(islands, FLAT, ALLREDUCE) is None


@given(use=uses, more=rates, islands=st.integers(1, 20), factor=shares, objective=objectives)
def test_more_bandwidth_in_gives_no_less_out(
    use: IslandUse, more: float, islands: int, factor: float, objective: Objective
) -> None:
    """A faster NVLink, network, NIC or tier never lowers the prediction."""
    gpus = max(2, islands * use.gpus)
    before = contribution(use, islands, gpus, (factor, factor), objective)
    for better in (
        replace(use, inner=use.inner + more),
        replace(use, outer=use.outer + more),
        replace(use, nic=use.nic + more),
    ):
        assert contribution(better, islands, gpus, (factor, factor), objective) >= before
    assert contribution(use, islands, gpus, (2 * factor, 2 * factor), objective) >= before


@given(first=st.lists(uses, min_size=2, max_size=6), objective=objectives)
def test_a_gang_is_as_fast_as_its_slowest_island(first: list[IslandUse], objective: Objective) -> None:
    """The prediction is one of the contributions, and none is lower; the order of islands does not matter."""
    predicted = bus_bandwidth(first, FLAT, objective)
    gpus = sum(use.gpus for use in first)
    parts = [contribution(use, len(first), gpus, FLAT, objective) for use in first]
    assert predicted == min(parts)
    assert bus_bandwidth(first[::-1], FLAT, objective) == predicted


@given(low=rates, ratio=st.floats(min_value=1, max_value=3))
def test_steps_are_monotone_and_five_percent_wide(low: float, ratio: float) -> None:
    """More bandwidth is never a lower step; what differs by less than 5 % is at most one step apart."""
    assert step(low * ratio) >= step(low)
    assert step(low * min(ratio, 1.0499)) - step(low) <= 1
    assert step(max(low, 1) * 1.05**2) - step(max(low, 1)) in {1, 2, 3}


@pytest.mark.parametrize(
    ("gbps", "expected"), [(0.0, 0), (0.3, 0), (1.05, 1), (1.05**60, 60), (math.inf, NO_COMMUNICATION)]
)
def test_the_ends_of_the_steps(gbps: float, expected: int) -> None:
    """Nothing is step 0, no communication is above all others, rounding does not move an exact power down."""
    assert step(gbps) == expected
