"""Specification of placements: what is predicted of a gang follows from the nodes and GPUs that its members have."""

from __future__ import annotations

import pytest

from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree, build
from extender.objects.levels import Level, Levels
from extender.objects.topology import Objective
from extender.placement.placement import Better, Placement, describe, next_better
from tests.cluster.conftest import node, pod, table_of

TIERS = Levels((Level("block", "block"), Level("rack", "rack")))
CLIQUE = "7b968a6d-c8aa-45e1-9e07-e1e51be99c31"


def cluster(product: str = "NVIDIA-H100-80GB-HBM3", gpus: int = 8, **labels: str) -> NodeTable:
    """Return two blocks of two racks of two nodes: `b0-r0-0` to `b1-r1-1`."""
    return table_of(
        node(
            f"b{block}-r{rack}-{index}",
            gpus,
            labels={"block": f"b{block}", "rack": f"r{rack}", "nvidia.com/gpu.product": product} | labels,
        )
        for block in range(2)
        for rack in range(2)
        for index in range(2)
    )


def placed(table: NodeTable, **gpus: int) -> tuple[dict[str, str], Tree]:
    """Claim GPUs for one member on each node (name with _ for -); return members and tree."""
    members = {}
    for name, count in gpus.items():
        member = pod(f"on-{name}", count)
        table.claim(member.uid, name.replace("_", "-"), member.shape)
        members[member.uid] = name.replace("_", "-")
    table.occupancy.refresh()
    return members, build(table, TIERS)


def described(table: NodeTable, objective: Objective = Objective.ALLREDUCE, **gpus: int) -> Placement:
    """Return the placement of members with so many GPUs on the nodes."""
    members, tree = placed(table, **gpus)
    placement = describe(members, table, tree, objective)
    assert placement is not None
    return placement


class TestDescribe:
    """What is said of a gang's placement."""

    def test_one_node(self) -> None:
        """On one node the bandwidth is that of its NVLink, the level the node."""
        placement = described(cluster(), b0_r0_0=8)
        assert (placement.bus_bandwidth, placement.level, placement.domain) == (475.0, "node", "b0-r0-0")
        assert placement.gpus_per_node == {"b0-r0-0": 8}

    @pytest.mark.parametrize(
        ("nodes", "level", "domain", "share"),
        [
            (("b0_r0_0", "b0_r0_1"), "rack", "r0", 1.0),
            (("b0_r0_0", "b0_r1_0", "b0_r1_1"), "block", "b0", 0.95),
            (("b0_r0_0", "b0_r1_0", "b1_r1_1"), "cluster", "", 0.83),
        ],
    )
    def test_levels(self, nodes: tuple[str, ...], level: str, domain: str, share: float) -> None:
        """The level is the lowest that all share, and its factor lowers what the network carries."""
        placement = described(cluster(), Objective.ALLREDUCE, **dict.fromkeys(nodes, 8))
        network = 8 * 50 * 0.94 * share * (2 * 15 / 16 if len(nodes) == 2 else 1)
        assert (placement.level, placement.domain) == (level, domain)
        assert placement.bus_bandwidth == pytest.approx(min(475.0, network))

    def test_alltoall(self) -> None:
        """An all-to-all across nodes has one network card per pair of GPUs."""
        placement = described(cluster(), Objective.ALLTOALL, b0_r0_0=8, b0_r0_1=8)
        assert placement.bus_bandwidth == pytest.approx(50.0)

    def test_one_gpu(self) -> None:
        """One GPU has nobody to talk to."""
        assert described(cluster(), b0_r0_0=1).bus_bandwidth is None

    def test_unknown_product(self) -> None:
        """Of GPUs that nobody knows no bandwidth is predicted, but the level and what others lose still are."""
        placement = described(cluster("Acme-9000"), b0_r0_0=8, b0_r0_1=8)
        assert placement.bus_bandwidth is None
        assert placement.level == "rack"
        assert placement.fragmentation > 0

    def test_clique(self) -> None:
        """In a multi-node NVLink domain the bandwidth is that of NVLink; what was whole is lost to others."""
        table = cluster("NVIDIA-GB200", 4, **{"nvidia.com/gpu.clique": f"{CLIQUE}.1"})
        first = described(table, b0_r0_0=4, b0_r0_1=4)
        assert first.bus_bandwidth == pytest.approx(835.0)
        table.claim("other", "b0-r1-0", pod("other", 4).shape)
        table.occupancy.refresh()
        members = {f"uid-on-b0_r0_{index}": f"b0-r0-{index}" for index in range(2)}
        second = describe(members, table, build(table, TIERS), Objective.ALLREDUCE)
        assert second is not None
        assert first.fragmentation - second.fragmentation == pytest.approx(835.0)

    def test_without_gpus(self) -> None:
        """Members without GPUs have a level, and no bandwidth."""
        placement = described(cluster(), b0_r0_0=0, b0_r1_0=0)
        assert (placement.bus_bandwidth, placement.level, placement.gpus_per_node) == (None, "block", {})

    def test_nowhere(self) -> None:
        """A gang without nodes has no placement, nor one whose nodes are gone."""
        table = cluster()
        tree = build(table, TIERS)
        assert describe({}, table, tree, Objective.ALLREDUCE) is None
        assert describe({"uid": "gone"}, table, tree, Objective.ALLREDUCE) is None


class TestNextBetter:
    """What the next better placement would have taken."""

    def test_narrower_level(self) -> None:
        """It names the level that would be faster, and how many members the roomiest domain there takes."""
        table = cluster()
        for name in ("b1-r0-1", "b1-r1-1", "b0-r1-1"):
            table.claim(f"other-{name}", name, pod("other", 8).shape)
        members, tree = placed(table, b0_r0_0=8, b0_r0_1=8, b0_r1_0=8)
        placement = describe(members, table, tree, Objective.ALLREDUCE)
        assert placement is not None
        better = next_better(members, placement, table, tree, Objective.ALLREDUCE)
        assert better is not None
        assert better.bus_bandwidth == pytest.approx(376.0)
        assert (better.level, better.domain, better.fits, better.needed) == ("rack", "r0", 2, 3)

    def test_one_node(self) -> None:
        """Or the node, where all would fit on one."""
        table = cluster()
        members, tree = placed(table, b0_r0_0=1, b0_r0_1=7)
        placement = describe(members, table, tree, Objective.ALLREDUCE)
        assert placement is not None
        assert next_better(members, placement, table, tree, Objective.ALLREDUCE) == Better(
            475.0, "node", "b0-r0-0", 2, 2
        )

    def test_none(self) -> None:
        """Nothing is better than the best."""
        table = cluster()
        members, tree = placed(table, b0_r0_0=8, b0_r0_1=8)
        placement = describe(members, table, tree, Objective.ALLREDUCE)
        assert placement is not None
        assert next_better(members, placement, table, tree, Objective.ALLREDUCE) is None
