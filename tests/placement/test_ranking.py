"""Rankings: the nodes for one pod in the order in which the planner takes them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.cluster.whatif import WhatIf
from extender.objects.keys import Packing
from extender.objects.levels import Level, Levels
from extender.objects.pod import Shape
from extender.objects.topology import Objective, TopologyRequest
from extender.placement.bags import Wanted
from extender.placement.candidates import Candidates, Eligibility, PlacementTerms, Ranking
from extender.placement.capacityview import Capacity, CapacityViews
from extender.placement.plan import Plan, plan
from extender.placement.ranking import best_single, rank_single
from extender.placement.room import clique_units, field_of
from extender.placement.search import Search, assign
from tests.cluster.conftest import GPU, node, pod, shape, table_of
from tests.garbage import garbage
from tests.placement.conftest import SHAPES, THOROUGH, admits, ground_of, room, tables

BINPACK = PlacementTerms()
SPREAD = PlacementTerms(Packing.SPREAD)
ZONES = Levels((Level("zone", "zone"),))


def ranked(table: NodeTable, wanted: Shape, terms: PlacementTerms = BINPACK) -> list[str]:
    """Return the names of the nodes for one pod, best first, those that are equal joined."""
    ranking = rank_single(WhatIf(table), ground_of(table, ZONES), terms, pod("p", shape=wanted))
    if ranking is None:
        return []
    classes = ranking.classes().tolist()
    names = [table.node(row).name for row in ranking.nodes.tolist()]
    return [
        " ".join(sorted(name for name, its in zip(names, classes, strict=True) if its == each))
        for each in sorted(set(classes))
    ]


def gpu_nodes(*used: int) -> NodeTable:
    """Return a table of nodes with 8 GPUs of which some are used: `node-0`, `node-1`, ..."""
    table = table_of(node(f"node-{index}", gpus=8) for index in range(len(used)))
    for index, gpus in enumerate(used):
        table.claim(f"other-{index}", f"node-{index}", Shape(((GPU, gpus),)))
    return table


class TestScores:
    """From keys to 0..10."""

    def test_the_example_holds(self) -> None:
        """The best class has 10 and the worst 0, names decide nothing."""
        keys = [[-130] * 4, [730] * 4, [3, 3, 4, 4], [10, 10, 10, 4]]
        ranking = Ranking(np.arange(4), [np.array(key) for key in keys], np.array([0, 1, 2, 3]))
        assert (ranking.best(), ranking.classes().tolist()) == (0, [0, 0, 2, 1])
        assert ranking.scores().tolist() == [10, 10, 0, 5]

    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40), st.randoms())
    def test_better_keys_never_score_less(self, keys: list[tuple[int, int]], shuffled: Random) -> None:
        """Only the best have 10; what is best by keys and order is found without sorting."""
        order = shuffled.sample(range(len(keys)), len(keys))
        columns = [np.array(column) for column in zip(*keys, strict=True)]
        ranking = Ranking(np.arange(len(keys)), columns, np.array(order))
        scores = ranking.scores().tolist()
        assert keys[ranking.best()] == min(keys)
        assert ranking.best() == min(range(len(keys)), key=lambda at: (keys[at], order[at]))
        for key, score in zip(keys, scores, strict=True):
            assert (score == 10) == (key == min(keys))
            assert all(score <= other for better, other in zip(keys, scores, strict=True) if better <= key)


class TestOrder:
    """What comes first."""

    def test_large_sets_are_left_whole(self) -> None:
        """What later requests lose goes before fullness: 2 of 6 cost no set of four, 2 of 4 do, 2 of 8 one of eight."""
        assert ranked(gpu_nodes(2, 4, 0), shape(gpus=2)) == ["node-0", "node-1", "node-2"]

    def test_spread_prefers_the_emptier_node(self) -> None:
        """The fewer GPUs are used, the better."""
        assert ranked(gpu_nodes(4, 0, 2, 0), shape(gpus=2), SPREAD) == ["node-1 node-3", "node-2", "node-0"]

    def test_faster_gpus_go_first(self) -> None:
        """Two GPUs of an H100 node reduce faster than two of an A100 node; without an objective that does not count."""
        fast, slow = (
            node(product, gpus=8, labels={"nvidia.com/gpu.product": product})
            for product in ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB")
        )
        table = table_of([fast, slow])
        table.claim("other", slow.name, shape(gpus=2))
        assert ranked(table, shape(gpus=2)) == [fast.name, slow.name]
        indifferent = PlacementTerms(topology=TopologyRequest(objective=Objective.NONE))
        assert ranked(table, shape(gpus=2), indifferent) == [slow.name, fast.name]

    def test_pods_without_gpus_leave_nodes_with_gpus_alone(self) -> None:
        """CPU that GPUs need to be usable is taken last, the fuller node first."""
        table = table_of([node("gpus", gpus=8), node("full"), node("empty")])
        table.claim("other", "full", shape(cpu=8000))
        assert ranked(table, shape()) == ["full", "empty", "gpus"]

    def test_a_preferred_level_goes_before_all(self) -> None:
        """A node without a domain of that level comes after all that have one; of a required level it is none."""
        table = table_of([node("out", gpus=4), node("in", gpus=8, labels={"zone": "a"})])
        wish = TopologyRequest(preferred="zone")
        assert ranked(table, shape(gpus=4)) == ["out", "in"]
        assert ranked(table, shape(gpus=4), PlacementTerms(topology=wish)) == ["in", "out"]
        assert ranked(table, shape(gpus=4), PlacementTerms(topology=TopologyRequest(required="zone"))) == ["in"]
        assert ranked(table, shape(), PlacementTerms(topology=wish)) == ["in", "out"]

    def test_an_unknown_level_leaves_no_node(self) -> None:
        """What must be in a domain that does not exist is nowhere."""
        table = table_of([node("out", gpus=4)])
        assert ranked(table, shape(), PlacementTerms(topology=TopologyRequest(required="ghost"))) == []


@THOROUGH
@given(tables(), SHAPES, st.sampled_from(Packing))
def test_every_node_with_room_is_ranked_and_no_other(table: NodeTable, wanted: Shape, packing: Packing) -> None:
    """Room is counted by the nodes and claims themselves; the plan is the best of the ranking."""
    found = ranked(table, wanted, PlacementTerms(packing))
    names = {each.name for each in table.nodes() if admits(table, each.name, wanted) and room(table, each.name, wanted)}
    assert {name for equal in found for name in equal.split()} == names
    result = plan([pod("p", shape=wanted)], WhatIf(table), ground_of(table, ZONES), PlacementTerms(packing))
    assert isinstance(result, Plan) == bool(found)
    if isinstance(result, Plan):
        assert result.nodes["uid-p"] in found[0].split()


LEVELS = st.sampled_from(["", "zone", "node"])
TERMS = st.builds(
    PlacementTerms,
    st.sampled_from(Packing),
    st.builds(TopologyRequest, preferred=LEVELS, required=LEVELS, objective=st.sampled_from(Objective)),
)


@THOROUGH
@given(tables(), SHAPES, TERMS, st.data())
def test_the_best_node_is_known_while_claims_come_and_go(
    table: NodeTable, wanted: Shape, terms: PlacementTerms, data: st.DataObject
) -> None:
    """It is always the one that a ranking of all nodes has first, and as much is lost by it."""
    for product, name in (("NVIDIA-H100-80GB-HBM3", "fast"), ("NVIDIA-A100-SXM4-80GB", "slow"), ("", "other")):
        labels = {"zone": "c", "nvidia.com/gpu.product": product} if product else {}
        table.upsert(node(name, gpus=data.draw(st.integers(0, 8)), labels=labels))
    view = CapacityViews(table, build(table, ZONES), Eligibility(table)).view()
    ground, one = Candidates(view.tree, view.admitted, avoided=view.admitted.avoided), pod("p", shape=wanted)
    names, come = [each.name for each in table.nodes()], 0
    for _ in range(data.draw(st.integers(1, 8))):
        whatif = view.snapshot(Capacity.FREE)
        found = best_single(whatif, ground, terms, one)
        ranking = rank_single(WhatIf(table), ground, terms, one)
        assert (found is None) == (ranking is None)
        if found is not None and ranking is not None:
            best = ranking.best()
            assert found.row == ranking.nodes[best]
            assert found.loss == (0 if ranking.loss is None else ranking.loss[best])
        if come and data.draw(st.booleans()):
            table.release(f"late-{data.draw(st.integers(0, come - 1))}")
        else:
            table.claim(f"late-{come}", data.draw(st.sampled_from(names)), data.draw(SHAPES))
            come += 1
        assert view.follow()


@pytest.mark.parametrize("wanted", [shape(gpus=1), shape()])
@pytest.mark.parametrize("terms", [BINPACK, SPREAD])
async def test_what_is_remembered_of_nodes_leaves_no_cycle(wanted: Shape, terms: PlacementTerms) -> None:
    """It refers to a shape, which a tenant makes as large as a pod may be; old cycles are never collected."""
    table = gpu_nodes(2, 4, 0)
    ground = ground_of(table, ZONES)

    async def ask() -> None:
        assert best_single(WhatIf(table), ground, terms, pod("p", shape=wanted)) is not None

    assert await garbage(ask) == {}


@THOROUGH
@given(tables(), SHAPES, st.sampled_from(Objective))
def test_no_domain_is_better_for_one_pod_than_a_node(table: NodeTable, wanted: Shape, objective: Objective) -> None:
    """The search for a gang, over all levels, chooses for one pod the node that is ranked first."""
    if not wanted.whole_gpus:
        return
    ground, whatif = ground_of(table, ZONES), WhatIf(table)
    terms = PlacementTerms(topology=TopologyRequest(objective=objective))
    ranking = rank_single(whatif, ground, terms, pod("p", shape=wanted))
    field = field_of(whatif, ground.tree, wanted, ground.eligible(wanted), {})
    search = Search(field, Wanted(1, field.gpus, objective), *clique_units(field, whatif, 1))
    choices = search.best(range(-1, ground.tree.depth + 1), np.ones_like(field.caps, dtype=np.bool_))
    assert bool(choices) == (ranking is not None)
    if ranking is not None:
        ((position, _),) = assign(search, choices[0])
        assert int(field.rows[position]) == int(ranking.nodes[ranking.best()])


@pytest.mark.parametrize("packing", Packing)
def test_rank_takes_nothing(packing: Packing) -> None:
    """What is free is as before."""
    table = gpu_nodes(2, 4)
    whatif = WhatIf(table)
    assert rank_single(whatif, ground_of(table), PlacementTerms(packing), pod("p", 2)) is not None
    assert np.array_equal(whatif.free, table.free())
