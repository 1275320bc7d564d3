"""The waterfall of a gang that waits adds up, and says the same as the pass that gave the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.admission.explaining.account import Account, explain_gang
from extender.admission.explaining.material import gather
from extender.admission.explaining.scene import Scene
from extender.admission.explaining.waterfall import Cause, Waterfall
from extender.domain import keys
from extender.domain.node import NOT_READY_TAINT, UNSCHEDULABLE_TAINT, Node
from extender.domain.pod import Shape
from extender.domain.queue import Flavor, Queue, Quota
from extender.domain.reason import Reason
from extender.domain.selectors import Selector
from extender.domain.taints import Taint, Toleration
from extender.domain.topology import TopologyTerms
from extender.numa.nodetopology import NodeTopology, Policy, Zone
from extender.placement.eligibility import Eligibility
from tests.admission.conftest import GPU, Job, World

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
    world.admission.queue_seen(Queue("team", uid="team", flavors=(flavor,)))
    for index, (gpus, rack, fast, taints, taken, aligned) in enumerate(nodes):
        name = f"node-{index}"
        labels = {"rack": f"r{rack}", "block": f"b{rack // 2}"} | ({"pool": "fast"} if fast else {})
        allocatable: dict[str, int] = {"cpu": 64_000, "memory": 2**40, "pods": 110}
        if gpus:
            allocatable[GPU] = gpus
        world.admission.node_seen(Node(name, uid=name, allocatable=allocatable, labels=labels, taints=tuple(taints)))
        if aligned and gpus:
            half = {GPU: gpus // 2}
            zones = tuple(Zone(i, f"z{i}", half, half, {}, half) for i in (0, 1))
            world.admission.model.put_node_topology(NodeTopology(name, Policy.SINGLE_NUMA_NODE, zones=zones))
        if taken and gpus:
            other = world.pod(f"other-{index}", min(taken, gpus), scheduler_name="default", node_name=name)
            world.admission.pod_seen(other)
    jobs = [create(world, f"gang-{index}", gang) for index, gang in enumerate(gangs)]
    for _ in range(3):
        world.admission.forget_verdicts()
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
            world.admission.pod_seen(job.pods[-1])
    world.judge()
    planned = dict(job.reserved)
    if fate == "runs" and planned:
        job.run()
    if fate == "is refused" and planned:
        ledger = world.admission.reservations.ledger
        found = ledger.of_pod(next(pod.uid for pod in job.pods if pod.name in planned))
        assert found is not None
        world.admission.refused(*found)
        world.judge()
    if fate == "is turned away":
        for node in list(planned.values())[:1]:
            world.admission.rejections.add(job.pods[0].shape, node)
            world.admission.model.table.reassess(node)
    return job


def account_of(world: World, job: Job) -> tuple[Scene, Account]:
    """Return what is worked out about a gang."""
    scene = Scene(gather(world.admission, job.gang))
    return scene, explain_gang(scene)


@settings(max_examples=120)
@given(NODES, GANGS)
def test_a_waterfall_adds_up_and_agrees_with_the_pass(nodes: Sequence[Any], gangs: Sequence[Any]) -> None:
    """Each node is in one step or usable; how many fit, and why no more do, is what the pass said."""
    world, jobs = build(nodes, gangs)
    for job in jobs:
        scene, account = account_of(world, job)
        for fall in account.waterfalls:
            adds_up(fall, len(nodes))
            mask = Eligibility(world.admission.model.table).mask(fall.shape)
            assert np.array_equal(scene.obstacles(fall.shape).codes == 0, mask)
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
    order = [list(Cause).index(step.cause) for step in fall.steps]
    assert order == sorted(set(order))
    assert 0 <= fall.fits <= fall.pods


def agrees(job: Job, account: Account) -> None:
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
        assert wait.reason is not Reason.DOMAIN_FULL or (falls[0].usable == 0 and Cause.OUTSIDE_DOMAIN in causes)


#: Reasons that have nothing to do with nodes.
QUOTA = {Reason.QUOTA_EXCEEDED, Reason.EXCEEDS_QUOTA, Reason.BACKING_OFF, Reason.INVALID_QUEUE}
#: Reasons that a step of the waterfall shows.
SHOWN = {
    Reason.BEHIND_HEAD: Cause.KEPT_FOR_HEAD,
    Reason.REFUSED_BY_SCHEDULER: Cause.REFUSED_BY_SCHEDULER,
    Reason.REJECTED_BY_KUBELET: Cause.REJECTED_BY_KUBELET,
    Reason.ZONES_FULL: Cause.NUMA_MISALIGNED,
}
#: Reasons that say how many fit now.
COUNTED = {Reason.INSUFFICIENT_CAPACITY, Reason.DOMAIN_FULL}
