"""Plan: a set of pods is placed whole, or not at all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.objects.keys import Packing
from extender.objects.meta import Selector
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.placement.candidates import PlacementTerms, group_by_shape
from extender.placement.plan import Plan, Shortfall, plan, plan_anywhere
from tests.cluster.conftest import GPU, node, pod, shape, table_of
from tests.placement.conftest import (
    SHAPES,
    THOROUGH,
    TOLERATES,
    ZONE_A,
    ZONE_B,
    admits,
    check_placement,
    ground_of,
    nodes,
    room,
    tables,
)


def planned(table: NodeTable, pods: Sequence[Pod], packing: Packing = Packing.BINPACK) -> Plan | Shortfall:
    """Plan on what is free in the table."""
    return plan(pods, WhatIf(table), ground_of(table), PlacementTerms(packing))


def chosen(table: NodeTable, pods: Sequence[Pod], packing: Packing = Packing.BINPACK) -> dict[str, str]:
    """Return pod name -> node name of a plan that succeeds."""
    result = planned(table, pods, packing)
    assert isinstance(result, Plan)
    return {each.name: result.nodes[each.uid] for each in pods}


def nodes_of(result: Plan | Shortfall) -> dict[str, str]:
    """Return pod UID -> node name of a plan that succeeded."""
    assert isinstance(result, Plan)
    return result.nodes


def workers(count: int, gpus: int = 8, name: str = "w") -> list[Pod]:
    """Return equal pods `w-0`, `w-1`, ..."""
    return [pod(f"{name}-{index}", gpus) for index in range(count)]


@st.composite
def gangs(draw: st.DrawFn, *, shapes: int = 3, most: int = 5) -> list[Pod]:
    """Draw a gang of up to `most` pods of up to `shapes` shapes."""
    available = draw(st.lists(SHAPES, min_size=1, max_size=shapes))
    picked = draw(st.lists(st.sampled_from(available), min_size=1, max_size=most))
    return [pod(f"m-{index}", shape=each) for index, each in enumerate(picked)]


def most_that_fit(table: NodeTable, pods: Sequence[Pod]) -> int:
    """Return how many of the pods can be placed at once, by trying every assignment of a node or none to each."""
    best = 0
    names = [each.name for each in table.nodes()]
    options = [[None, *(n for n in names if admits(table, n, each.shape))] for each in pods]
    free = {n: dict(zip(table.resources, table.free()[:, table.row(n)].tolist(), strict=True)) for n in names}
    for way in itertools.product(*options):
        placed = [(n, each) for n, each in zip(way, pods, strict=True) if n is not None]
        if len(placed) > best and all(
            sum(each.shape.request(r) for n, each in placed if n == name) <= max(free[name].get(r, 0), 0)
            for name in names
            for r in ("cpu", GPU, "pods")
        ):
            best = len(placed)
    return best


# ----------------------------------------------------------------------------------------------------------- properties


@THOROUGH
@given(tables(), gangs(most=8), st.sampled_from(Packing))
def test_plan_is_whole_and_fits(table: NodeTable, pods: list[Pod], packing: Packing) -> None:
    """A plan gives every pod a node that admits it and has the room; otherwise nothing is taken at all."""
    whatif = WhatIf(table)
    result = plan(pods, whatif, ground_of(table), PlacementTerms(packing))
    if isinstance(result, Plan):
        check_placement(table, pods, result.nodes)
        taken = table.free() - whatif.free
        for index, resource in enumerate(table.resources):
            assert taken[index].sum() == sum(each.shape.request(resource) for each in pods)
    else:
        assert 0 <= result.fits < result.needed == len(pods)
        assert np.array_equal(whatif.free, table.free())


@THOROUGH
@given(tables(), SHAPES, st.integers(1, 12), st.sampled_from(Packing))
def test_equal_pods_are_placed_whenever_they_fit(table: NodeTable, each: Shape, count: int, packing: Packing) -> None:
    """For pods of one shape the plan is complete: it exists exactly if the nodes have that much room together."""
    pods = [pod(f"m-{index}", shape=each) for index in range(count)]
    capacity = sum(room(table, n.name, each) for n in table.nodes() if admits(table, n.name, each))
    result = planned(table, pods, packing)
    assert isinstance(result, Plan) == (capacity >= count)
    if isinstance(result, Shortfall):
        assert result == Shortfall(needed=count, fits=capacity)


@THOROUGH
@given(tables(), gangs(most=6))
def test_a_place_anywhere_is_found_exactly_where_there_is_one(table: NodeTable, pods: list[Pod]) -> None:
    """Where pods go is of no interest then, but that all of them have room is true, and that they have not as well."""
    ground, terms = ground_of(table), PlacementTerms(Packing.BINPACK)
    result, best = plan_anywhere(pods, WhatIf(table), ground, terms), plan(pods, WhatIf(table), ground, terms)
    assert isinstance(result, Plan) == isinstance(best, Plan)
    if isinstance(result, Plan):
        check_placement(table, pods, result.nodes)


@THOROUGH
@given(tables(), gangs(most=4), st.sampled_from(Packing))
def test_shortfall_never_overstates(table: NodeTable, pods: list[Pod], packing: Packing) -> None:
    """What a failed plan says would fit does fit, and a plan succeeds only where brute force does."""
    best = most_that_fit(table, pods)
    result = planned(table, pods, packing)
    if isinstance(result, Plan):
        assert best == len(pods)
    else:
        assert result.fits <= best


@THOROUGH
@given(nodes(), gangs(most=6), st.sampled_from(Packing), st.data())
def test_plan_does_not_depend_on_history(
    found: list[Node], pods: list[Pod], packing: Packing, data: st.DataObject
) -> None:
    """Whatever order nodes came in, and whatever came and went before, the same pods get the same nodes."""
    table = table_of(found)
    other = NodeTable()
    for each in data.draw(st.permutations(found)):
        other.upsert(node("gone", gpus=8))
        other.upsert(each)
        if data.draw(st.booleans()):
            other.remove("gone")
    other.remove("gone")
    assert planned(table, pods, packing) == planned(other, pods, packing)


@THOROUGH
@given(nodes(plain=True, max_gpus=1), st.integers(1, 8))
def test_binpack_of_equal_pods_uses_the_fewest_nodes(found: list[Node], count: int) -> None:
    """Of pods without GPUs, where no node loses anything else, no other set of nodes that holds them is smaller."""
    table = table_of(plain := [each for each in found if not each.allocatable.get(GPU)])
    pods = workers(count, gpus=0)
    result = planned(table, pods)
    assume(isinstance(result, Plan))
    assert isinstance(result, Plan)
    capacities = [room(table, each.name, shape()) for each in plain]
    fewest = min(
        size
        for size in range(1, len(capacities) + 1)
        if any(sum(some) >= count for some in itertools.combinations(capacities, size))
    )
    assert len(set(result.nodes.values())) == fewest


@THOROUGH
@given(nodes(plain=True, max_cpu=3), st.integers(1, 4), st.integers(1, 2), st.integers(1, 3))
def test_launcher_strands_no_gpus_without_need(found: list[Node], count: int, gpus: int, cpus: int) -> None:
    """A CPU-only member goes to a node of the gang, else to a CPU node, to another GPU node only if both are full."""
    table = table_of(found)
    launcher = pod("launcher", cpu=1000 * cpus)
    pods = [launcher, *workers(count, gpus)]
    result = planned(table, pods)
    assume(isinstance(result, Plan))
    assert isinstance(result, Plan)
    for each in pods[1:]:
        table.claim(each.uid, result.nodes[each.uid], each.shape)
    used = {result.nodes[each.uid] for each in pods[1:]}
    open_nodes = [each for each in found if room(table, each.name, launcher.shape)]
    there = result.nodes[launcher.uid]
    if any(each.name in used for each in open_nodes):
        assert there in used
    elif any(not each.allocatable.get(GPU) for each in open_nodes):
        assert there in {each.name for each in found if not each.allocatable.get(GPU)}


# ------------------------------------------------------------------------------------------------------------ specimens


def test_ranks_are_neighbours() -> None:
    """Members go to nodes in the order of their names: neighbouring ranks share a node or sit on neighbouring ones."""
    table = table_of(node(name, gpus=4) for name in ("node-10", "node-9", "node-11"))
    assert chosen(table, workers(12, gpus=1)) == {f"w-{i}": f"node-{9 + i // 4}" for i in range(12)}


def test_spread_uses_as_many_nodes_as_there_are() -> None:
    """Spread gives each node about the same number of members."""
    table = table_of(node(f"node-{index}", gpus=8) for index in range(4))
    spread = chosen(table, workers(6, gpus=1), Packing.SPREAD)
    assert sorted(spread.values()) == ["node-0", "node-0", "node-1", "node-1", "node-2", "node-3"]


def test_single_small_gangs_fill_the_fullest_node() -> None:
    """A gang that fits on one node goes to the node with the least room that holds it, not to the first."""
    table = table_of(node(f"node-{index}", gpus=8) for index in range(3))
    table.claim("other", "node-1", Shape(((GPU, 6),)))
    assert set(chosen(table, workers(2, gpus=1)).values()) == {"node-1"}


def test_spread_of_a_small_gang_takes_the_emptiest_nodes() -> None:
    """A gang that any few nodes would hold spreads over those with the most room, not over the first."""
    table = table_of(node(f"node-{index}", gpus=8) for index in range(4))
    for name in ("node-0", "node-2"):
        table.claim(f"other-{name}", name, Shape(((GPU, 4),)))
    assert set(chosen(table, workers(2, gpus=1), Packing.SPREAD).values()) == {"node-1", "node-3"}


def test_launcher_joins_the_workers() -> None:
    """A CPU-only launcher goes to a node that the gang uses anyway, although CPU nodes are free."""
    table = table_of([node("cpu"), node("gpu-1", gpus=8), node("gpu-2", gpus=8)])
    assert chosen(table, [pod("launcher"), *workers(1)])["launcher"] == "gpu-1"


def test_launcher_goes_to_a_cpu_node_when_the_workers_have_no_room() -> None:
    """A launcher without room beside the workers goes to a CPU node, GPU nodes being tighter or not."""
    gpu_nodes = [node("gpu-1", gpus=8, cpu=8000), node("gpu-2", gpus=8, cpu=2000)]
    table = table_of([*gpu_nodes, node("cpu", cpu=64_000)])
    placed = chosen(table, [pod("launcher", cpu=2000), pod("w-0", gpus=8, cpu=8000)])
    assert placed == {"launcher": "cpu", "w-0": "gpu-1"}


def test_spread_keeps_off_the_nodes_in_use_and_off_gpus() -> None:
    """Under spread a launcher goes to a CPU node; without one, to a node that the workers leave alone."""
    pods = [pod("launcher"), *workers(2, gpus=1)]
    gpu_nodes = [node("gpu-0", gpus=8), node("gpu-1", gpus=8), node("gpu-2", gpus=1, cpu=8000)]
    assert chosen(table_of([*gpu_nodes, node("cpu", cpu=2000)]), pods, Packing.SPREAD)["launcher"] == "cpu"
    assert chosen(table_of(gpu_nodes), pods, Packing.SPREAD)["launcher"] == "gpu-2"


def test_most_demanding_shape_goes_first() -> None:
    """Large members are placed before small ones could break up the nodes they need."""
    table = table_of([node("a", gpus=8), node("b", gpus=4)])
    placed = chosen(table, [*workers(4, gpus=1, name="a-small"), pod("z-large", gpus=8)])
    assert placed["z-large"] == "a"
    assert {placed[f"a-small-{index}"] for index in range(4)} == {"b"}


def test_most_restricted_shape_goes_first_in_a_second_attempt() -> None:
    """Where large members would take the only nodes that restricted ones may use, those go first."""
    table = table_of([node("a", gpus=2, labels={"zone": "a"}), node("b", gpus=4, labels={"zone": "b"})])
    pods = [pod("any", gpus=2), pod("only-a", shape=shape(1, selector=ZONE_A))]
    assert chosen(table, pods) == {"any": "b", "only-a": "a"}


def test_better_attempt_is_reported() -> None:
    """Where no attempt succeeds, the shortfall is that of the attempt that came further."""
    table = table_of([node("a", gpus=2, labels={"zone": "a"}), node("b", gpus=1, labels={"zone": "b"})])
    pods = [pod("any", gpus=2), *(pod(f"only-a-{index}", shape=shape(1, selector=ZONE_A)) for index in range(2))]
    assert planned(table, pods) == Shortfall(needed=3, fits=2)


def test_pods_that_no_node_admits_fit_nowhere() -> None:
    """The others count all the same."""
    table = table_of([node("a", gpus=8, labels={"zone": "a"})])
    stuck = pod("stuck", shape=shape(1, selector=ZONE_B))
    twin = pod("twin", shape=shape(1, selector=ZONE_B, tolerations=TOLERATES))
    assert planned(table, [*workers(1), stuck]) == Shortfall(needed=2, fits=1)
    assert planned(table, [stuck, twin]) == Shortfall(needed=2, fits=0)
    assert planned(table, workers(1, gpus=9)) == Shortfall(needed=1, fits=0)


def test_resource_that_no_node_has_fits_nowhere() -> None:
    """A request for a resource that no node lists is a shortfall, not an error."""
    exotic = pod("exotic", shape=Shape((("cpu", 1), ("vendor.com/exotic", 1))))
    assert planned(table_of([node("a")]), [exotic]) == Shortfall(needed=1, fits=0)


def test_request_beyond_int64_fits_nowhere() -> None:
    """The sum of what two containers may ask for is a shortfall, not an overflow."""
    huge = pod("huge", shape=Shape((("memory", 2 * (2**63 - 1)), ("pods", 1))))
    assert planned(table_of([node("a")]), [huge]) == Shortfall(needed=1, fits=0)


@pytest.mark.parametrize("packing", Packing)
def test_cluster_without_nodes(packing: Packing) -> None:
    """On an empty cluster nobody is admitted anywhere."""
    assert planned(NodeTable(), workers(2), packing) == Shortfall(needed=2, fits=0)


def test_nothing_to_place() -> None:
    """No pods are a plan without nodes."""
    assert planned(table_of([node("a")]), []) == Plan({})


def test_earlier_plans_stay_taken() -> None:
    """A plan finds what earlier plans on the same snapshot left; a failed one in between leaves no trace."""
    table = table_of([node("a", gpus=8), node("b", gpus=8)])
    whatif, candidates = WhatIf(table), ground_of(table)
    first, second = workers(1, name="first"), workers(1, name="second")
    assert nodes_of(plan(first, whatif, candidates, PlacementTerms())) == {first[0].uid: "a"}
    assert plan(workers(2), whatif, candidates, PlacementTerms()) == Shortfall(needed=2, fits=1)
    assert nodes_of(plan(second, whatif, candidates, PlacementTerms())) == {second[0].uid: "b"}


def test_shape_without_requests_is_the_least_demanding() -> None:
    """A pod that asks for nothing takes nothing, and goes where the others are."""
    table = table_of([node("a", gpus=8), node("b", gpus=8)])
    pods = [pod("nothing", shape=Shape((), selector=Selector())), *workers(1)]
    assert chosen(table, pods) == {"nothing": "a", "w-0": "a"}


def test_groups_keep_the_order_of_the_members() -> None:
    """Pods are grouped by shape in the order given, and the groups stand in the order of their first member."""
    big, small = workers(11, name="w"), [pod("launcher")]
    groups = group_by_shape([big[0], *small, *big[1:]])
    assert list(groups) == [shape(8), shape()]
    assert groups[shape(8)] == big
