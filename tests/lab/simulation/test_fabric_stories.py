"""Stories about placement by bandwidth: whole scenarios, played by the real Muster."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.control.ports import WatchedKind
from muster_lab.simulation.objects import ObjectChange
from muster_lab.simulation.results import result_json
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.simulate import simulate
from muster_lab.simulation.virtual_time import LoopClock, VirtualTimeLoop
from muster_lab.simulation.world import Connect, World
from tests.lab.conftest import Virtually, reach

H100, B200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-B200"
RACKS = "topology: {levels: [{name: block, nodeLabel: block}, {name: rack, nodeLabel: rack}]}\n"


def nodes(count: int, product: str = H100, *, rack: int = 4, block: int = 8, gpus: int = 8, more: str = "") -> str:
    """Return the entry of so many nodes, `rack` of them in each rack and `block` in each block."""
    return (
        f"{{name: n, count: {count}, allocatable: {{cpu: 256, memory: 2Ti, nvidia.com/gpu: {gpus}}}, "
        f"labels: {{nvidia.com/gpu.product: {product}}}, "
        f'labelsFrom: {{rack: "r{{index//{rack}}}", block: "b{{index//{block}}}"}}{more}}}'
    )


def taken(**gpus: int) -> str:
    """Return gangs of somebody else that hold GPUs of nodes (n3=2: two of n-3) from the start, for ever."""
    return "".join(
        f"{{name: other-{node}, minMember: 1, requests: {{nvidia.com/gpu: {count}}}, "
        f"pods: [{{name: other-{node}-0, node: n-{node.removeprefix('n')}}}]}}, "
        for node, count in gpus.items()
    )


def gang(name: str, pods: int, gpus: int, more: str = "") -> str:
    """Return a gang that arrives once the others are there."""
    return f"{{name: {name}, minMember: {pods}, requests: {{nvidia.com/gpu: {gpus}}}, arrival: 10s{more}}}, "


def asking(**terms: str) -> str:
    """Return what a gang asks of the topology, as annotations of its PodGroup."""
    keys = ", ".join(f'muster.dev/{key.replace("_", "-")}: "{value}"' for key, value in terms.items())
    return f", annotations: {{{keys}}}"


def play(connect: Connect, nodes: str, gangs: str, head: str = RACKS) -> dict[str, dict[str, Any]]:
    """Play an hour; return how each gang stands, by name."""
    result = simulate(read_scenario(f"{head}nodes: [{nodes}]\ngangs: [{gangs}]\nuntil: 1h\n", "story"), connect)
    return {gang["name"]: gang for gang in result_json(result)["gangs"]}


def split(outcome: dict[str, Any]) -> dict[str, int]:
    """Return how many GPUs a gang has on each node."""
    placement = outcome["placement"]
    assert placement is not None, outcome["reason"]
    return dict(placement["gpusPerNode"])


def speed(outcome: dict[str, Any]) -> float:
    """Return the bandwidth that is predicted of a gang (GB/s)."""
    gbps = outcome["placement"]["busBandwidthGBps"]
    assert isinstance(gbps, float)
    return gbps


class TestEightPodsOfOneGpu:
    """Eight pods of one GPU are never split 7+1 where 4+4 or 8 exists."""

    def test_a_node_with_eight_free_takes_all(self, connect: Connect) -> None:
        """Inside one node nothing goes over the network."""
        got = play(connect, nodes(4), taken(n0=1, n1=4, n2=4) + gang("g", 8, 1))["g"]
        assert split(got) == {"n-3": 8}
        assert (got["placement"]["level"], got["placement"]["domain"]) == ("node", "n-3")

    def test_two_halves_beat_seven_and_one(self, connect: Connect) -> None:
        """One network card for the one, where four each would do: 82 GB/s against 329."""
        got = play(connect, nodes(3), taken(n0=1, n1=4, n2=4) + gang("g", 8, 1))["g"]
        assert sorted(split(got).values()) == [4, 4]
        assert speed(got) == pytest.approx(329, rel=0.01)

    def test_seven_and_one_is_what_is_left(self, connect: Connect) -> None:
        """Where nothing better exists, it is taken, and said how slow it will be."""
        got = play(connect, nodes(2), taken(n0=1, n1=7) + gang("g", 8, 1))["g"]
        assert sorted(split(got).values()) == [1, 7]
        assert speed(got) == pytest.approx(82, rel=0.01)


class TestLeafAndSpine:
    """Two full nodes under one leaf beat two under a spine only when the model says so."""

    @pytest.mark.parametrize(("product", "same"), [(H100, True), (B200, False)])
    def test_crossing_a_spine_costs_what_the_model_says(self, connect: Connect, product: str, same: bool) -> None:
        """Two H100 nodes are bound by NVLink either way; two B200 nodes by the network."""
        near = play(connect, nodes(4, product, rack=2), taken(n1=8) + gang("g", 2, 8))["g"]
        far = play(connect, nodes(4, product, rack=2), taken(n1=8, n3=8) + gang("g", 2, 8))["g"]
        assert (near["placement"]["level"], far["placement"]["level"]) == ("rack", "block")
        assert set(split(near)) == {"n-2", "n-3"}
        assert (speed(near) == speed(far)) is same
        assert speed(near) >= speed(far)


class TestRestrictedNode:
    """A node whose kubelet insists on as few NUMA zones as possible, with two GPUs free in each of two zones."""

    ZONES = (
        ", nodeResourceTopology: {attributes: [{name: topologyManagerPolicy, value: restricted}], zones: ["
        "{name: node-0, resources: [{name: nvidia.com/gpu, capacity: 4}]}, "
        "{name: node-1, resources: [{name: nvidia.com/gpu, capacity: 4}]}]}"
    )

    @staticmethod
    def scattered(node: str) -> str:
        """Return two pods that hold two GPUs in each zone of a node."""
        place = "{{name: s{n}-{i}, node: {n}, annotations: {{muster.dev/observed-gpus: '{gpus}'}}}}"
        pods = ", ".join(place.format(n=node, i=i, gpus=gpus) for i, gpus in enumerate(("0,1", "4,5")))
        return f"{{name: s{node}, replicas: 2, requests: {{nvidia.com/gpu: 2}}, pods: [{pods}]}}, "

    def test_a_pod_of_four_is_not_sent_there(self, connect: Connect) -> None:
        """It waits, and is told why; by number alone it would fit."""
        got = play(connect, nodes(2, more=self.ZONES), self.scattered("n-0") + taken(n1=5) + gang("g", 1, 4))["g"]
        assert got["placement"] is None
        assert got["reason"]["code"] == "NumaZonesFull"

    def test_it_goes_to_a_node_with_a_whole_zone(self, connect: Connect) -> None:
        """Which of its GPUs it gets there is predicted."""
        got = play(connect, nodes(2, more=self.ZONES), self.scattered("n-0") + taken(n1=4) + gang("g", 1, 4))["g"]
        assert split(got) == {"n-1": 4}
        assert got["pods"][0]["predictedZones"] in ([0], [1])
        assert len(got["pods"][0]["predictedGpus"]) == 4

    def test_pods_of_two_fill_what_is_left(self, connect: Connect) -> None:
        """Each in a zone of its own."""
        got = play(connect, nodes(1, more=self.ZONES), self.scattered("n") + gang("g", 2, 2))["g"]
        assert sorted(pod["predictedGpus"] for pod in got["pods"]) == [[2, 3], [6, 7]]
        assert sorted(pod["predictedZones"] for pod in got["pods"]) == [[0], [1]]

    def test_a_pod_that_can_never_be_aligned_is_told_so(self, connect: Connect) -> None:
        """A kubelet that wants one zone has none for six GPUs, however empty."""
        single = self.ZONES.replace("restricted", "single-numa-node")
        got = play(connect, nodes(1, more=single), gang("g", 1, 6))["g"]
        assert got["reason"]["code"] == "NumaAlignmentImpossible"


class TestNvlinkDomains:
    """Racks of 18 trays with four GPUs each that are one NVLink domain."""

    UUIDS = (
        'labelsFrom: {nvidia.com/gpu.clique: "0e5a3ff4-1a6c-4f8b-9d2e-00000000000{index//18}.1", rack: "r{index//18}"}'
    )
    TRAYS = (
        "{name: n, count: 36, allocatable: {cpu: 128, memory: 1Ti, nvidia.com/gpu: 4}, "
        f"labels: {{nvidia.com/gpu.product: NVIDIA-GB200}}, {UUIDS}}}"
    )

    def test_a_whole_domain_is_kept_for_the_gang_that_needs_it(self, connect: Connect) -> None:
        """A small gang goes to the domain that is broken already; 72 GPUs then still have one to themselves."""
        small = gang("small", 4, 4)
        large = gang("large", 18, 4).replace("arrival: 10s", "arrival: 20s")
        got = play(connect, self.TRAYS, taken(n35=4) + small + large, head="")
        assert all(int(node.removeprefix("n-")) >= 18 for node in split(got["small"]))
        assert set(split(got["large"])) == {f"n-{i}" for i in range(18)}
        assert speed(got["large"]) == pytest.approx(835, rel=0.01)


class TestGpuSets:
    """Which GPUs of a node a pod is predicted to get."""

    def test_a_v100_quad_is_one_side_of_the_cube(self, connect: Connect) -> None:
        """Each GPU of a side has links to the three others; a pair is one with two links."""
        dgx = nodes(1, "Tesla-V100-SXM2-32GB")
        quads = play(connect, dgx, gang("a", 1, 4) + gang("b", 1, 4))
        assert sorted(quads[name]["pods"][0]["predictedGpus"] for name in "ab") == [[0, 1, 2, 3], [4, 5, 6, 7]]
        pair = play(connect, dgx, gang("pair", 1, 2))["pair"]
        assert pair["pods"][0]["predictedGpus"] in ([0, 3], [1, 2], [4, 7], [5, 6])
        assert speed(pair) == 40

    def test_pods_of_two_get_bridged_pairs(self, connect: Connect) -> None:
        """Two GPUs with a bridge between them are ten times as fast as two without."""
        links = "X SYS SYS NV12; SYS X NV12 SYS; SYS NV12 X SYS; NV12 SYS SYS X"
        more = f", annotations: {{muster.dev/gpu-links: '{links}'}}"
        node = nodes(1, "NVIDIA-A100-80GB-PCIe", gpus=4, more=more)
        got = play(connect, node, gang("a", 1, 2) + gang("b", 1, 2) + gang("c", 1, 2))
        assert sorted(got[name]["pods"][0]["predictedGpus"] for name in "ab") == [[0, 3], [1, 2]]
        assert speed(got["a"]) > 100
        assert got["c"]["placement"] is None

    def test_a_single_gpu_leaves_whole_pairs_to_others(self, connect: Connect) -> None:
        """The second pod of one GPU takes the other half of the pair that the first one broke."""
        links = "X SYS SYS NV12; SYS X NV12 SYS; SYS NV12 X SYS; NV12 SYS SYS X"
        more = f", annotations: {{muster.dev/gpu-links: '{links}'}}"
        node = nodes(1, "NVIDIA-A100-80GB-PCIe", gpus=4, more=more)
        got = play(connect, node, gang("one", 1, 1) + gang("two", 1, 1))
        first, second = (got[name]["pods"][0]["predictedGpus"] for name in ("one", "two"))
        assert sorted(first + second) in ([0, 3], [1, 2])


class TestConstraints:
    """What gangs ask for, together."""

    def test_a_required_level_holds_and_a_preferred_one_helps(self, connect: Connect) -> None:
        """In one rack where a rack has room, else in one block; never across blocks."""
        wants = asking(topology_required="block", topology_preferred="rack")
        roomy = play(connect, nodes(16), taken(n0=8, n4=8) + gang("g", 4, 8, wants))["g"]
        assert roomy["placement"]["level"] == "rack"
        tight = play(connect, nodes(16), taken(n0=8, n4=8, n8=8, n12=8) + gang("g", 4, 8, wants))["g"]
        assert tight["placement"]["level"] == "block"
        full = play(connect, nodes(16), taken(**{f"n{i}": 8 for i in range(16) if i % 8 > 2}) + gang("g", 4, 8, wants))[
            "g"
        ]
        assert full["placement"] is None
        assert full["reason"]["numbers"]["minMember"] == 4

    def test_slices_stay_together_in_member_order(self, connect: Connect) -> None:
        """Every two members share a rack, though all six do not fit into any."""
        wants = asking(topology_slice="rack=2")
        got = play(connect, nodes(16), taken(n0=8, n4=8, n8=8, n12=8) + gang("g", 6, 8, wants))["g"]
        racks = [int(pod["node"].removeprefix("n-")) // 4 for pod in got["pods"]]
        assert racks[0::2] == racks[1::2]

    def test_roles_that_share_a_domain_do(self, connect: Connect) -> None:
        """A leader sits in the rack of its workers."""
        roles = (
            "{name: g, arrival: 10s, annotations: {muster.dev/topology-role-groups: leader+worker=rack}, "
            "roles: [{name: leader, requests: {nvidia.com/gpu: 1}}, "
            "{name: worker, replicas: 3, requests: {nvidia.com/gpu: 8}}]}"
        )
        got = play(connect, nodes(8), taken(n0=1, n1=8) + roles)["g"]
        assert {int(pod["node"].removeprefix("n-")) // 4 for pod in got["pods"]} == {1}

    def test_a_gang_that_can_never_fit_is_told_at_once(self, connect: Connect) -> None:
        """Which level rules it out, and how many would fit; nobody waits for capacity that cannot come."""
        got = play(connect, nodes(8), taken(n0=8) + gang("g", 5, 8, asking(topology_required="rack")))["g"]
        assert got["reason"] == {
            "code": "ExceedsTopologyDomain",
            "message": "no rack is large enough for all, however empty: at most 4 of 5 members fit",
            "numbers": {"fits": 4, "minMember": 5},
        }

    def test_a_level_that_there_is_not_is_named(self, connect: Connect) -> None:
        """With those that there are."""
        got = play(connect, nodes(2), gang("g", 2, 8, asking(topology_required="row")))["g"]
        assert got["reason"]["code"] == "UnknownTopologyLevel"
        assert "row" in got["reason"]["message"]
        assert "rack" in got["reason"]["message"]


class TestReplacement:
    """A bound gang that loses a node."""

    @staticmethod
    async def lose_one(connect: Connect, nodes: str, gangs: str) -> tuple[list[str], str]:
        """Play until g-1 of a gang of three has lost its node and got another; return the others' nodes, and that."""
        text = f"{RACKS}nodes: [{nodes}]\ngangs: [{gangs}]\nuntil: 1h\n"
        world = World(read_scenario(text, "story"), LoopClock(asyncio.get_running_loop()), connect)
        running = asyncio.create_task(world.run())

        def node_of(member: str) -> str:
            return world.cluster.get(WatchedKind.POD, "default", member).pod.node_name

        await reach(20)
        lost = node_of("g-1")
        world.cluster.delete(WatchedKind.NODE, "", lost)
        world.cluster.delete(WatchedKind.POD, "default", "g-1")
        await reach(120)
        outcome = [node_of("g-0"), node_of("g-2")], node_of("g-1")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert lost not in {*outcome[0], outcome[1]}
        return outcome

    def test_its_replacement_is_in_the_same_rack(self, connect: Connect, virtually: Virtually) -> None:
        """Not on the first node with room, nor in the emptiest rack."""
        racks = nodes(18, rack=6, block=6)
        kept, new = virtually(self.lose_one(connect, racks, taken(n6=8, n7=8) + gang("g", 3, 8)))
        assert all(8 <= int(node.removeprefix("n-")) < 12 for node in (*kept, new))

    def test_where_its_rack_is_full_it_is_in_the_same_block(self, connect: Connect, virtually: Virtually) -> None:
        """The next closest, one level at a time."""
        kept, new = virtually(self.lose_one(connect, nodes(16), taken(n12=8) + gang("g", 3, 8)))
        assert all(13 <= int(node.removeprefix("n-")) < 16 for node in kept)
        assert 8 <= int(new.removeprefix("n-")) < 12


class TestDescriptionsOfTheNetwork:
    """Where levels may come from beside the scenario's own list."""

    def test_hyper_nodes_are_levels(self, connect: Connect) -> None:
        """A gang that needs two nodes gets two of one leaf."""
        leaf = "{{metadata: {{name: leaf-{i}}}, spec: {{tier: 1, tierName: leaf, members: [{members}]}}}}"
        member = "{{type: Node, selector: {{exactMatch: {{name: n-{n}}}}}}}"
        leaves = ", ".join(
            leaf.format(i=i, members=", ".join(member.format(n=n) for n in (2 * i, 2 * i + 1))) for i in range(3)
        )
        head = f"hyperNodes: [{leaves}]\n"
        got = play(connect, nodes(6, B200), taken(n0=8, n2=8) + gang("g", 2, 8), head)["g"]
        assert set(split(got)) == {"n-4", "n-5"}
        assert (got["placement"]["level"], got["placement"]["domain"]) == ("leaf", "leaf-2")

    def test_measurements_replace_the_table(self, connect: Connect) -> None:
        """What a site measured on two nodes is what is predicted for two nodes."""
        head = RACKS + (
            f"calibration: [{{product: {H100}, gpusPerNode: 8, nodes: 4, level: rack, busBandwidthGBps: 200}}]\n"
        )
        got = play(connect, nodes(4), gang("g", 4, 8), head)["g"]
        assert speed(got) == pytest.approx(200, rel=0.01)


def aligned(policy: str, scope: str, zones: int) -> str:
    """Return nodes whose kubelet aligns pods with so many zones of equal size."""
    parts = ", ".join(
        f"{{name: node-{i}, resources: [{{name: nvidia.com/gpu, capacity: {8 // zones}}}, "
        f"{{name: cpu, capacity: {64 // zones}}}]}}"
        for i in range(zones)
    )
    return (
        "{name: n, count: 2, allocatable: {cpu: 64, memory: 1Ti, nvidia.com/gpu: 8}, "
        f"labels: {{nvidia.com/gpu.product: {H100}}}, nodeResourceTopology: {{attributes: ["
        f"{{name: topologyManagerPolicy, value: {policy}}}, {{name: topologyManagerScope, value: {scope}}}], "
        f"zones: [{parts}]}}}}"
    )


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    policy=st.sampled_from(["best-effort", "restricted", "single-numa-node"]),
    scope=st.sampled_from(["container", "pod"]),
    zones=st.sampled_from([1, 2, 4, 8]),
    gangs=st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 8), st.integers(1, 24), st.integers(0, 60), st.integers(10, 300)),
        min_size=1,
        max_size=6,
    ),
)
def test_no_pod_is_sent_where_the_kubelet_refuses_it(
    connect: Connect, policy: str, scope: str, zones: int, gangs: list[tuple[int, int, int, int, int]]
) -> None:
    """Whatever comes and goes: the kubelet's own algorithm agrees with what was predicted of it."""
    texts = (
        f"{{name: g{i}, minMember: {pods}, requests: {{nvidia.com/gpu: {gpus}, cpu: {cpus}, memory: 1Gi}}, "
        f"arrival: {arrival}, duration: {duration}}}"
        for i, (pods, gpus, cpus, arrival, duration) in enumerate(gangs)
    )
    text = f"nodes: [{aligned(policy, scope, zones)}]\ngangs: [{', '.join(texts)}]\nuntil: 1h\n"

    async def story() -> list[str]:
        refused: list[str] = []
        world = World(read_scenario(text, "story"), LoopClock(asyncio.get_running_loop()), connect)

        def note(change: ObjectChange) -> None:
            if change.object.key.kind is WatchedKind.POD and change.object.pod.rejection is not None:
                refused.append(change.object.pod.name)

        world.cluster.audit(note)
        running = asyncio.create_task(world.run())
        await reach(1000)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return refused

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(story()) == []


def test_equal_scenarios_give_equal_predictions(connect: Connect) -> None:
    """Byte for byte, placements included."""
    story = (nodes(8), taken(n0=1, n1=4) + gang("a", 8, 1) + gang("b", 3, 8))
    assert play(connect, *story) == play(connect, *story)
