"""Which constraint takes how many nodes from the members of a gang."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from extender.admission.events import (
    Arrive,
    ClaimGone,
    ClaimSeen,
    ClaimTemplateSeen,
    DeviceClassSeen,
    NodeSeen,
    NodeTopologySeen,
    PodSeen,
    QueueSeen,
    SliceGone,
    SliceSeen,
)
from extender.explain.waterfall import NodeCause, Waterfall
from extender.objects import keys
from extender.objects.dradevices import Amount
from extender.objects.meta import Requirement, Selector, SelectorTerm
from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Shape
from extender.objects.podspec import Taint
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.reason import Reason
from extender.objects.requests import billionths
from extender.objects.resourceslice import CapacitySet, DeviceCapacity, PoolDevice
from extender.objects.topology import Slice
from tests.devicevalues import (
    CLASS,
    DRIVER,
    claim_of,
    class_of,
    device,
    product_is,
    slice_of,
    spec_of,
    template_of,
    uses,
)
from tests.explain.conftest import LEVELS, add, asking, explained, racked, take
from tests.worlds import GPU, Job, World

INFRA = Taint("dedicated", "infra", "NoSchedule")


def fall(world: World, job: Job) -> Waterfall:
    """Return the only waterfall of a gang."""
    (only,) = explained(world, job).waterfalls
    return only


def steps(world: World, job: Job) -> dict[NodeCause, tuple[int, str]]:
    """Return how many nodes each cause removed, and its words."""
    return {NodeCause(step.cause): (step.nodes, step.detail) for step in fall(world, job).steps}


def test_nodes_are_removed_in_a_fixed_order_each_once(world: World) -> None:
    """A node counts at the first cause that it has; what is left takes the members that fit."""
    world.nodes(3)
    world.nodes(2, prefix="cordoned", taints=(INFRA, UNSCHEDULABLE_TAINT))
    world.nodes(2, prefix="infra", gpus=0, taints=(INFRA,))
    world.nodes(1, prefix="cpu", gpus=0)
    world.nodes(4, prefix="small", gpus=4)
    take(world, "node-0", 1)
    found = fall(world, world.gang("train", 4))
    assert [(step.cause, step.nodes, step.left) for step in found.steps] == [
        (NodeCause.UNSCHEDULABLE, 2, 10),
        (NodeCause.TAINTED, 2, 8),
        (NodeCause.LACKS_RESOURCE, 1, 7),
        (NodeCause.TOO_SMALL, 4, 3),
        (NodeCause.TOO_FULL, 1, 2),
    ]
    assert [step.detail for step in found.steps] == [
        "cordoned: 2 nodes",
        "taint dedicated=infra:NoSchedule: 2 nodes",
        "no nvidia.com/gpu: 1 node",
        "nvidia.com/gpu: 8 asked, at most 4 even when empty: 4 nodes",
        "nvidia.com/gpu: 8 asked, at most 7 free: 1 node",
    ]
    assert (found.nodes, found.usable, found.pods, found.fits) == (12, 2, 4, 2)


def test_devices_are_named_by_class_and_selector(world: World) -> None:
    """What nodes lack of devices is said in the words of the claim, with numbers."""
    world.tell(DeviceClassSeen(class_of()))
    world.tell(ClaimTemplateSeen(template_of("h100", spec_of(6, product_is("H100")))))
    for name, products in (("h100", ["H100"] * 8), ("few", ["H100"] * 4), ("a100", ["A100"] * 8)):
        world.nodes(1, gpus=0, prefix=name)
        world.tell(SliceSeen(slice_of(f"{name}-0", products)))
    first = world.gang("first", 1, gpus=0, claims=uses(template="h100"))
    assert first.reserved == {"first-0": "h100-0"}
    second = world.gang("second", 1, gpus=0, claims=uses(template="h100"))
    none = f"no device of class {CLASS} matches productName = H100: 1 node"
    few = f"devices of class {CLASS} with productName = H100: 6 asked, at most 4 even when empty: 1 node"
    assert steps(world, second) == {
        NodeCause.LACKS_RESOURCE: (1, none),
        NodeCause.TOO_SMALL: (1, few),
        NodeCause.RESERVED_FOR_OTHERS: (1, "for default/first: 1 node"),
    }
    assert second.wait is not None
    assert second.wait.message == f"0 of 1 members fit now; {few}; {none}"


def test_devices_that_are_not_there_in_use_tainted_or_unpublished_are_told_apart(world: World) -> None:
    """Each node counts for what is wrong with its devices; the gang's reason says the same of what does not pass."""
    world.tell(DeviceClassSeen(class_of()))
    enough = spec_of(2, "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0")
    world.tell(ClaimTemplateSeen(template_of("two", enough)))
    large, small = (tuple(with_memory(size) for _ in range(4)) for size in ("80Gi", "40Gi"))
    taint = Taint("gpu.nvidia.com/xid", "79", "NoSchedule")
    tainted = tuple(replace(each, taints=(taint,)) for each in large[:3]) + large[3:]
    for prefix, count, devices, slices in (
        ("small", 6, small, 1),
        ("tainted", 2, tainted, 1),
        ("unpublished", 1, large, 2),
        ("used", 3, large, 1),
        ("bare", 1, (), 1),
    ):
        for node in world.nodes(count, gpus=0, prefix=prefix):
            if devices:
                world.tell(SliceSeen(replace(slice_of(node, (), slices=slices), devices=numbered(devices))))
            if prefix == "used":
                world.tell(ClaimSeen(claim_of(f"on-{node}", spec_of(3), node=node, devices=range(3))))
    job = world.gang("train", 1, gpus=0, claims=uses(template="two"))
    wanted = f"devices of class {CLASS} with memory >= 80Gi"
    none = f"no device of class {CLASS} matches memory >= 80Gi: 7 nodes"
    bad, unready = f"{wanted} are tainted: 2 nodes", "ResourceSlices of a pool are missing or invalid: 1 node"
    assert steps(world, job) == {
        NodeCause.DEVICES_UNREADY: (1, unready),
        NodeCause.DEVICES_TAINTED: (2, bad),
        NodeCause.LACKS_RESOURCE: (7, none),
        NodeCause.TOO_FULL: (3, f"{wanted}: 2 asked, at most 1 free: 3 nodes"),
    }
    assert job.wait is not None
    assert job.wait.message == f"0 of 1 members fit now; {none}; {bad}; {unready}"
    for node in ("used-0", "used-1", "used-2"):
        world.tell(SliceGone(f"slice-{node}"))
        world.tell(ClaimGone("default", f"on-{node}"))
    world.judge()
    assert job.reason is Reason.EXCEEDS_CLUSTER
    never = f"no device of class {CLASS} matches memory >= 80Gi: 10 nodes"
    assert job.wait.message == f"0 of 1 members would fit on the empty cluster; {never}; {bad}; {unready}"
    world.tell(SliceSeen(replace(slice_of("unpublished-0", ()), devices=numbered(large))))
    world.judge()
    assert job.reserved == {"train-0": "unpublished-0"}


def numbered(devices: Iterable[PoolDevice]) -> tuple[PoolDevice, ...]:
    """Return devices with names of their own."""
    return tuple(replace(each, name=f"gpu-{at}") for at, each in enumerate(devices))


def with_memory(size: str) -> PoolDevice:
    """Return a GPU with so much memory."""
    return replace(
        device("gpu"), capacity=CapacitySet(((f"{DRIVER}/memory", DeviceCapacity(Amount(billionths(size)))),))
    )


def test_quota_counts_devices_as_the_resource_that_they_stand_for(world: World) -> None:
    """A Queue that has quota for nvidia.com/gpu is charged for claims of the class that stands for it."""
    world.tell(DeviceClassSeen(class_of(resource=GPU)))
    world.tell(ClaimTemplateSeen(template_of("six", spec_of(6))))
    world.nodes(2, gpus=0)
    for name in ("node-0", "node-1"):
        world.tell(SliceSeen(slice_of(name)))
    world.tell(QueueSeen(Queue("team", flavors=(Flavor("default", {GPU: Quota(8)}),))))
    group = {"options": keys.Options(queue="team")}
    assert world.gang("first", 1, gpus=0, claims=uses(template="six"), group=group).reserved
    second = world.gang("second", 1, gpus=0, claims=uses(template="six"), group=group)
    assert second.wait is not None
    assert second.wait.message == "asks for 6 nvidia.com/gpu of default, of which Queue team has 2 left now"


def test_a_node_that_is_announced_to_go_is_unschedulable(world: World) -> None:
    """Whatever its pods tolerate, and also while its object is being deleted."""
    world.nodes(1, taints=(Taint("karpenter.sh/disrupted", "", "NoSchedule"),))
    world.nodes(1, prefix="gone", deleting=True)
    detail = "Karpenter removes it (taint karpenter.sh/disrupted): 1 node"
    assert steps(world, world.gang("train", 1)) == {NodeCause.UNSCHEDULABLE: (2, detail)}


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        (Selector(equals=(("pool", "fast"),)), "not pool=fast: 2 nodes"),
        (
            Selector(terms=(SelectorTerm((Requirement("pool", "In", ("fast", "new")),)),)),
            "not pool In fast, new: 2 nodes",
        ),
        (Selector(terms=(SelectorTerm((Requirement("pool", "Exists"),)),)), "not pool Exists: 2 nodes"),
        (
            Selector(terms=(SelectorTerm((), (Requirement("metadata.name", "In", ("gone",)),)),)),
            "not one of the nodes named in the node affinity: 2 nodes",
        ),
        (
            Selector(terms=(SelectorTerm((Requirement("a", "Exists"),)), SelectorTerm((Requirement("b", "Exists"),)))),
            "no term of the node affinity matches: 2 nodes",
        ),
        (Selector(terms=()), "the node affinity matches no node: 2 nodes"),
    ],
)
def test_a_selector_says_which_of_its_conditions_most_nodes_lack(world: World, selector: Selector, words: str) -> None:
    """The first that a node lacks, in the words of the manifest."""
    world.nodes(2)
    shape = Shape((("cpu", 1000), (GPU, 8), ("pods", 1)), selector)
    assert steps(world, world.gang("train", 1, shape=shape)) == {NodeCause.SELECTOR_MISMATCH: (2, words)}


def test_nodes_of_another_flavor_are_left_out(world: World) -> None:
    """The flavor in which the gang has quota decides."""
    world.nodes(2)
    add(world, "fast", pool="fast")
    take(world, "fast", 8)
    flavor = Flavor("fast", {GPU: Quota(8)}, (("pool", "fast"),))
    world.tell(QueueSeen(Queue("team", uid="team", flavors=(flavor,))))
    found = steps(world, world.gang("train", 1, options=keys.Options(queue="team")))
    assert found[NodeCause.OTHER_FLAVOR] == (2, "not of flavor fast (pool=fast)")
    assert found[NodeCause.TOO_FULL][0] == 1


def test_what_is_promised_to_others_and_kept_for_the_head_is_told_apart(world: World) -> None:
    """From what runs, and by whose it is."""
    world.nodes(4)
    take(world, "node-0", 8)
    world.gang("placed", 1)
    head = world.gang("head", 3)
    job = world.gang("train", 1)
    world.judge()
    assert steps(world, job) == {
        NodeCause.TOO_FULL: (1, "nvidia.com/gpu: 8 asked, at most 0 free: 1 node"),
        NodeCause.RESERVED_FOR_OTHERS: (1, "for default/placed: 1 node"),
        NodeCause.KEPT_FOR_HEAD: (2, "kept for default/head"),
    }
    assert NodeCause.KEPT_FOR_HEAD not in steps(world, head)


def test_a_promise_to_a_pod_without_gang_counts_as_one_to_others(world: World) -> None:
    """Its Binding is on the way."""
    (node,) = world.nodes(1)
    single = world.pod("single", 8)
    world.tell(PodSeen(single))
    world.tell(Arrive(single.uid, node))
    assert steps(world, world.gang("train", 1)) == {NodeCause.RESERVED_FOR_OTHERS: (1, "for default/single: 1 node")}


def test_refusals_are_told_by_whom(world: World) -> None:
    """kube-scheduler's count for the gang that met with them, a kubelet's for everybody who asks for the same."""
    world.nodes(2)
    job = world.gang("train", 1)
    (planned,) = job.reserved.values()
    world.refuse(job.pods[0])
    world.reject(job.pods[0].shape, "node-1" if planned == "node-0" else "node-0")
    world.state.forget_verdicts()
    world.judge()
    assert steps(world, job) == {
        NodeCause.REFUSED_BY_SCHEDULER: (1, "kube-scheduler left them out although they were planned"),
        NodeCause.REJECTED_BY_KUBELET: (1, "their kubelets rejected a pod that asks for the same"),
    }


def test_zones_that_do_not_go_together_are_told(world: World) -> None:
    """Enough GPUs are free, two in each zone."""
    world.nodes(1)
    zones = tuple(Zone(index, f"node-{index}", {GPU: 4}, {GPU: 4}, {GPU: 4}) for index in range(2))
    world.tell(NodeTopologySeen(NodeTopology("node-0", TopologyPolicy.RESTRICTED, zones=zones)))
    fillers = [world.gang(f"filler-{index}", 1, gpus) for index, gpus in enumerate((2, 4, 2))]
    for filler in fillers:
        filler.run()
    fillers[1].finish()
    world.gang("two", 1, 2).run()
    fillers[0].finish()
    (cause,) = steps(world, world.gang("train", 1, 4))
    assert cause is NodeCause.NUMA_MISALIGNED


def test_nodes_of_domains_without_room_for_all_are_outside() -> None:
    """While the cluster as a whole would have room; then the domain that has most is named."""
    world = racked(2, 3)
    take(world, "r0-0", 8)
    take(world, "r0-1", 8)
    take(world, "r1-0", 1)
    job = asking(world, "train", 3, required="rack")
    found = fall(world, job)
    assert found.steps[-1].cause is NodeCause.OUTSIDE_DOMAIN
    assert found.steps[-1].detail == "no rack has room for 3 together; r1 has for 2"
    assert (found.steps[-1].nodes, found.usable, found.fits) == (3, 0, 2)
    take(world, "r1-1", 1)
    world.judge()
    assert fall(world, job).fits == 2
    assert fall(world, job).usable == 2  # there is not room for all anywhere: the level is not what is short


def test_slices_need_room_for_whole_ones() -> None:
    """Two members share a rack: racks with room for one are outside."""
    world = racked(3, 2)
    for node in ("r0-0", "r1-0", "r2-0"):
        take(world, node, 8)
    add(world, "r3-0", rack="r3", block="b0")
    job = asking(world, "train", 4, slices=(Slice(2, "rack"),))
    found = fall(world, job)
    assert [(step.cause, step.nodes) for step in found.steps][-1] == (NodeCause.OUTSIDE_DOMAIN, 4)
    assert (found.usable, found.fits) == (0, 0)


def test_where_no_node_is_in_a_domain_of_the_level_all_are_outside() -> None:
    """The level is configured, and no node has its label."""
    world = World(topology_levels=LEVELS)
    world.nodes(2)
    found = fall(world, asking(world, "train", 1, required="rack"))
    assert [(step.cause, step.nodes, step.detail) for step in found.steps] == [
        (NodeCause.OUTSIDE_DOMAIN, 2, "there is no rack")
    ]
    assert (found.usable, found.fits) == (0, 0)


def test_each_shape_has_a_waterfall_of_its_own_the_most_demanding_first(world: World) -> None:
    """As if it had the nodes to itself."""
    world.nodes(2)
    world.nodes(1, prefix="cpu", gpus=0)
    job = world.gang("train", 4)
    job.see(3, shape=Shape((("cpu", 1000), ("pods", 1))))
    world.judge()
    first, second = explained(world, job).waterfalls
    assert (first.pods, first.usable, first.fits) == (3, 2, 2)
    assert (second.pods, second.usable, second.fits) == (1, 3, 1)


def test_members_that_gates_hold_are_counted_too(world: World) -> None:
    """What there is to know of their nodes is known before the gates open."""
    world.nodes(1)
    found = fall(world, world.gang("train", 2, gated=True, gates=("example.com/wait",)))
    assert (found.pods, found.usable, found.fits) == (2, 1, 1)


def test_members_beyond_the_minimum_are_counted_once_the_others_have_places(world: World) -> None:
    """They are placed one by one."""
    world.nodes(2)
    job = world.gang("train", 3, min_member=2)
    found = fall(world, job)
    assert (found.pods, found.usable, found.fits) == (1, 0, 0)
    world.tell(NodeSeen(Node("new", uid="new", allocatable={"cpu": 64_000, "pods": 110, GPU: 8})))
    world.judge()
    assert explained(world, job).waterfalls == ()


def test_long_selectors_leave_room_in_an_event(world: World) -> None:
    """What a selector says is cut where it would not fit; the number of nodes is there."""
    world.tell(DeviceClassSeen(class_of()))
    never = " && ".join(f"device.attributes['{DRIVER}'].productName.matches('{number}')" for number in range(30))
    world.tell(ClaimTemplateSeen(template_of("none", spec_of(1, never))))
    for node in world.nodes(2, gpus=0):
        world.tell(SliceSeen(slice_of(node)))
    wait = world.gang("train", 1, gpus=0, claims=uses(template="none")).wait
    assert wait is not None
    assert len(wait.message) < 400
    assert wait.message.endswith("...: 2 nodes")
