"""Members on lost nodes: their place is found first, then they are evicted, and others take it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import GroupSeen, NodeSeen, PodGone, PodSeen, QueueGone, Rebuild, SliceSeen
from extender.ledger.effects import EvictionReason
from extender.objects.jobsigns import JobSigns, NoticePeriod
from extender.objects.keys import Options
from extender.objects.node import UNREACHABLE_TAINT, Ailment
from extender.objects.pod import Phase
from extender.objects.podspec import DRAIN, Taint, Toleration
from extender.objects.queue import PreemptionPolicy
from extender.objects.reason import Reason
from extender.objects.topology import Slice, TopologyTerms
from tests.devicevalues import slice_of
from tests.eviction.test_preemptions import running
from tests.queues.test_sharing import queue, tell
from tests.worlds import GPU, Job, World

RACK = "rack"

#: What a gang asks for that wants two minutes of notice.
ASKING = Options(eviction_notice=120.0)


def silent(world: World, *names: str) -> None:
    """Let nodes stop to answer."""
    for name in names:
        node = world.state.node(name)
        taints = tuple(taint for taint in node.taints if not taint.key.startswith("muster.dev/"))
        since = (Ailment("Ready", world.now),)
        world.tell(NodeSeen(replace(node, taints=(*taints, UNREACHABLE_TAINT), ailments=since)))
    world.judge()


def lose(world: World, *names: str) -> None:
    """Let nodes be silent until they are lost."""
    silent(world, *names)
    world.effects()
    world.later(40)


def well(world: World, *names: str) -> None:
    """Let nodes answer again."""
    for name in names:
        world.tell(NodeSeen(replace(world.state.node(name), taints=(), ailments=())))
    world.judge()


def evicted(world: World) -> dict[str, str]:
    """Return the pods whose eviction has been asked for since last time, and why."""
    return {each.pod.name: each.message for each in world.effects().evictions.values()}


def replace_evicted(world: World, job: Job) -> list[str]:
    """Play controller and API server: what was evicted is being deleted, and others come; return their names."""
    names, came = evicted(world), []
    for index, pod in enumerate(list(job.pods)):
        if pod.name in names:
            job.see(index, deleting=True)
            came.append(f"again-{pod.name}")
            fresh: dict[str, Any] = {"options": pod.options, "labels": pod.labels, "role": pod.role, "rank": pod.rank}
            again = replace(world.pod(came[-1], group=job.ref, **fresh), shape=pod.shape, priority=pod.priority)
            job.pods.append(again)
            world.tell(PodSeen(again))
    world.judge()
    return came


def repaired(world: World, job: Job) -> bool:
    """Replace what was evicted, and tell whether the gang is whole again."""
    if replace_evicted(world, job):
        job.run()
        world.judge()
    return job.gang.has_minimum and job.reason is None and world.state.overcommitted() == []


def drain(world: World, name: str) -> None:
    """Let people have a node drained."""
    world.tell(NodeSeen(replace(world.state.node(name), taints=(Taint(DRAIN, "", "NoSchedule"),))))
    world.judge()


class TestPlaceFirst:
    """With room elsewhere."""

    def test_a_gang_that_loses_a_node_is_whole_again(self, world: World) -> None:
        """Its member is evicted once its new place is kept, which nobody else gets, and which its replacement takes."""
        world.nodes(5)
        job = running(world, "job", 4)
        lost = job.pods[1]
        silent(world, lost.node_name)
        world.later(39)
        assert not evicted(world)
        world.later(1)
        other = world.gang("other", 1)
        assert str(other.reason) == "BehindHead"
        (came,) = replace_evicted(world, job)
        assert job.reserved == {came: "node-4"}
        job.run()
        world.judge()
        assert (job.gang.has_minimum, job.reason) == (True, None)
        assert other.reason is Reason.INSUFFICIENT_CAPACITY
        world.check_promises()

    def test_it_says_why_and_what_is_done(self, world: World) -> None:
        """The pod's event names the node; the gang says that members are to come."""
        world.nodes(3)
        job = running(world, "job", 2)
        lose(world, job.pods[0].node_name)
        (message,) = evicted(world).values()
        assert message == f"evicted because nodes are lost: {job.pods[0].node_name}; its new place is kept"
        job.see(0, deleting=True)
        world.judge()
        assert job.reason is Reason.REPAIRING
        assert job.wait is not None
        assert job.wait.numbers == {"lost": 1}

    def test_gangs_leave_a_node_that_is_drained(self, world: World) -> None:
        """A member has another place first; where there is none it stays, and the gang says so."""
        world.nodes(3)
        job = running(world, "job", 2)
        drain(world, job.pods[0].node_name)
        assert repaired(world, job)
        drain(world, job.pods[1].node_name)
        world.later(3600)
        assert not evicted(world)
        assert job.reason is Reason.NODES_LOST

    def test_who_is_drained_has_notice(self, world: World) -> None:
        """It leaves when its time is over, and not before; its place is found then, or it stays and says so."""
        world.nodes(3)
        job = running(world, "job", 2, options=ASKING)
        drain(world, job.pods[0].node_name)
        assert [notice.pod.name for notice in world.effects().notices.values()] == ["job-0"]
        world.later(119)
        assert not evicted(world)
        world.later(1)
        assert list(evicted(world)) == ["job-0"]
        assert repaired(world, job)

    def test_who_is_ready_leaves_a_drained_node_before(self, world: World) -> None:
        """An acknowledgement ends the notice."""
        world.nodes(3)
        job = running(world, "job", 2, options=ASKING)
        drain(world, job.pods[0].node_name)
        period = NoticePeriod(world.now, world.now + 120.0)
        assert [notice.planned for notice in world.effects().notices.values()] == [str(period)]
        job.see(0, signs=JobSigns(planned=period, acknowledged=period))
        world.judge()
        assert list(evicted(world)) == ["job-0"]

    def test_notice_ends_with_the_drain(self, world: World) -> None:
        """A node that is used again keeps its gangs, which are told."""
        world.nodes(3)
        job = running(world, "job", 2, options=ASKING)
        drain(world, job.pods[0].node_name)
        world.effects()
        well(world, job.pods[0].node_name)
        (notice,) = world.effects().notices.values()
        assert (notice.planned, notice.message) == ("", "no pod is evicted: its nodes are not drained any more")
        world.later(3600)
        assert not evicted(world)

    def test_notice_stands_while_there_is_no_place(self, world: World) -> None:
        """A place that others have taken meanwhile: it waits for the next, and leaves for that at once."""
        world.nodes(3)
        job = running(world, "job", 2, options=ASKING)
        drain(world, job.pods[0].node_name)
        other = running(world, "other", 1)
        world.effects()
        world.later(200)
        assert (job.reason, evicted(world)) == (Reason.NODES_LOST, {})
        other.see(0, phase=Phase.SUCCEEDED)
        world.judge()
        assert list(evicted(world)) == ["job-0"]

    def test_a_node_that_does_not_answer_gives_no_notice(self, world: World) -> None:
        """What it has cannot be saved."""
        world.nodes(3)
        job = running(world, "job", 2, options=ASKING)
        lose(world, job.pods[0].node_name)
        assert list(evicted(world)) == ["job-0"]

    def test_an_eviction_says_that_the_node_is_drained(self, world: World) -> None:
        """It is not broken."""
        world.nodes(3)
        job = running(world, "job", 2)
        drain(world, job.pods[0].node_name)
        (eviction,) = world.effects().evictions.values()
        assert eviction.reason is EvictionReason.NODE_DRAINED
        assert eviction.message == f"evicted because nodes are drained: {job.pods[0].node_name}; its new place is kept"

    @pytest.mark.parametrize(
        ("toleration", "stays"),
        [
            (Toleration(UNREACHABLE_TAINT.key, "Exists", "", "NoExecute"), True),
            (Toleration(UNREACHABLE_TAINT.key, "Exists", "", ""), True),
            (Toleration(UNREACHABLE_TAINT.key, "Exists", "", "NoExecute", bounded=True), False),  # as every pod has it
            (Toleration(UNREACHABLE_TAINT.key, "Exists", "", "NoSchedule"), False),
            (Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"), False),
            (Toleration("", "Exists", "", ""), False),
        ],
    )
    def test_who_says_that_it_waits_for_its_node_stays(self, world: World, toleration: Toleration, stays: bool) -> None:
        """It tolerates that its node does not answer, by name and without an end."""
        world.nodes(3)
        job = running(world, "job", 2)
        job.see(0, shape=replace(job.pods[0].shape, tolerations=(toleration,)))
        lose(world, job.pods[0].node_name)
        assert bool(evicted(world)) != stays

    def test_several_nodes_at_once(self, world: World) -> None:
        """Each gang gets its own places, and no place is given twice."""
        world.nodes(9)
        jobs = [running(world, f"job-{index}", 3) for index in range(2)]
        lose(world, *(job.pods[0].node_name for job in jobs), jobs[0].pods[1].node_name)
        assert len(evicted(world)) == 3
        kept = world.state.places_kept()
        assert len(kept) == len(set(kept)) == 3
        world.check_promises()

    def test_how_long_it_took_is_told(self, world: World) -> None:
        """From when the node was lost until the replacement was bound."""
        world.nodes(3)
        job = running(world, "job", 2)
        lose(world, job.pods[0].node_name)
        replace_evicted(world, job)
        world.clock.advance(2.5)
        job.run()
        assert world.effects().repair_seconds == [2.5]

    def test_a_second_loss_while_the_first_is_repaired(self, world: World) -> None:
        """Keeps a place of its own beside the first."""
        world.nodes(6)
        job = running(world, "job", 4)
        lose(world, job.pods[0].node_name)
        assert len(evicted(world)) == 1
        job.see(0, deleting=True)
        lose(world, job.pods[1].node_name)
        assert world.state.places_kept() == ["node-4", "node-5"]


class TestNoPlace:
    """Without room elsewhere."""

    def test_nobody_is_evicted_and_the_gang_says_why(self, world: World) -> None:
        """It waits with the number of members, their nodes and what is missing; once there is room it is repaired."""
        world.nodes(2)
        job = running(world, "job", 2)
        lose(world, job.pods[0].node_name)
        assert not evicted(world)
        assert job.reason is Reason.NODES_LOST
        assert job.wait is not None
        assert job.wait.message == (
            f"members on lost nodes ({job.pods[0].node_name}): 1; there is no other place for them now: "
            "1 of 2 members fit now"
        )
        world.nodes(1, prefix="new")
        world.judge()
        assert repaired(world, job)

    def test_a_node_that_comes_back_has_lost_nothing(self, world: World) -> None:
        """Whose place had not been found stays where it is."""
        world.nodes(2)
        job = running(world, "job", 2)
        lose(world, job.pods[0].node_name)
        well(world, job.pods[0].node_name)
        assert job.reason is None
        world.nodes(1, prefix="new")
        world.later(60)
        assert not evicted(world)

    def test_others_leave_that_may_be_evicted_for_it(self, world: World) -> None:
        """A gang of lower priority gives way to a lost member as it does to a gang that starts."""
        world.nodes(3)
        job = running(world, "job", 2, priority=5)
        low = running(world, "low", 1, priority=1)
        lose(world, job.pods[0].node_name)
        assert list(evicted(world)) == ["low-0"]
        assert job.reason is Reason.PREEMPTING
        world.tell(PodGone(low.pods[0].uid))
        world.judge()
        assert repaired(world, job)

    def test_a_gang_whose_queue_is_gone_looks_for_who_may_leave(self, world: World) -> None:
        """Gangs of a Queue that was deleted are as of one that has lent nothing; those who may leave are not enough."""
        world.nodes(3)
        tell(world, queue("q", 24, preemption=PreemptionPolicy()))
        options = Options(queue="q")
        job = running(world, "job", 2, priority=5, options=options)
        running(world, "low", 1, gpus=4, priority=1, options=options)
        running(world, "high", 1, gpus=4, priority=9, options=options)
        world.tell(QueueGone("q"))
        lose(world, job.pods[0].node_name)
        assert not evicted(world)
        assert job.reason is Reason.NODES_LOST

    def test_all_nodes_lost_is_no_reason_to_evict(self, world: World) -> None:
        """As when the control plane has lost the network, and not the nodes."""
        names = world.nodes(4)
        job = running(world, "job", 3)
        lose(world, *names)
        assert not evicted(world)
        assert job.reason is Reason.NODES_LOST

    def test_a_pod_on_its_own_stays(self, world: World) -> None:
        """Nothing would come in its stead; one that has a controller is replaced."""
        world.nodes(4)
        for name, controller in (("alone", ""), ("of-a-set", "set")):
            pod = world.pod(name, 8, controller=controller)
            world.tell(PodSeen(pod))
            world.judge()
            slot = world.state.slot(pod)
            assert slot is not None
            world.tell(PodSeen(replace(pod, node_name=slot.node, phase=Phase.RUNNING)))
        lose(world, "node-0", "node-1")
        assert list(evicted(world)) == ["of-a-set"]


def racked() -> World:
    """Return a world that knows racks."""
    return World(topology_levels=({"name": RACK, "nodeLabel": "topology.kubernetes.io/rack"},))


def racks(world: World, *sizes: int) -> None:
    """Add racks of so many nodes."""
    for index, size in enumerate(sizes):
        world.nodes(size, prefix=f"r{index}", labels={"topology.kubernetes.io/rack": f"rack-{index}"})


def in_one_rack(**terms: Any) -> dict[str, Any]:
    """Return what a PodGroup says that asks for racks."""
    return {"options": Options(topology=TopologyTerms(**terms))}


class TestUnits:
    """Where members have to be together."""

    def test_the_place_is_in_the_same_domain(self) -> None:
        """Though there is more room in another."""
        world = racked()
        racks(world, 3, 6)
        job = running(world, "job", 2, group=in_one_rack(required=RACK))
        rack = job.pods[0].node_name[:2]
        lose(world, job.pods[0].node_name)
        (came,) = replace_evicted(world, job)
        assert job.reserved[came].startswith(rack)

    def test_the_whole_gang_moves_where_its_domain_is_full(self) -> None:
        """All of it is evicted, and all of its places in the other domain are kept."""
        world = racked()
        racks(world, 2, 3)
        filler = running(world, "filler", 2, group=in_one_rack(required=RACK))
        assert {pod.node_name[:2] for pod in filler.pods} == {"r0"}
        lose(world, filler.pods[0].node_name)
        messages = evicted(world)
        assert set(messages) == {"filler-0", "filler-1"}
        assert "together with members whose nodes are lost" in messages["filler-1"]

    def test_only_the_slice_moves(self) -> None:
        """Members that have to share a domain with the lost one go with it, and no others."""
        world = racked()
        racks(world, 2, 2, 2)
        group = in_one_rack(slices=(Slice(2, RACK),))
        job = running(world, "job", 4, group=group)
        lose(world, job.pods[1].node_name)
        assert set(evicted(world)) == {"job-0", "job-1"}

    def test_who_is_not_to_be_evicted_does_not_move(self) -> None:
        """A gang that is not preemptible waits instead."""
        world = racked()
        racks(world, 2, 3)
        options = Options(preemptible=False, topology=TopologyTerms(required=RACK))
        job = running(world, "job", 2, group={"options": options})
        lose(world, job.pods[0].node_name)
        assert not evicted(world)
        assert job.reason is Reason.NODES_LOST


class TestQuota:
    """What queues are charged."""

    def test_the_lost_and_those_in_their_stead_count_once(self, world: World) -> None:
        """A queue that is full repairs its gangs, and another that would fit the difference gets nothing more."""
        tell(world, queue("q", 16))
        world.nodes(5)
        job = running(world, "job", 2, group={"options": Options(queue="q")})
        lose(world, job.pods[0].node_name)
        assert used(world) == 16
        replace_evicted(world, job)
        assert used(world) == 16
        assert len(job.reserved) == 1
        job.run()
        world.judge()
        assert used(world) == 16
        assert job.reason is None


def used(world: World) -> int:
    """Return how many GPUs queue q is charged."""
    return world.state.used("q", "all", GPU)


def test_a_restart_goes_on(world: World) -> None:
    """Killed at any moment: who is lost is lost at once, and who was evicted has a place kept again."""
    world.nodes(4)
    job = running(world, "job", 3)
    lose(world, job.pods[0].node_name)
    assert len(evicted(world)) == 1
    job.see(0, deleting=True)
    after = world.restart()
    for node in world.state.nodes():
        plain = tuple(taint for taint in node.taints if not taint.key.startswith("muster.dev/"))
        after.tell(NodeSeen(replace(node, taints=plain)))
    group = job.gang.group
    assert group is not None
    after.tell(GroupSeen(group))
    for pod in job.pods:
        after.tell(PodSeen(pod))
    after.tell(Rebuild())
    after.judge()
    assert not evicted(after)
    other = after.gang("other", 1)
    assert other.reason is Reason.BEHIND_HEAD
    again = Job(after, job.ref, [*job.pods, after.pod("again", 8, group=job.ref)])
    after.tell(PodSeen(again.pods[-1]))
    after.judge()
    assert again.reserved == {"again": "node-3"}


def test_a_node_is_back_in_time_though_its_devices_changed_meanwhile(world: World) -> None:
    """What a driver publishes says nothing about whether it answers: it is lost no longer when it is well again."""
    (name,) = world.nodes(1)
    lose(world, name)
    well(world, name)
    for generation in (1, 2):
        world.tell(SliceSeen(slice_of(name, generation=generation)))
    waits = world.gang("waits", 1)
    assert waits.reason is Reason.NO_NODE_MATCHES
    world.later(60)
    assert waits.reserved == {"waits-0": name}
