"""What the kubelet's Topology Manager would admit, and from which zones."""

from __future__ import annotations

from itertools import product

import pytest

from extender.hardware.topologymanager import KubeletVerdict, TopologyCause, TopologyRefusal, admit
from extender.objects.nodetopology import Managers, NodeTopology, TopologyPolicy, TopologyScope, Zone
from extender.objects.pod import Shape
from extender.objects.requests import Stage
from muster_lab.simulation.hints import AdmissionError
from muster_lab.simulation.topology_manager import TopologyManager
from tests.builders import GPU
from tests.hardware.nodes import GIB, burstable, guaranteed, left, of, requests, topology

STRICT = (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)
STATIC_MEMORY = Managers(memory_static=True)


def ask(
    node: NodeTopology, shape: Shape, free: dict[int, dict[str, int]] | None = None
) -> KubeletVerdict | TopologyRefusal:
    """Ask a node that is empty unless `free` says otherwise."""
    return admit(node, node.allocatable() if free is None else free, shape)


def zones(verdict: KubeletVerdict | TopologyRefusal) -> tuple[tuple[int, ...], ...]:
    """Return the zones of each container; fail with the refusal otherwise."""
    assert isinstance(verdict, KubeletVerdict), verdict.message
    return verdict.zones


def refusal(verdict: KubeletVerdict | TopologyRefusal) -> str:
    """Return the message of a refusal; fail otherwise."""
    assert isinstance(verdict, TopologyRefusal), verdict
    return verdict.message


def test_a_node_without_zones_admits_everything() -> None:
    """Where nothing is known about zones, nothing is refused and nothing is said to be taken."""
    assert ask(NodeTopology("n", TopologyPolicy.SINGLE_NUMA_NODE), guaranteed(8, 64)) == KubeletVerdict(((),), {})


@pytest.mark.parametrize("policy", STRICT)
def test_a_pod_that_fits_one_zone_gets_the_lowest(policy: TopologyPolicy) -> None:
    """GPUs and CPUs of one zone are admitted by every policy, from the lowest zone that has both."""
    node = topology(policy)
    assert ask(node, guaranteed(4, 16)) == KubeletVerdict(((0,),), {0: {GPU: 4, "cpu": 16_000}})
    assert zones(ask(node, guaranteed(4, 2), left(node, gpus={0: 3}))) == ((1,),)
    assert zones(ask(node, guaranteed(4, 2), left(node, cpus={0: 1}))) == ((1,),)


@pytest.mark.parametrize("policy", STRICT)
def test_four_gpus_free_as_two_and_two_are_refused(policy: TopologyPolicy) -> None:
    """What one zone could hold on the empty node must come from one zone, though enough is free in two."""
    node = topology(policy)
    verdict = ask(node, burstable(4), left(node, gpus={0: 2, 1: 2}))
    assert refusal(verdict) == f"4 nvidia.com/gpu free as 2+2, {policy} needs 4 in one zone"
    assert verdict == TopologyRefusal(TopologyCause.SCATTERED, policy, GPU, 4, (2, 2), 1)


def test_best_effort_splits_what_is_scattered() -> None:
    """Four GPUs free as 2+2 are given from both zones where nothing is required."""
    node = topology(TopologyPolicy.BEST_EFFORT)
    verdict = ask(node, burstable(4), left(node, gpus={0: 2, 1: 2}))
    assert verdict == KubeletVerdict(((0, 1),), {0: {GPU: 2}, 1: {GPU: 2}})


def test_resources_of_different_widths_are_refused() -> None:
    """Six GPUs take two zones, ten CPUs one: the masks differ, so restricted refuses though there is room."""
    verdict = ask(topology(), guaranteed(6, 10))
    assert (
        refusal(verdict) == "6 nvidia.com/gpu take 2 zones and cpu one zone, restricted needs the same zones for both"
    )


def test_resources_of_equal_widths_are_admitted() -> None:
    """Six GPUs and 24 CPUs both take two zones."""
    verdict = ask(topology(), guaranteed(6, 24))
    assert verdict == KubeletVerdict(((0, 1),), {0: {GPU: 4, "cpu": 16_000}, 1: {GPU: 2, "cpu": 8_000}})


def test_one_cpu_can_spoil_gpus_of_two_zones() -> None:
    """Four GPUs of zones with two each, and one CPU, never get along under restricted."""
    assert isinstance(ask(topology(gpus=(2, 2)), guaranteed(4, 1)), TopologyRefusal)
    assert zones(ask(topology(gpus=(2, 2)), burstable(4, 1))) == ((0, 1),)


def test_six_cpus_and_one_gpu_differ_too() -> None:
    """One GPU takes a zone, six CPUs two: refused by the rule of equal masks, whatever diagrams say."""
    verdict = ask(topology(gpus=(1, 0), cpus=(4, 4)), guaranteed(1, 6))
    assert (
        refusal(verdict) == "6 cpu take 2 zones and nvidia.com/gpu one zone, restricted needs the same zones for both"
    )


def test_eight_gpus_never_fit_one_zone() -> None:
    """single-numa-node turns away for good what no zone can hold on the empty node."""
    verdict = ask(topology(TopologyPolicy.SINGLE_NUMA_NODE), burstable(8))
    assert refusal(verdict) == "8 nvidia.com/gpu never fit into one zone, as single-numa-node needs"
    assert zones(ask(topology(TopologyPolicy.RESTRICTED), burstable(8))) == ((0, 1),)


@pytest.mark.parametrize("policy", STRICT)
def test_gpus_and_cpus_must_be_free_together(policy: TopologyPolicy) -> None:
    """Free GPUs in one zone and free CPUs in the other do not make a pod."""
    node = topology(policy)
    verdict = ask(node, guaranteed(2, 4), left(node, gpus={0: 0}, cpus={1: 3}))
    assert refusal(verdict) == f"2 nvidia.com/gpu and cpu are not free in the same zone, as {policy} needs"


@pytest.mark.parametrize("policy", TopologyPolicy)
def test_what_all_zones_together_lack_is_refused_by_all(policy: TopologyPolicy) -> None:
    """Too few devices are an error of allocation, which no policy helps."""
    node = topology(policy)
    verdict = ask(node, burstable(4), left(node, gpus={0: 2, 1: 1}))
    assert refusal(verdict) == "4 nvidia.com/gpu asked for, 3 free in the NUMA zones"


def test_of_masks_equally_wide_the_lowest_number_wins() -> None:
    """Zones 1 and 2 are the mask 0110, which goes before 1001, zones 0 and 3."""
    node = topology(gpus=(4, 4, 4, 4), cpus=())
    assert zones(ask(node, burstable(6))) == ((0, 1),)
    assert zones(ask(node, burstable(6), left(node, gpus={0: 2, 1: 3, 2: 3, 3: 4}))) == ((1, 2),)
    assert zones(ask(node, burstable(6), left(node, gpus={0: 2, 1: 3, 2: 2, 3: 4}))) == ((0, 3),)
    verdict = ask(node, burstable(6), left(node, gpus={0: 2, 1: 2, 2: 2, 3: 2}))
    assert refusal(verdict) == "8 nvidia.com/gpu free as 2+2+2+2, restricted needs 6 in 2 zones"


@pytest.mark.parametrize("policy", STRICT)
def test_cpus_take_part_only_where_they_are_exclusive(policy: TopologyPolicy) -> None:
    """Not in whole numbers, not Guaranteed, not with the CPU manager off, not where no zone lists them."""
    node = topology(policy)
    scarce = left(node, cpus={0: 1, 1: 1})
    assert isinstance(ask(node, guaranteed(1, 4), scarce), TopologyRefusal)
    assert zones(ask(node, guaranteed(1, 4.5), scarce)) == ((0,),)
    assert zones(ask(node, burstable(1, 4), scarce)) == ((0,),)
    assert zones(ask(topology(policy, managers=Managers(cpu_static=False)), guaranteed(1, 4), scarce)) == ((0,),)
    assert zones(ask(topology(policy, cpus=()), guaranteed(1, 4))) == ((0,),)
    kept_back = tuple(Zone(i, "", {GPU: 4, "cpu": 0}, capacity={"cpu": 16_000}) for i in range(2))
    assert zones(ask(NodeTopology("n", policy, zones=kept_back), guaranteed(1, 4))) == ((0,),)


def test_memory_takes_part_only_under_the_static_manager() -> None:
    """Memory of one zone is a constraint of Guaranteed pods where the memory manager is Static, else none."""
    free = topology(gib=(64, 64)).allocatable()
    free[0]["memory"] = 16 * GIB
    shape = guaranteed(1, 0, 32)
    assert zones(ask(topology(gib=(64, 64)), shape, free)) == ((0,),)
    static = topology(gib=(64, 64), managers=STATIC_MEMORY)
    assert ask(static, shape, free) == KubeletVerdict(((1,),), {1: {GPU: 1, "memory": 32 * GIB}})
    assert zones(ask(static, burstable(1, 0, 32), free)) == ((0,),)
    assert refusal(ask(static, guaranteed(1, 0, 96), free)) == "96Gi memory asked for, 80Gi free in the NUMA zones"


def test_sizes_of_pages_are_served_together() -> None:
    """All memory of a container comes from one mask, as wide as the scarcest size needs."""
    huge = "hugepages-1Gi"
    amounts = {"memory": 64 * GIB, huge: 4 * GIB}
    node = NodeTopology(
        "n", TopologyPolicy.RESTRICTED, zones=(Zone(0, "", amounts), Zone(1, "", amounts)), managers=STATIC_MEMORY
    )
    shape = Shape(((huge, 6 * GIB), ("memory", 8 * GIB)), guaranteed=True)
    taken = {0: {huge: 4 * GIB, "memory": 8 * GIB}, 1: {huge: 2 * GIB}}
    assert ask(node, shape) == KubeletVerdict(((0, 1),), taken)
    free = node.allocatable()
    free[1][huge] = GIB
    assert refusal(ask(node, shape, free)) == "6Gi hugepages-1Gi asked for, 5Gi free in the NUMA zones"


def test_best_effort_memory_widens_the_mask() -> None:
    """Memory that the GPU's zone lacks is taken whole from a wider mask that includes the zone."""
    node = topology(TopologyPolicy.BEST_EFFORT, gib=(64, 64), managers=STATIC_MEMORY)
    free = left(node, gib={0: 8}, gpus={1: 0})
    taken = {0: {GPU: 1, "memory": 8 * GIB}, 1: {"memory": 24 * GIB}}
    assert ask(node, guaranteed(1, 0, 32), free) == KubeletVerdict(((0, 1),), taken)


def test_unaligned_memory_comes_from_the_narrowest_mask() -> None:
    """Without a policy the memory manager still looks for one zone that has it all."""
    node = topology(TopologyPolicy.NONE, gib=(64, 64), managers=STATIC_MEMORY)
    assert ask(node, guaranteed(0, 0, 48), left(node, gib={0: 32})) == KubeletVerdict(
        ((1,),), {1: {"memory": 48 * GIB}}
    )


def test_containers_are_aligned_one_by_one() -> None:
    """Under scope container two containers may use different zones, each aligned in itself."""
    shape = of((requests(3, 4), Stage.APP), (requests(3, 4), Stage.APP))
    assert ask(topology(), shape) == KubeletVerdict(
        ((0,), (1,)), {0: {GPU: 3, "cpu": 4_000}, 1: {GPU: 3, "cpu": 4_000}}
    )


def test_scope_pod_aligns_the_sum() -> None:
    """Under scope pod the containers' sum takes one mask: six GPUs and eight CPUs do not agree."""
    shape = of((requests(3, 4), Stage.APP), (requests(3, 4), Stage.APP))
    assert isinstance(ask(topology(scope=TopologyScope.POD), shape), TopologyRefusal)
    small = of((requests(2, 4), Stage.APP), (requests(2, 4), Stage.APP))
    assert ask(topology(scope=TopologyScope.POD), small) == KubeletVerdict(((0,), (0,)), {0: {GPU: 4, "cpu": 8_000}})


def test_scope_pod_without_a_policy_aligns_nothing() -> None:
    """The policy none has no scope: devices are taken as they come."""
    node = topology(TopologyPolicy.NONE, scope=TopologyScope.POD)
    verdict = ask(node, burstable(3), left(node, gpus={0: 2, 1: 2}))
    assert verdict == KubeletVerdict(((0, 1),), {0: {GPU: 2}, 1: {GPU: 1}})


def test_init_containers_leave_their_devices_to_others() -> None:
    """What an init container took is reused, so that later containers stay in its zone; it is held once."""
    shape = of((requests(4, 8), Stage.INIT), (requests(3, 8), Stage.APP), (requests(1, 4), Stage.APP))
    verdict = ask(topology(), shape)
    assert verdict == KubeletVerdict(((0,), (0,), (0,)), {0: {GPU: 4, "cpu": 12_000}})


def test_reuse_binds_a_container_to_the_zone() -> None:
    """A container must take in what is left to reuse: zone 0 has it, so zone 1 with more room is no choice."""
    node = topology(cpus=())
    free = left(node, gpus={0: 2, 1: 4})
    verdict = ask(node, of((requests(1), Stage.INIT), (requests(3), Stage.APP)), free)
    assert refusal(verdict) == "6 nvidia.com/gpu free as 2+4, restricted needs 3 in one zone"


def test_sidecars_keep_what_they_took() -> None:
    """A sidecar's devices are not reused: four and one do not fit one zone of four."""
    shape = of((requests(1), Stage.SIDECAR), (requests(4), Stage.APP))
    assert ask(topology(cpus=()), shape) == KubeletVerdict(((0,), (1,)), {0: {GPU: 1}, 1: {GPU: 4}})
    assert isinstance(
        ask(topology(TopologyPolicy.SINGLE_NUMA_NODE, cpus=(), scope=TopologyScope.POD), shape), TopologyRefusal
    )


def test_memory_is_reused_only_from_the_same_mask() -> None:
    """What an init container had of zone 0 serves a later container of zone 0, and no other mask."""
    node = topology(gpus=(), cpus=(), gib=(64, 64), managers=STATIC_MEMORY)
    same = of((requests(gib=64), Stage.INIT), (requests(gib=48), Stage.APP), (requests(gib=16), Stage.APP))
    assert ask(node, same) == KubeletVerdict(((0,), (0,), (0,)), {0: {"memory": 64 * GIB}})
    wider = of((requests(gib=64), Stage.INIT), (requests(gib=65), Stage.APP))
    assert refusal(ask(node, wider)) == "65Gi memory asked for, 64Gi free in the NUMA zones"


def test_memory_that_cannot_be_reused_may_fall_short() -> None:
    """What an init container has of two zones is no use to a container that needs all three: the kubelet fails."""
    shape = of((requests(gib=20), Stage.INIT), (requests(1, 0, 64), Stage.APP))
    node = topology(
        TopologyPolicy.BEST_EFFORT,
        gpus=(1, 0, 0),
        cpus=(),
        gib=(100, 100, 100),
        scope=TopologyScope.POD,
        managers=STATIC_MEMORY,
    )
    verdict = ask(node, shape, left(node, gib={0: 0, 1: 30, 2: 34}))
    assert refusal(verdict) == "64Gi memory asked for, 44Gi free in the NUMA zones"
    kubelet = TopologyManager(node)
    for name, gib in (("a", 100), ("b", 70), ("c", 66)):
        kubelet.admit(name, guaranteed(0, 0, gib))
    with pytest.raises(AdmissionError, match="UnexpectedAdmissionError"):
        kubelet.admit("d", shape)


def test_the_scarcest_size_of_pages_decides_the_width() -> None:
    """Huge pages that only two zones together have make memory that one zone has take two zones as well."""
    node = topology(gpus=(), cpus=(8, 8), gib=(64, 64), managers=STATIC_MEMORY)
    huge = "hugepages-2Mi"
    pages = NodeTopology(
        "n",
        node.policy,
        zones=tuple(Zone(z.id, "", {**z.allocatable, huge: GIB}) for z in node.zones),
        managers=STATIC_MEMORY,
    )
    wide = Shape((("cpu", 9_000), (huge, 2 * GIB), ("memory", GIB)), guaranteed=True)
    narrow = Shape((("cpu", 2_000), (huge, GIB), ("memory", GIB)), guaranteed=True)
    assert zones(ask(pages, wide)) == ((0, 1),)
    assert zones(ask(pages, narrow)) == ((0,),)


def test_cpus_fill_whole_zones_first_then_the_fullest() -> None:
    """Of a mask of several zones the CPU manager takes whole ones, then the ones with the fewest CPUs free."""
    node = topology(gpus=(), cpus=(16, 16, 16))
    assert ask(node, guaranteed(0, 34), left(node, cpus={0: 15, 1: 4})) == KubeletVerdict(
        ((0, 1, 2),), {0: {"cpu": 14_000}, 1: {"cpu": 4_000}, 2: {"cpu": 16_000}}
    )


def test_what_is_kept_back_counts_for_the_width() -> None:
    """The CPU manager counts reserved CPUs when it tells how many zones are needed, and finds them taken."""
    zones_ = tuple(Zone(i, "", {"cpu": 14_000}, capacity={"cpu": 16_000}) for i in range(2))
    node = NodeTopology("n", TopologyPolicy.RESTRICTED, zones=zones_)
    verdict = ask(node, guaranteed(0, 15))
    assert refusal(verdict) == "28 cpu free as 14+14, restricted needs 15 in one zone"


def test_best_effort_aims_at_the_widest_need() -> None:
    """Where nothing is preferred, the mask is as wide as the resource that needs most zones."""
    node = topology(TopologyPolicy.BEST_EFFORT)
    assert zones(ask(node, guaranteed(6, 10))) == ((0, 1),)
    apart = left(node, gpus={0: 0}, cpus={1: 0})
    assert ask(node, guaranteed(2, 4), apart) == KubeletVerdict(((0, 1),), {0: {"cpu": 4_000}, 1: {GPU: 2}})


def test_best_effort_of_many_zones_is_not_searched() -> None:
    """Beyond eight zones a pod that cannot be aligned may draw from any."""
    node = topology(TopologyPolicy.BEST_EFFORT, gpus=(1,) * 10, cpus=(4,) * 10)
    assert zones(ask(node, guaranteed(3, 4))) == (tuple(range(10)),)
    assert zones(ask(node, guaranteed(3, 12))) == ((0, 1, 2),)


def test_a_container_that_asks_for_nothing_has_no_zones() -> None:
    """What zones do not list, such as storage or another vendor's device, is nobody's concern here."""
    shape = Shape((("ephemeral-storage", GIB), ("pods", 1), ("vendor.com/nic", 1)))
    assert ask(topology(), shape) == KubeletVerdict(((),), {})


def test_the_free_amounts_are_left_as_they_are() -> None:
    """Asking changes nothing."""
    node = topology()
    free = node.allocatable()
    ask(node, guaranteed(4, 8), free)
    assert free == node.allocatable()


@pytest.mark.parametrize("policy", STRICT)
def test_a_zone_that_lacks_a_resource_is_not_used_for_a_pod_that_asks_for_it(policy: TopologyPolicy) -> None:
    """For all small nodes of three zones and all requests: an aligned pod is served from zones that list everything."""
    nic = "example.com/nic"
    admitted = 0
    for listed in product(product((0, 2), (0, 1, 2)), repeat=3):
        amounts = [{GPU: gpus, nic: nics} for gpus, nics in listed]
        node = NodeTopology(
            "n",
            policy,
            zones=tuple(Zone(i, allocatable={r: n for r, n in a.items() if n}) for i, a in enumerate(amounts)),
        )
        if not (node.lists(GPU) and node.lists(nic)):
            continue  # what no zone lists has no place, and any place will do
        for gpus, nics in product(range(1, 7), range(1, 4)):
            verdict = ask(node, Shape(((GPU, gpus), (nic, nics))))
            if isinstance(verdict, KubeletVerdict):
                admitted += 1
                assert all(amounts[zone][GPU] and amounts[zone][nic] for zone in verdict.zones[0]), (listed, gpus, nics)
    assert admitted
