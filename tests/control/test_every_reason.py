"""Every reason: a decision that gives it, an explanation of it, and a section in the docs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from extender.admission.events import BindingFailed, HoldOff, NodeSeen, NodeTopologySeen, PodGone, PodSeen, QueueSeen
from extender.control.health import DegradedError
from extender.control.ports import LeaseGone
from extender.explain.documents import Explanation
from extender.explain.explanation import Inspection, explanation
from extender.objects import keys
from extender.objects.meta import LabelSelector, Requirement, Selector
from extender.objects.node import Node
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import GroupRef
from extender.objects.queue import Flavor, Queue, QueueingStrategy, Quota, RunningLimit, SparePolicy, StopPolicy
from extender.objects.reason import Problem, Reason, Wait
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.topology import TopologyTerms
from tests.control.conftest import Muster
from tests.eviction.test_losses import lose
from tests.worlds import GPU, Job, World

LEVELS = [{"name": "rack", "nodeLabel": "rack"}]


def racks(count: int = 2, nodes: int = 2) -> World:
    """Return a world of racks of nodes with eight GPUs."""
    world = World(topology_levels=LEVELS)
    for index in range(count * nodes):
        allocatable = {"cpu": 64_000, "memory": 2**40, "pods": 110, GPU: 8}
        labels = {"rack": f"r{index // nodes}"}
        world.tell(NodeSeen(Node(f"n{index}", uid=f"n{index}", allocatable=allocatable, labels=labels)))
    return world


def small(nodes: int = 2) -> World:
    """Return a world of nodes with eight GPUs."""
    world = World()
    world.nodes(nodes)
    return world


def queued(**fields: Any) -> World:
    """Return a world of four nodes and a Queue called team, with quota for 16 GPUs."""
    world = small(4)
    flavors = (Flavor("all", {GPU: Quota(16)}),)
    values: dict[str, Any] = {"uid": "team", "flavors": flavors} | fields
    world.tell(QueueSeen(Queue("team", **values)))
    world.judge()
    return world


def in_team(world: World, name: str, members: int, **fields: Any) -> Job:
    """Return a gang in the Queue."""
    return world.gang(name, members, options=keys.Options(queue="team"), **fields)


def running(world: World, name: str, members: int, gpus: int = 8, **fields: Any) -> Job:
    """Return a gang that runs."""
    job = world.gang(name, members, gpus, **fields)
    job.run()
    return job


def requiring(world: World, name: str, members: int, level: str) -> Job:
    """Return a gang that asks for one domain of a level."""
    return world.gang(name, members, group={"options": keys.Options(topology=TopologyTerms(required=level))})


def pod_group_missing() -> Job:
    """Let members name a PodGroup that is not there."""
    world = small()
    ref = GroupRef(COSCHEDULING, "default", "train")
    job = Job(world, ref, [world.pod("train-0", 8, group=ref)])
    world.tell(PodSeen(job.pods[0]))
    world.judge()
    return job


def invalid_pod_group() -> Job:
    """Let a field of the PodGroup be wrong."""
    return small().gang("train", 2, group={"problem": Problem("spec.minMember", "-1 is negative")})


def invalid_member() -> Job:
    """Let a member's request be no number."""
    return small().gang("train", 2, problem=Problem("spec.containers", "no number"))


def mixed_priorities() -> Job:
    """Let members have different priorities."""
    job = small(1).gang("train", 2)
    job.see(0, priority=5)
    job.world.judge()
    return job


def mixed_schedulers() -> Job:
    """Let members name different schedulers."""
    job = small(1).gang("train", 2)
    job.see(0, scheduler_name="default-scheduler")
    job.world.judge()
    return job


def role_members_missing() -> Job:
    """Let a role have fewer members than it needs."""
    return small().gang("train", 2, group={"role_minimums": (("leader", 1),)})


def members_missing() -> Job:
    """Let fewer members exist than must start together."""
    return small().gang("train", 1, min_member=2)


def role_members_gated() -> Job:
    """Let members of a role that needs them have scheduling gates."""
    gates, roles = ("example.com/wait",), {"role_minimums": (("worker", 2),)}
    return small().gang("train", 2, group=roles, gated=True, gates=gates, role="worker")


def members_gated() -> Job:
    """Let members have scheduling gates."""
    return small().gang("train", 2, gated=True, gates=("example.com/wait",))


def unknown_queue() -> Job:
    """Name a Queue that is not there."""
    return in_team(small(), "train", 1)


def invalid_queue() -> Job:
    """Let the Queue's parent not be there."""
    return in_team(queued(parent="nobody"), "train", 1)


def namespace_not_allowed() -> Job:
    """Let the Queue select other namespaces."""
    return in_team(queued(namespaces=LabelSelector((Requirement("team", "In", ("a",)),))), "train", 1)


def held() -> Job:
    """Say that it is not to start."""
    return small().gang("train", 1, options=keys.Options(hold=True))


def queue_stopped() -> Job:
    """Let the Queue start nothing."""
    return in_team(queued(stop_policy=StopPolicy.HOLD), "train", 1)


def exceeds_quota() -> Job:
    """Ask for more than the Queue has."""
    return in_team(queued(), "train", 3)


def quota_exceeded() -> Job:
    """Let others of the Queue have all of it."""
    world = queued()
    in_team(world, "first", 2).run()
    return in_team(world, "train", 1)


def too_many_running() -> Job:
    """Let the Queue run as many gangs as it may."""
    world = queued(max_running_gangs=1)
    in_team(world, "first", 1).run()
    return in_team(world, "train", 1)


def running_limit() -> Job:
    """Let the user run as many gangs as one may, all without a label for one."""
    world = queued(limits=(RunningLimit(keys.USER, gangs=1),))
    in_team(world, "first", 1).run()
    return in_team(world, "train", 1)


def behind_in_queue() -> Job:
    """Let nobody pass who is first in the Queue."""
    world = queued(strategy=QueueingStrategy.STRICT_FIFO)
    in_team(world, "first", 1).run()
    in_team(world, "large", 2)
    return in_team(world, "train", 1)


def min_resources_unmet() -> Job:
    """Let minResources be more than is free."""
    return small().gang("train", 2, group={"min_resources": {GPU: 17}})


def no_node_matches() -> Job:
    """Ask for a label that no node has."""
    requests = (("cpu", 1000), (GPU, 8), ("pods", 1))
    return small().gang("train", 1, shape=Shape(requests, Selector(equals=(("pool", "fast"),))))


def exceeds_cluster() -> Job:
    """Ask for more nodes than there are."""
    return small().gang("train", 3)


def exceeds_domain() -> Job:
    """Ask for more in one rack than any has."""
    return requiring(racks(), "train", 3, "rack")


def never_aligned() -> Job:
    """Ask for more than any NUMA zone has where the policy wants one."""
    world = small(1)
    zones = tuple(Zone(index, f"node-{index}", {GPU: 4}, {GPU: 4}, {GPU: 4}) for index in range(2))
    world.tell(NodeTopologySeen(NodeTopology("node-0", TopologyPolicy.SINGLE_NUMA_NODE, zones=zones)))
    return world.gang("train", 1, 6)


def unknown_level() -> Job:
    """Require a level that nobody knows."""
    return requiring(racks(), "train", 1, "pod")


def insufficient_capacity() -> Job:
    """Let others run."""
    world = small()
    running(world, "first", 1)
    return world.gang("train", 2)


def domain_full() -> Job:
    """Let there be room for all, but not in one rack."""
    world = racks()
    for node in ("n0", "n2"):
        world.tell(PodSeen(world.pod(f"on-{node}", 8, node_name=node)))
    return requiring(world, "train", 2, "rack")


def zones_full() -> Job:
    """Let enough GPUs be free in zones that do not go together."""
    world = small(1)
    zones = tuple(Zone(index, f"node-{index}", {GPU: 4}, {GPU: 4}, {GPU: 4}) for index in range(2))
    world.tell(NodeTopologySeen(NodeTopology("node-0", TopologyPolicy.RESTRICTED, zones=zones)))
    fillers = [running(world, f"filler-{index}", 1, gpus) for index, gpus in enumerate((2, 4, 2))]
    fillers[1].finish()
    running(world, "two", 1, 2)
    fillers[0].finish()
    return world.gang("train", 1, 4)


def search_gave_up() -> Job:
    """Ask for so many kinds of pods that no table holds all combinations, on nodes that only just suffice."""
    world, ref = World(), GroupRef(COSCHEDULING, "default", "train")
    kinds = [1000 + 37 * index * index for index in range(14)]
    for index in range(6):
        allocatable = {"cpu": sum(kinds) // 2 + 1, "memory": 2**40, "pods": 110}
        world.tell(NodeSeen(Node(f"n{index}", uid=f"n{index}", allocatable=allocatable)))
    job = Job(world, ref, [world.pod(f"train-{n}-{cpu}", cpu=cpu, group=ref) for cpu in kinds for n in range(3)])
    world.group(ref, len(job.pods))
    for each in job.pods:
        world.tell(PodSeen(each))
    world.judge()
    return job


def behind_head() -> Job:
    """Come behind a gang that needs more than is free."""
    world = small()
    running(world, "first", 1)
    world.gang("large", 2)
    return world.gang("train", 1)


def preempting() -> Job:
    """Have others leave for it."""
    world = small()
    running(world, "low", 2, priority=1)
    return world.gang("train", 2, priority=5)


def being_evicted() -> Job:
    """Evict it for another, and make a member of it anew already."""
    world = small(3)
    low = running(world, "low", 3, priority=1)
    world.gang("high", 2, priority=5)
    world.tell(PodGone(low.pods[0].uid))
    world.tell(PodSeen(world.pod("low-0b", 8, group=low.ref, priority=1)))
    world.judge()
    return low


def nodes_lost() -> Job:
    """Lose a node where there is no other."""
    world = small(2)
    job = running(world, "train", 2)
    lose(world, job.pods[0].node_name)
    return job


def repairing() -> Job:
    """Lose a node, and be short of the member whose place is kept elsewhere."""
    world = small(3)
    job = running(world, "train", 2)
    lose(world, job.pods[0].node_name)
    job.see(0, deleting=True)
    world.judge()
    return job


def kept_for_repairs() -> Job:
    """Ask for a node that a Queue keeps."""
    world = queued(spares=SparePolicy(4))
    return in_team(world, "train", 1)


def awaiting_nodes() -> Job:
    """Let an autoscaler be asked for nodes."""
    return World(provisioning_class="check-capacity.autoscaling.x-k8s.io").gang("train", 2)


def backing_off() -> Job:
    """Let its reservation expire."""
    job = small().gang("train", 2)
    job.world.later(61)
    return job


def refused_by_scheduler() -> Job:
    """Have kube-scheduler leave out the node that was planned."""
    job = small(1).gang("train", 1)
    job.world.refuse(job.pods[0])
    job.world.judge()
    return job


def binding_refused() -> Job:
    """Let the API server fail on the Binding of its member."""
    job = small().gang("train", 1)
    job.bind(0)
    job.world.tell(BindingFailed(job.pods[0].uid, "500 InternalError: failed calling webhook", final=False))
    return job


def rejected_by_kubelet() -> Job:
    """Let the kubelet of the only node turn such a pod away."""
    world = small(1)
    shape = world.pod("probe", 8).shape
    world.reject(shape, "node-0")
    return world.gang("train", 1)


def awaiting_members() -> Job:
    """Place it, and let kube-scheduler not bring its members yet."""
    return small().gang("train", 2)


def writes_backlogged() -> Job:
    """Let nominations not get through."""
    world = small()
    world.tell(HoldOff(Wait(Reason.WRITES_BACKLOGGED)))
    return world.gang("train", 1)


#: What makes a gang wait for each reason that a pass gives.
GIVEN: dict[Reason, Callable[[], Job]] = {
    Reason.POD_GROUP_MISSING: pod_group_missing,
    Reason.INVALID_POD_GROUP: invalid_pod_group,
    Reason.INVALID_MEMBER: invalid_member,
    Reason.MIXED_PRIORITIES: mixed_priorities,
    Reason.MIXED_SCHEDULERS: mixed_schedulers,
    Reason.HELD: held,
    Reason.ROLE_MEMBERS_MISSING: role_members_missing,
    Reason.MEMBERS_MISSING: members_missing,
    Reason.ROLE_MEMBERS_GATED: role_members_gated,
    Reason.MEMBERS_GATED: members_gated,
    Reason.UNKNOWN_QUEUE: unknown_queue,
    Reason.INVALID_QUEUE: invalid_queue,
    Reason.NAMESPACE_NOT_ALLOWED: namespace_not_allowed,
    Reason.QUEUE_STOPPED: queue_stopped,
    Reason.EXCEEDS_QUOTA: exceeds_quota,
    Reason.QUOTA_EXCEEDED: quota_exceeded,
    Reason.TOO_MANY_RUNNING: too_many_running,
    Reason.RUNNING_LIMIT: running_limit,
    Reason.BEHIND_IN_QUEUE: behind_in_queue,
    Reason.MIN_RESOURCES_UNMET: min_resources_unmet,
    Reason.NO_NODE_MATCHES: no_node_matches,
    Reason.EXCEEDS_CLUSTER: exceeds_cluster,
    Reason.EXCEEDS_DOMAIN: exceeds_domain,
    Reason.NEVER_ALIGNED: never_aligned,
    Reason.UNKNOWN_LEVEL: unknown_level,
    Reason.INSUFFICIENT_CAPACITY: insufficient_capacity,
    Reason.DOMAIN_FULL: domain_full,
    Reason.ZONES_FULL: zones_full,
    Reason.SEARCH_GAVE_UP: search_gave_up,
    Reason.AWAITING_NODES: awaiting_nodes,
    Reason.BEHIND_HEAD: behind_head,
    Reason.PREEMPTING: preempting,
    Reason.BEING_EVICTED: being_evicted,
    Reason.NODES_LOST: nodes_lost,
    Reason.REPAIRING: repairing,
    Reason.KEPT_FOR_REPAIRS: kept_for_repairs,
    Reason.BACKING_OFF: backing_off,
    Reason.REFUSED_BY_SCHEDULER: refused_by_scheduler,
    Reason.BINDING_REFUSED: binding_refused,
    Reason.REJECTED_BY_KUBELET: rejected_by_kubelet,
    Reason.AWAITING_MEMBERS: awaiting_members,
    Reason.WRITES_BACKLOGGED: writes_backlogged,
}
#: Reasons why nobody is judged here at all: what the verbs answer then.
ANSWERED = {Reason.CACHE_NOT_SYNCED, Reason.CACHE_STALE, Reason.NOT_LEADING}
#: Reasons of members of a gang that does not wait itself: `tests/admission/test_maximum.py` has them.
OF_MEMBERS = {Reason.MAX_MEMBER_REACHED}


def test_every_reason_is_given_here() -> None:
    """There is no reason that nothing leads to."""
    assert set(GIVEN) | ANSWERED | OF_MEMBERS == set(Reason)


@pytest.mark.parametrize("reason", GIVEN)
def test_a_gang_waits_for_each_reason_and_is_explained(reason: Reason) -> None:
    """The pass gives the reason, and the document that explains it says the same, complete and as JSON."""
    job = GIVEN[reason]()
    assert job.reason is reason
    inspection = Inspection(job.world.admission, job.world.clock)
    document = explanation(inspection.explain(job.ref))
    assert document.reason is not None
    assert document.reason.code == reason
    assert document.remarks[0] == f"waits: {reason}: {document.reason.message}"
    for fall in document.waterfall:
        assert sum(step.nodes for step in fall.steps) + fall.usable == fall.nodes
    assert msgspec.json.decode(msgspec.json.encode(document), type=Explanation) == document


async def test_while_nothing_is_known_the_verbs_say_so(muster: Muster) -> None:
    """Before all lists are complete, without news for long, and without the Lease."""
    pod = muster.pod("train-0", 8, GroupRef(COSCHEDULING, "default", "train"))
    assert await answered(muster, pod) is Reason.CACHE_NOT_SYNCED
    muster.sync()
    muster.controller.tell(LeaseGone())
    assert await answered(muster, pod) is Reason.NOT_LEADING
    muster.fall_silent()
    await asyncio.sleep(muster.settings.stale_after_seconds + 1)
    assert await answered(muster, pod) is Reason.CACHE_STALE


async def answered(muster: Muster, pod: Pod) -> Reason:
    """Return why filter says nothing about a pod."""
    with pytest.raises(DegradedError) as caught:
        await muster.controller.filter(pod, ["node-0"])
    return caught.value.wait.reason
