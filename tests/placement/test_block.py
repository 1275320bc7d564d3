"""Specification of blocks: pods that belong together share the domains that were asked for, or none is placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.cluster.whatif import WhatIf
from extender.objects.keys import Packing
from extender.objects.levels import Level, Levels
from extender.objects.meta import Selector
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.objects.topology import Objective, PlacementGoal, RoleGroup, Slice, TopologyRequest
from extender.placement.candidates import Candidates, Eligibility, PlacementTerms
from extender.placement.plan import Plan, Shortfall, plan
from tests.cluster.conftest import GPU, node, pod, table_of
from tests.placement.conftest import THOROUGH, ground_of

TIERS = Levels((Level("block", "block"), Level("rack", "rack")))


def machine(name: str, block: str, rack: str, gpus: int = 8, product: str = "NVIDIA-H100-80GB-HBM3") -> Node:
    """Return a node in a rack of a block."""
    return node(name, gpus, labels={"block": block, "rack": rack, "nvidia.com/gpu.product": product})


def racks(*sizes: int, per_block: int = 2, product: str = "NVIDIA-H100-80GB-HBM3") -> NodeTable:
    """Return a table of racks with so many nodes each, `per_block` racks to a block: `r0-0`, `r0-1`, ... `r1-0`, ..."""
    return table_of(
        machine(f"r{rack}-{index}", f"b{rack // per_block}", f"r{rack}", product=product)
        for rack, size in enumerate(sizes)
        for index in range(size)
    )


def workers(count: int, gpus: int = 8, role: str = "", name: str = "w") -> list[Pod]:
    """Return equal pods `w-0`, `w-1`, ..."""
    return [replace(pod(f"{name}-{index}", gpus), role=role) for index in range(count)]


def chosen(table: NodeTable, pods: Sequence[Pod], topology: TopologyRequest, **settled: int) -> dict[str, str]:
    """Return pod name -> node name of a plan that succeeds; `settled` is node name (_ for -) -> GPUs there already."""
    result = planned(table, pods, topology, **settled)
    assert isinstance(result, Plan)
    return {each.name: result.nodes[each.uid] for each in pods}


def planned(table: NodeTable, pods: Sequence[Pod], topology: TopologyRequest, **settled: int) -> Plan | Shortfall:
    """Plan on what is free in the table."""
    rows = {int(table.rows_of([name.replace("_", "-")])[0]): gpus for name, gpus in settled.items()}
    candidates = replace(ground_of(table, TIERS), settled=rows)
    return plan(pods, WhatIf(table), candidates, PlacementTerms(topology=topology))


def racks_of(nodes: dict[str, str]) -> Counter[str]:
    """Count pods by rack."""
    return Counter(name.split("-")[0] for name in nodes.values())


class TestRequired:
    """A level that all members have to share one domain of."""

    def test_one_domain(self) -> None:
        """All members go to one rack, though the cluster has nodes that are free elsewhere."""
        assert racks_of(chosen(racks(2, 3, 2), workers(3), TopologyRequest(required="rack"))) == {"r1": 3}

    def test_label_key(self) -> None:
        """A level may be named by its node label."""
        assert len(racks_of(chosen(racks(2, 2), workers(2), TopologyRequest(required="rack")))) == 1

    def test_shortfall(self) -> None:
        """Where the cluster is large enough and no rack is, the level is named with how many fit into one at most."""
        assert planned(racks(2, 3, 2), workers(4), TopologyRequest(required="rack")) == Shortfall(4, 3, level="rack")

    def test_outer_level(self) -> None:
        """What no rack holds may go to one block, but not beyond it."""
        assert racks_of(chosen(racks(2, 2, 3, 2), workers(5), TopologyRequest(required="block"))) == {"r2": 3, "r3": 2}
        assert planned(racks(2, 2, 3, 2), workers(6), TopologyRequest(required="block")) == Shortfall(
            6, 5, level="block"
        )

    def test_node(self) -> None:
        """The node itself is a level."""
        result = chosen(racks(2), workers(4, gpus=2), TopologyRequest(required="node"))
        assert len(set(result.values())) == 1
        assert planned(racks(2), workers(5, gpus=2), TopologyRequest(required="host")) == Shortfall(5, 4, level="node")

    def test_several_shapes(self) -> None:
        """A launcher without GPUs shares the domain, too: of two racks the one that holds all is taken."""
        table = racks(2, 2)
        for name in ("r0-0", "r0-1"):
            table.claim(f"hog-{name}", name, Shape((("cpu", 63_000),)))
        launcher = pod("launcher", cpu=2000)
        result = chosen(table, [launcher, *workers(2)], TopologyRequest(required="rack"))
        assert racks_of(result) == {"r1": 3}

    def test_nodes_without_domain(self) -> None:
        """A node that has no domain of the level takes nobody, whatever narrower level is preferred."""
        table = table_of([node("stray", 8)])
        for preferred in ("", "node"):
            result = planned(table, workers(1), TopologyRequest(required="rack", preferred=preferred))
            assert isinstance(result, Shortfall)

    def test_spread(self) -> None:
        """A gang that wants to be spread is spread within its domain."""
        table = racks(3, 3)
        candidates = ground_of(table, TIERS)
        terms = PlacementTerms(Packing.SPREAD, TopologyRequest(required="rack"))
        result = plan(workers(3, gpus=1), WhatIf(table), candidates, terms)
        assert isinstance(result, Plan)
        assert len(set(result.nodes.values())) == 3
        assert len({name.split("-")[0] for name in result.nodes.values()}) == 1


class TestPreferred:
    """A level that members should share a domain of."""

    def test_met(self) -> None:
        """It is met where one domain holds all, even if two more tightly filled ones would do."""
        assert racks_of(chosen(racks(1, 1, 3, 1), workers(2), TopologyRequest(preferred="rack"))) == {"r2": 2}

    def test_not_met(self) -> None:
        """Where no domain holds all, the next level out is tried, and so on."""
        assert racks_of(chosen(racks(2, 1, 2, 2), workers(4), TopologyRequest(preferred="rack"))) == {"r2": 2, "r3": 2}
        assert sum(racks_of(chosen(racks(2, 1, 2, 2), workers(6), TopologyRequest(preferred="rack"))).values()) == 6

    def test_together_with_required(self) -> None:
        """Required and preferred go together: one rack if possible, else one block, never beyond."""
        both = TopologyRequest(required="block", preferred="rack")
        assert racks_of(chosen(racks(2, 1, 2, 2), workers(2), both)).most_common(1)[0][1] == 2
        assert racks_of(chosen(racks(2, 1, 2, 2), workers(4), both)) == {"r2": 2, "r3": 2}
        assert planned(racks(2, 1, 2, 2), workers(5), both) == Shortfall(5, 4, level="block")

    def test_unknown(self) -> None:
        """A preferred level that nobody knows is no obstacle."""
        assert len(chosen(racks(2), workers(2), TopologyRequest(preferred="pod"))) == 2


class TestSlices:
    """Every k members in one domain."""

    def test_multiples(self) -> None:
        """No rack gets a part of a slice, though that leaves nodes free."""
        topology = TopologyRequest(slices=(Slice(2, "rack"),))
        assert all(count % 2 == 0 for count in racks_of(chosen(racks(3, 3, 1), workers(4), topology)).values())
        assert planned(racks(3, 3, 1), workers(6), topology) == Shortfall(6, 4, level="rack", size=2)

    def test_in_member_order(self) -> None:
        """A slice consists of neighbours in rank."""
        nodes = chosen(racks(3, 3), workers(4), TopologyRequest(slices=(Slice(2, "rack"),)))
        assert nodes["w-0"].split("-")[0] == nodes["w-1"].split("-")[0]
        assert nodes["w-2"].split("-")[0] == nodes["w-3"].split("-")[0]

    def test_layers(self) -> None:
        """Slices may be layered: four in a rack, of these two on a node."""
        topology = TopologyRequest(slices=(Slice(4, "rack"), Slice(2, "node")))
        nodes = chosen(racks(2, 3), workers(8, gpus=3), topology)
        assert set(Counter(nodes.values()).values()) == {2}
        assert set(racks_of(nodes).values()) == {4}

    def test_last_slice(self) -> None:
        """What is left over of the last slice shares a domain as well."""
        nodes = chosen(racks(2, 1, 2), workers(5, gpus=4), TopologyRequest(slices=(Slice(3, "rack"),)))
        assert nodes["w-0"].split("-")[0] == nodes["w-2"].split("-")[0]
        assert nodes["w-3"].split("-")[0] == nodes["w-4"].split("-")[0]

    def test_of_several_shapes(self) -> None:
        """Members that ask for different things are counted off together, in member order."""
        pods = [*workers(1, gpus=8, name="a"), *workers(1, gpus=4, name="b"), *workers(1, gpus=8, name="c")]
        pods += workers(1, gpus=4, name="d")
        topology = TopologyRequest(slices=(Slice(2, "rack"),))
        nodes = chosen(racks(1, 2, 1, 2), pods, topology)
        assert nodes["a-0"].split("-")[0] == nodes["b-0"].split("-")[0]
        assert nodes["c-0"].split("-")[0] == nodes["d-0"].split("-")[0]
        assert isinstance(planned(racks(1, 1), pods[:2], topology), Shortfall)

    def test_layers_of_the_last_slice(self) -> None:
        """What is left over of the last slice keeps the layers further in."""
        topology = TopologyRequest(slices=(Slice(4, "rack"), Slice(2, "node")))
        nodes = chosen(racks(3, 3), workers(6, gpus=3), topology)
        assert nodes["w-4"] == nodes["w-5"]
        assert isinstance(planned(racks(3, 3), workers(2, gpus=8), topology), Shortfall)

    def test_of_roles(self) -> None:
        """Slices may be of some roles only; the others are not counted off."""
        topology = TopologyRequest(slices=(Slice(2, "rack", frozenset({"worker"})),))
        pods = [*workers(1, role="launcher", name="l"), *workers(2, role="worker")]
        nodes = chosen(racks(1, 2), pods, topology)
        assert nodes["w-0"].split("-")[0] == nodes["w-1"].split("-")[0] == "r1"


class TestRoleGroups:
    """Roles that share a domain."""

    def test_together(self) -> None:
        """The members of a role share a rack while the others go wherever there is room."""
        topology = TopologyRequest(role_groups=(RoleGroup(frozenset({"server"}), "rack"),))
        pods = [*workers(2, role="worker"), *workers(2, role="server", name="s")]
        nodes = chosen(racks(1, 2, 1), pods, topology)
        assert nodes["s-0"].split("-")[0] == nodes["s-1"].split("-")[0] == "r1"

    def test_not_together(self) -> None:
        """Where no rack holds them nobody is placed; if it is only preferred, everybody is."""
        group = RoleGroup(frozenset({"server"}), "rack")
        pods = workers(2, role="server", name="s")
        assert isinstance(planned(racks(1, 1), pods, TopologyRequest(role_groups=(group,))), Shortfall)
        preferred = TopologyRequest(role_groups=(replace(group, required=False),))
        assert len(chosen(racks(1, 1), pods, preferred)) == 2

    def test_each_role_by_itself(self) -> None:
        """Two roles may each share a rack of their own inside one block."""
        groups = tuple(RoleGroup(frozenset({role}), "rack") for role in ("server", "worker"))
        pods = [*workers(2, role="worker"), *workers(2, role="server", name="s")]
        nodes = chosen(racks(2, 1, 2, 2), pods, TopologyRequest(required="block", role_groups=groups))
        assert racks_of(nodes) == {"r2": 2, "r3": 2}


class TestSettled:
    """Members that join others of their gang."""

    def test_same_domain(self) -> None:
        """A replacement goes to the rack of the others while there is room, however tight another rack is."""
        assert racks_of(chosen(racks(1, 3), workers(1), TopologyRequest(), r1_0=8)) == {"r1": 1}

    def test_next_domain(self) -> None:
        """Where the rack is full it goes to the same block, and only then anywhere."""
        table = racks(1, 1, 2, 1)
        table.claim("other", "r2-1", Shape(((GPU, 8),)))
        table.claim("member", "r2-0", Shape(((GPU, 8),)))
        assert racks_of(chosen(table, workers(1), TopologyRequest(), r2_0=8)) == {"r3": 1}
        table.claim("third", "r3-0", Shape(((GPU, 8),)))
        assert racks_of(chosen(table, workers(1), TopologyRequest(), r2_0=8)).keys() <= {"r0", "r1"}

    def test_required(self) -> None:
        """With a required level it is the domain of the others or none."""
        table = racks(1, 2)
        table.claim("member", "r0-0", Shape(((GPU, 8),)))
        assert isinstance(planned(table, workers(1), TopologyRequest(required="rack"), r0_0=8), Shortfall)

    def test_without_gpus(self) -> None:
        """Who asks for no GPU need not be near the others, and is kept off GPU nodes."""
        table = racks(2)
        table.upsert(node("plain", 0))
        assert chosen(table, [pod("loader")], TopologyRequest(), r0_0=8) == {"loader": "plain"}

    def test_same_node(self) -> None:
        """What fits beside the others on their node goes there."""
        assert chosen(racks(2), workers(1, gpus=4), TopologyRequest(), r0_1=4) == {"w-0": "r0-1"}


class TestBandwidth:
    """What the model says decides before how well things fit."""

    @pytest.mark.parametrize(("product", "apart"), [("NVIDIA-B200", False), ("NVIDIA-H100-80GB-HBM3", True)])
    def test_two_nodes(self, product: str, *, apart: bool) -> None:
        """Two nodes of B200 keep to one leaf, as the spine would cost them; of H100 the tighter fit decides."""
        table = racks(1, 1, 3, per_block=2, product=product)
        nodes = chosen(table, workers(2), TopologyRequest())
        assert racks_of(nodes) == ({"r0": 1, "r1": 1} if apart else {"r2": 2})

    def test_no_objective(self) -> None:
        """Where bandwidth does not matter only what others lose decides: single GPUs fill the broken nodes."""
        table = racks(4)
        for index, gpus in enumerate((7, 7, 6)):
            table.claim(f"other-{index}", f"r0-{index}", Shape(((GPU, gpus),)))
        topology = TopologyRequest(objective=Objective.NONE)
        assert set(chosen(table, workers(4, gpus=1), topology).values()) == {"r0-0", "r0-1", "r0-2"}


class TestSeveralShapes:
    """Pods that ask for different numbers of GPUs."""

    def test_share_a_node(self) -> None:
        """A leader of four GPUs and two workers of one take one node together, though the leader fits tighter alone."""
        table = racks(2)
        table.claim("other", "r0-0", Shape(((GPU, 4),)))
        pods = [*workers(1, gpus=4, name="leader"), *workers(2, gpus=1)]
        assert set(chosen(table, pods, TopologyRequest()).values()) == {"r0-1"}

    @pytest.mark.parametrize(("goal", "shares"), [(PlacementGoal.BANDWIDTH, {6}), (PlacementGoal.BALANCED, {4, 8})])
    def test_goal(self, goal: PlacementGoal, shares: set[int]) -> None:
        """Where one node does not hold them they are shared out evenly, or half a node stays whole.

        What was passed by is the other one of the two.
        """
        table, pods = racks(2), [*workers(2, gpus=4, name="leader"), *workers(2, gpus=2)]
        gpus: Counter[str] = Counter()
        candidates = Candidates(build(table, TIERS, goal), Eligibility(table).mask)
        found = plan(pods, WhatIf(table), candidates, PlacementTerms())
        assert isinstance(found, Plan)
        for each in pods:
            gpus[found.nodes[each.uid]] += each.shape.whole_gpus
        assert set(gpus.values()) == shares
        assert found.weighed is not None
        assert found.weighed.gpus == 12
        assert found.weighed.passed is not None
        assert (found.weighed.passed.speed > 1) == (goal is PlacementGoal.BALANCED)
        assert (found.weighed.passed.cost.lost > found.weighed.cost.lost) == (goal is PlacementGoal.BALANCED)

    def test_in_a_clique(self) -> None:
        """In an NVLink domain it does not matter which node they are on: the tightest are used up."""
        labels = {"nvidia.com/gpu.product": "NVIDIA-GB200", "nvidia.com/gpu.clique": "rack-1"}
        table = table_of(node(f"n-{index}", 4, labels=labels) for index in range(3))
        table.claim("other", "n-1", Shape(((GPU, 2),)))
        pods = [*workers(1, gpus=4, name="leader"), *workers(2, gpus=1)]
        result = plan(pods, WhatIf(table), ground_of(table), PlacementTerms())
        assert isinstance(result, Plan)
        nodes = Counter(result.nodes.values())
        assert nodes["n-1"] == 2

    def test_what_nobody_can_share(self) -> None:
        """Shapes that no node admits together are placed one after the other."""
        table = racks(1, 1)
        pods = [*workers(1, gpus=8, name="leader"), *workers(1, gpus=3)]
        pods[1] = replace(pods[1], shape=replace(pods[1].shape, selector=Selector(equals=(("rack", "r1"),))))
        pods[0] = replace(pods[0], shape=replace(pods[0].shape, selector=Selector(equals=(("rack", "r0"),))))
        assert chosen(table, pods, TopologyRequest()) == {"leader-0": "r0-0", "w-0": "r1-0"}


@st.composite
def clusters(draw: st.DrawFn) -> NodeTable:
    """Draw a cluster of a few racks that are partly taken."""
    table = racks(*draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    for each in table.nodes():
        if gpus := draw(st.integers(0, 8)):
            table.claim(f"other-{each.name}", each.name, Shape(((GPU, gpus),)))
    return table


@THOROUGH
@given(
    table=clusters(),
    members=st.lists(st.tuples(st.sampled_from([0, 1, 4, 8]), st.sampled_from(["a", "b"])), min_size=1, max_size=5),
    required=st.sampled_from(["", "block", "rack", "node"]),
    preferred=st.sampled_from(["", "block", "rack", "node"]),
    grouped=st.booleans(),
)
def test_what_is_asked_for_is_kept(
    table: NodeTable, members: list[tuple[int, str]], required: str, preferred: str, *, grouped: bool
) -> None:
    """A plan keeps the required level and shared domains of roles; what is not placed leaves no trace."""
    pods = [replace(pod(f"m-{index}", gpus), role=role) for index, (gpus, role) in enumerate(members)]
    groups = (RoleGroup(frozenset({"a"}), "rack"),) if grouped else ()
    terms = PlacementTerms(topology=TopologyRequest(required=required, preferred=preferred, role_groups=groups))
    whatif = WhatIf(table)
    candidates = ground_of(table, TIERS)
    result = plan(pods, whatif, candidates, terms)
    if isinstance(result, Shortfall):
        assert (whatif.free == table.free()).all()
        assert 0 <= result.fits < len(pods)
        return
    taken = table.free() - whatif.free
    assert taken[table.resources.index(GPU)].sum() == sum(gpus for gpus, _ in members)
    assert (whatif.free[:, :] >= 0).all()
    assert len(_domains(candidates, table, [result.nodes[each.uid] for each in pods], required)) <= 1
    if grouped:
        assert (
            len(_domains(candidates, table, [result.nodes[each.uid] for each in pods if each.role == "a"], "rack")) <= 1
        )


def _domains(candidates: Candidates, table: NodeTable, names: list[str], level: str) -> set[str]:
    """Return the domains of a level that nodes are in, by their labels."""
    if not level:
        return set()
    index = candidates.tree.levels.find(level)
    found = [table.find(name) for name in names]
    if index == candidates.tree.depth:
        return set(names)
    return {
        each.labels["block"] + (each.labels["rack"] if level == "rack" else "") for each in found if each is not None
    }
