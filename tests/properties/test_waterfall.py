"""The waterfall of a gang that waits adds up, and says the same as the pass that gave the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.admission.events import NodeSeen, NodeTopologySeen, PodSeen, QueueSeen
from extender.explain.account import WaitAccount, explain_gang
from extender.explain.inquiry import inquire
from extender.explain.waterfall import NodeCause, Waterfall
from extender.objects import keys
from extender.objects.meta import Selector
from extender.objects.node import NOT_READY_TAINT, UNSCHEDULABLE_TAINT, Node
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Shape
from extender.objects.podspec import Taint, Toleration
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.reason import Reason
from extender.objects.topology import TopologyTerms
from tests.worlds import GPU, Job, World

LEVELS = [{"name": "block", "nodeLabel": "block"}, {"name": "rack", "nodeLabel": "rack"}]
INFRA, SPOT = Taint("dedicated", "infra", "NoSchedule"), Taint("spot", "", "NoExecute")
TAINTS = st.lists(st.sampled_from([INFRA, SPOT, UNSCHEDULABLE_TAINT, NOT_READY_TAINT]), max_size=2, unique=True)
NODES = st.lists(
    st.tuples(
        st.sampled_from([0, 4, 8, 8, 8]),  # GPUs
        st.integers(0, 2),  # rack
        st.booleans() | st.just(value=True),  # whether it is in the pool `fast`
        st.just(()) | st.just(()) | TAINTS,
        st.integers(0, 3),  # GPUs that a pod of another scheduler holds
        st.booleans(),  # whether its kubelet aligns pods with NUMA zones
    ),
    min_size=1,
    max_size=8,
)
SHAPES = st.tuples(
    st.sampled_from([1, 2, 4, 8, 8, 16]),  # GPUs
    st.sampled_from([1_000, 60_000]),  # milli-CPU
    st.booleans(),  # whether it asks for the pool `fast`
    st.booleans(),  # whether it tolerates `dedicated`
)
GANGS = st.lists(
    st.tuples(
        st.lists(SHAPES, min_size=1, max_size=2),
        st.integers(1, 4),  # members of each shape
        st.sampled_from(["", "", "rack", "block"]),  # what it requires
        st.sampled_from(["", "team"]),  # its queue
        st.sampled_from(["nothing", "nothing", "runs", "is refused", "is turned away"]),
    ),
    min_size=1,
    max_size=4,
)


def build(nodes: Sequence[Any], gangs: Sequence[Any]) -> tuple[World, list[Job]]:
    """Return a cluster of these nodes, with these gangs in it, all judged until nothing changes any more."""
    world = World(topology_levels=LEVELS)
    flavor = Flavor("fast", {GPU: Quota(16)}, (("pool", "fast"),))
    world.tell(QueueSeen(Queue("team", uid="team", flavors=(flavor,))))
    for index, (gpus, rack, fast, taints, taken, aligned) in enumerate(nodes):
        name = f"node-{index}"
        labels = {"rack": f"r{rack}", "block": f"b{rack // 2}"} | ({"pool": "fast"} if fast else {})
        allocatable: dict[str, int] = {"cpu": 64_000, "memory": 2**40, "pods": 110}
        if gpus:
            allocatable[GPU] = gpus
        world.tell(NodeSeen(Node(name, uid=name, allocatable=allocatable, labels=labels, taints=tuple(taints))))
        if aligned and gpus:
            half = {GPU: gpus // 2}
            zones = tuple(Zone(i, f"z{i}", half, half, half) for i in (0, 1))
            world.tell(NodeTopologySeen(NodeTopology(name, TopologyPolicy.SINGLE_NUMA_NODE, zones=zones)))
        if taken and gpus:
            other = world.pod(f"other-{index}", min(taken, gpus), scheduler_name="default", node_name=name)
            world.tell(PodSeen(other))
    jobs = [create(world, f"gang-{index}", gang) for index, gang in enumerate(gangs)]
    for _ in range(3):
        world.state.forget_verdicts()
        world.judge()
    return world, jobs


def create(world: World, name: str, gang: Any) -> Job:
    """Create a gang, and let happen to it what does."""
    shapes, members, required, queue, fate = gang
    options = keys.Options(topology=TopologyTerms(required=required), queue=queue)
    job = world.gang(name, 0, min_member=members * len(shapes), group={"options": options})
    for number, (gpus, cpu, fast, tolerant) in enumerate(shapes):
        requests = tuple(sorted({"cpu": cpu, "pods": 1, GPU: gpus}.items()))
        tolerations = (Toleration("dedicated", "Exists", "", ""),) if tolerant else ()
        shape = Shape(requests, Selector(equals=(("pool", "fast"),) if fast else ()), tolerations)
        for index in range(members):
            job.pods.append(world.pod(f"{name}-{number}-{index}", group=job.ref, shape=shape))
            world.tell(PodSeen(job.pods[-1]))
    world.judge()
    planned = dict(job.reserved)
    if fate == "runs" and planned:
        job.run()
    if fate == "is refused" and planned:
        world.refuse(next(pod for pod in job.pods if pod.name in planned))
        world.judge()
    if fate == "is turned away":
        for node in list(planned.values())[:1]:
            world.reject(job.pods[0].shape, node)
    return job


def account_of(world: World, job: Job) -> WaitAccount:
    """Return what is worked out about a gang."""
    return explain_gang(inquire(world.admission, job.gang, world.now))


@settings(max_examples=120)
@given(NODES, GANGS)
def test_a_waterfall_adds_up_and_agrees_with_the_pass(nodes: Sequence[Any], gangs: Sequence[Any]) -> None:
    """Each node is in one step or usable; how many fit, and why no more do, is what the pass said."""
    world, jobs = build(nodes, gangs)
    for job in jobs:
        account = account_of(world, job)
        for fall in account.waterfalls:
            adds_up(fall, len(nodes))
            mask = world.state.admitting(fall.shape)
            assert not (fall.open_to & ~mask).any()
        agrees(job, account)


def adds_up(fall: Waterfall, nodes: int) -> None:
    """Assert that a waterfall counts each node once, and its causes in their order."""
    assert fall.nodes == nodes
    left = nodes
    for step in fall.steps:
        left -= step.nodes
        assert step.nodes > 0
        assert step.left == left
        assert step.detail
    assert fall.usable == left
    order = [list(NodeCause).index(NodeCause(step.cause)) for step in fall.steps]
    assert order == sorted(set(order))
    assert 0 <= fall.fits <= fall.pods


def agrees(job: Job, account: WaitAccount) -> None:
    """Assert that what is worked out about a gang says the same as its reason does."""
    wait, falls, miss = job.wait, account.waterfalls, account.nearest
    if job.reserved or job.gang.has_minimum:
        return
    assert wait is not None
    assert account.standing.position is not None
    fits, pods = sum(fall.fits for fall in falls), sum(fall.pods for fall in falls)
    assert wait.numbers.get("fits", 0) <= job.gang.census().secured + pods
    assert miss is None or 0 <= miss.fits < miss.needed
    causes = {step.cause for fall in falls for step in fall.steps}
    if wait.reason in SHOWN:
        assert SHOWN[wait.reason] in causes
    elif wait.reason is Reason.NO_NODE_MATCHES:
        assert any(not fall.open_to.any() for fall in falls)
    elif wait.reason not in QUOTA:
        assert fits < pods or len(falls) > 1
    if len(falls) == 1 and wait.reason in COUNTED:
        assert fits == wait.numbers["fits"]
        assert miss is not None
        assert (miss.fits, miss.needed) == (fits, pods) or job.gang.topology.required
        assert wait.reason is not Reason.DOMAIN_FULL or (falls[0].usable == 0 and NodeCause.OUTSIDE_DOMAIN in causes)


#: Reasons that have nothing to do with nodes.
QUOTA = {Reason.QUOTA_EXCEEDED, Reason.EXCEEDS_QUOTA, Reason.BACKING_OFF, Reason.INVALID_QUEUE}
#: Reasons that a step of the waterfall shows.
SHOWN = {
    Reason.BEHIND_HEAD: NodeCause.KEPT_FOR_HEAD,
    Reason.REFUSED_BY_SCHEDULER: NodeCause.REFUSED_BY_SCHEDULER,
    Reason.REJECTED_BY_KUBELET: NodeCause.REJECTED_BY_KUBELET,
    Reason.ZONES_FULL: NodeCause.NUMA_MISALIGNED,
}
#: Reasons that say how many fit now.
COUNTED = {Reason.INSUFFICIENT_CAPACITY, Reason.DOMAIN_FULL}
