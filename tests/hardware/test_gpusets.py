"""Which GPUs of a node to give out: the machines of go-gpuallocator's tests, partitions, zones, brute force."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.hardware.gpusets import Alignment, GpuLayout, GpuSets, mask_of, members
from extender.hardware.links import LinkMatrix
from tests.hardware.machines import HALVES, RTX_8000, dgx1_pascal, h100, product, v100


def given_out(sets: GpuSets, size: int, times: int) -> list[tuple[int, ...]]:
    """Return the sets that so many pods of `size` GPUs get, one after the other."""
    free, found = sets.all, []
    for _ in range(times):
        chosen = sets.choose(free, size)
        assert chosen is not None
        assert not chosen & ~free
        found.append(members(chosen))
        free &= ~chosen
    return found


def test_bridged_pairs_first() -> None:
    """On four RTX 8000 with bridges on 0-3 and 1-2, pods of two GPUs get these pairs, though sockets say otherwise."""
    sets = GpuSets(GpuLayout(4, None, RTX_8000))
    assert given_out(sets, 2, 2) == [(0, 3), (1, 2)]
    assert given_out(sets, 4, 1) == [(0, 1, 2, 3)]


def test_cube_mesh_of_the_dgx1_with_pascal() -> None:
    """On a DGX-1 with P100 pods of two GPUs get a switch, pods of four a quad; pods of one use switches up."""
    sets = GpuSets(GpuLayout(8, None, dgx1_pascal()))
    assert given_out(sets, 1, 8) == [(gpu,) for gpu in (0, 2, 1, 3, 4, 6, 5, 7)]
    assert given_out(sets, 2, 4) == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert given_out(sets, 4, 2) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert given_out(sets, 8, 1) == [tuple(range(8))]


def test_mesh_of_the_dgx1_with_volta() -> None:
    """On a DGX-1 with V100 pods of two GPUs get those with two NVLinks in one quad, pods of four a quad."""
    sets = v100()
    assert given_out(sets, 1, 8) == [(gpu,) for gpu in range(8)]
    assert given_out(sets, 2, 4) == [(0, 3), (1, 2), (4, 7), (5, 6)]
    assert given_out(sets, 4, 2) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert given_out(sets, 8, 1) == [tuple(range(8))]


@pytest.mark.parametrize(
    ("free", "expected"),
    [((0, 4, 5, 6), (5, 6)), ((0, 3, 1), (0, 3)), ((0, 1, 4), (0, 4)), ((0, 2, 4, 5), (0, 4))],
)
def test_pairs_of_what_is_left_on_a_dgx1(free: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Two NVLinks go before one, then one socket before two.

    The last case is where go-gpuallocator takes 4-5 on one switch, as the sum over both pairs is higher then; 0-4 has
    twice the bandwidth, and GB/s are what is chosen for.
    """
    chosen = v100().choose(mask_of(free), 2)
    assert chosen is not None
    assert members(chosen) == expected


@pytest.mark.parametrize(("size", "expected"), [(1, (4,)), (2, (4, 7)), (4, (4, 5, 6, 7))])
def test_required_gpus_are_among_the_chosen(size: int, expected: tuple[int, ...]) -> None:
    """A set that must contain GPU 4 is the best of those that do."""
    sets = v100()
    chosen = sets.choose(sets.all, size, required=1 << 4)
    assert chosen is not None
    assert members(chosen) == expected


@pytest.mark.parametrize(
    ("free", "required", "size"),
    [((1, 2, 3), (0, 1), 4), ((1, 2, 3), (0,), 2), (range(8), (1, 2, 3, 4, 5, 6), 4), ((), (), 1), (range(8), (), 9)],
)
def test_nothing_is_chosen_where_nothing_can_be(free: tuple[int, ...], required: tuple[int, ...], size: int) -> None:
    """Too few free GPUs, required ones that are not free or too many, give no set."""
    assert v100().choose(mask_of(free), size, required=mask_of(required)) is None


def test_zero_gpus_are_no_set() -> None:
    """Nobody can ask for the best set of no GPUs."""
    assert v100().choose(255, 0) is None


def test_single_gpus_leave_the_best_rest() -> None:
    """A pod of one GPU gets the one whose absence costs least: beside a broken pair, not out of a whole one."""
    sets = GpuSets(GpuLayout(4, None, RTX_8000))
    assert sets.choose(mask_of((0, 1, 2)), 1) == 1 << 0
    assert sets.choose(mask_of((0, 1, 3)), 1) == 1 << 1
    assert h100().choose(mask_of((1, 2, 3, 4, 5, 6, 7)), 1) == 1 << 1
    assert h100().choose(mask_of((0, 1, 2, 3, 6, 7)), 1) == 1 << 6


def test_halves_of_a_flat_board_stay_whole() -> None:
    """On NVSwitch any pair is as fast as any other: the one is taken that leaves a NUMA half whole."""
    sets = h100()
    assert given_out(sets, 4, 2) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    chosen = sets.choose(mask_of((0, 1, 4, 5, 6, 7)), 2)
    assert chosen == mask_of((0, 1))
    assert sets.choose(mask_of((0, 1, 4, 5, 6, 7)), 4) == mask_of((4, 5, 6, 7))


def test_allowed_gpus_bound_the_choice() -> None:
    """Only GPUs of the zone that the kubelet has chosen are given out, but what is left counts as a whole."""
    sets = h100()
    assert sets.choose(sets.all, 2, sets.zone_mask(1)) == mask_of((4, 5))
    assert sets.choose(mask_of((0, 4, 5, 6, 7)), 2, sets.zone_mask(0)) is None
    assert sets.zone_mask(7) == 0
    assert sets.zones_of(mask_of((3, 4))) == (0, 1)


def test_value_is_what_future_requests_could_get() -> None:
    """The value of a whole HGX board is four pairs, two quads and one eight; each at its bandwidth."""
    sets = h100()
    assert sets.value(sets.all) == 4 * 365 + 2 * 365 + 475
    assert sets.value(mask_of(range(4))) == 2 * 365 + 365
    assert sets.value(1) == sets.value(0) == 0
    assert v100().value(255) == 4 * 40 + 2 * 80 + 120


def test_value_of_a_board_that_is_no_power_of_two() -> None:
    """All GPUs together are a size of their own."""
    sets = GpuSets(GpuLayout(6))
    assert sets.value(sets.all) == 3 * 100 + 100 + 100
    assert GpuSets(GpuLayout(1)).value(1) == 0


def test_restricted_zones_decide_what_is_worth_something() -> None:
    """Under `restricted` quads that span zones are worth nothing, and a broken half loses its quad; the eight stays."""
    sets = h100(alignment=Alignment.NARROWEST)
    assert sets.value(mask_of((0, 1, 4, 5))) == 2 * 365
    assert h100().value(mask_of((0, 1, 4, 5))) == 2 * 365 + 365
    assert sets.value(sets.all) == h100().value(sets.all)
    assert sets.choose(mask_of((0, 1, 4, 5, 6, 7)), 1) == 1 << 0


def test_single_zone_boards_never_have_an_eight() -> None:
    """Under `single-numa-node` no set spans zones, so an eight is worth nothing."""
    sets = h100(alignment=Alignment.ONE_ZONE)
    assert sets.value(sets.all) == 4 * 365 + 2 * 365


PARTITIONS = tuple(map(frozenset, ((0, 1), (2, 3), (4, 5), (6, 7), (0, 1, 2, 3), (4, 5, 6, 7), range(8))))


def test_honoured_partitions_are_all_there_is() -> None:
    """Where the fabric manager's partitions are honoured, only whole ones are given out, and single GPUs."""
    sets = h100(partitions=PARTITIONS, honor=True)
    assert sets.choose(mask_of((1, 2, 4, 5)), 2) == mask_of((4, 5))
    assert sets.choose(mask_of((1, 2)), 2) is None
    assert sets.choose(sets.all, 3) is None
    assert sets.choose(mask_of((0, 1, 2, 4, 5)), 1) == 1 << 2
    assert sets.value(mask_of((1, 2, 3, 4))) == 365


def test_preferred_partitions_go_first() -> None:
    """Where partitions are only preferred, they go before other sets, which are given out when there is none."""
    sets = h100(partitions=(*PARTITIONS, frozenset({8, 9})), zones=())
    assert sets.choose(mask_of((1, 2, 3)), 2) == mask_of((2, 3))
    assert sets.choose(mask_of((1, 2)), 2) == mask_of((1, 2))
    assert sets.choose(mask_of((1, 2, 3)), 3) == mask_of((1, 2, 3))
    assert sets.value(mask_of((1, 2))) == 0
    assert sets.value(mask_of((2, 3))) == 365


def test_sixteen_gpus_take_bounded_work() -> None:
    """A board of 16 GPUs is worked out by its islands: halves stay whole, and what is asked for is given."""
    sets = GpuSets(GpuLayout(16, product("NVIDIA-L40S", 16), zones=(0,) * 8 + (1,) * 8))
    assert given_out(sets, 8, 2) == [tuple(range(8)), tuple(range(8, 16))]
    assert given_out(sets, 4, 4) == [tuple(range(start, start + 4)) for start in (0, 4, 8, 12)]
    assert given_out(sets, 6, 1) == [tuple(range(6))]
    assert sets.choose(mask_of((0, 1, 2, *range(8, 16))), 2) == mask_of((0, 1))
    assert sets.value(sets.all) == 8 * 20 + 4 * 20 + 2 * 20 + 20


def test_partitions_of_a_large_board() -> None:
    """Partitions are considered on large boards, too."""
    odd = frozenset({1, 9})
    sets = GpuSets(GpuLayout(16, product("NVIDIA-L40S", 16), partitions=(odd,), honor=True))
    assert sets.choose(sets.all, 2) == mask_of(odd)
    assert sets.value(sets.all) == 20
    assert sets.value(sets.all & ~2) == 0


@st.composite
def layouts(draw: st.DrawFn) -> GpuLayout:
    """Draw boards of up to six GPUs with links of all kinds, some with zones, partitions and policies."""
    gpus = draw(st.integers(1, 6))
    pairs = {pair: draw(st.sampled_from([10, 20, 50, 110, 210, 230])) for pair in combinations(range(gpus), 2)}
    scores = tuple(tuple(pairs.get((min(i, j), max(i, j)), 0) for j in range(gpus)) for i in range(gpus))
    subsets = [frozenset(some) for size in (2, 3) for some in combinations(range(gpus), size)]
    return GpuLayout(
        gpus,
        draw(st.sampled_from([None, product("Tesla-V100-SXM2-32GB", gpus), product("NVIDIA-A100-PCIE-40GB", gpus)])),
        draw(st.sampled_from([None, LinkMatrix(scores)])),
        tuple(draw(st.lists(st.sampled_from(subsets), unique=True, max_size=3))) if subsets else (),
        draw(st.sampled_from([(), HALVES[:gpus], tuple(gpu % 2 for gpu in range(gpus))])),
        draw(st.booleans()),
        draw(st.sampled_from(Alignment)),
    )


def worth(sets: GpuSets, free: int) -> float:
    """Return the value of the free GPUs by trying every way to split them."""
    layout = sets.layout
    zones = [mask_of([g for g, z in enumerate(layout.zones) if z == zone]) for zone in set(layout.zones)]
    sizes = {size for size in (2, 4, layout.gpus) if 1 < size <= layout.gpus}

    def counts(some: int, size: int) -> bool:
        of_size = [mask_of(each) for each in layout.partitions if len(each) == size]
        if layout.partitions and some not in of_size:
            return not of_size and not layout.honor
        within = any(not some & ~zone for zone in zones)
        widest = max((zone.bit_count() for zone in zones), default=0)
        wide = layout.alignment is Alignment.NARROWEST and size > widest
        return layout.alignment is Alignment.NONE or not zones or within or wide

    def best(rest: int, size: int) -> float:
        every = (mask_of(some) for some in combinations(members(rest), size))
        return max((sets.inner(some) + best(rest & ~some, size) for some in every if counts(some, size)), default=0.0)

    return sum(best(free, size) for size in sizes)


@given(layouts(), st.data())
def test_value_agrees_with_brute_force(layout: GpuLayout, data: st.DataObject) -> None:
    """The value is that of the best way to split the free GPUs, for every size."""
    sets = GpuSets(layout)
    free = data.draw(st.integers(0, sets.all))
    assert sets.value(free) == pytest.approx(worth(sets, free), abs=1e-4)


@given(layouts(), st.data())
def test_choice_agrees_with_brute_force(layout: GpuLayout, data: st.DataObject) -> None:
    """No set of that size is faster, and none as fast leaves more behind."""
    sets = GpuSets(layout)
    free = data.draw(st.integers(0, sets.all))
    size = data.draw(st.integers(1, layout.gpus))
    honoured = layout.honor and layout.partitions and size > 1
    every = [mask_of(some) for some in combinations(members(free), size)]
    if honoured:
        every = [some for some in every if frozenset(members(some)) in layout.partitions]
    chosen = sets.choose(free, size)
    if chosen is None:
        assert not every
        return
    assert chosen in every
    best = max((sets.inner(some), worth(sets, free & ~some)) for some in every)
    assert (sets.inner(chosen), worth(sets, free & ~chosen)) == pytest.approx(best, abs=1e-4)
