"""What is written about gangs, and on which object."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from extender.admission.events import GroupSeen, PodGone, PodSeen, QueueSeen
from extender.control.ports import ApiError
from extender.objects.keys import QUEUE, Options, read_options
from extender.objects.meta import ObjectRef
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.queue import Queue
from extender.objects.reason import Problem
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.leaderworkerset import LEADER_WORKER_SET
from extender.objects.sources.native import NATIVE
from extender.objects.sources.table import LABEL
from extender.objects.sources.volcano import VOLCANO
from extender.objects.topology import TopologyTerms
from tests.control.conftest import Muster


@pytest.mark.parametrize(
    ("api", "version", "statuses"),
    [
        (COSCHEDULING, "scheduling.x-k8s.io/v1alpha1", 1),
        (NATIVE, "scheduling.k8s.io/v1beta1", 0),
        (VOLCANO, "scheduling.volcano.sh/v1beta1", 0),
    ],
)
async def test_the_reason_stands_on_the_gangs_own_object(muster: Muster, api: str, version: str, statuses: int) -> None:
    """Events are about the PodGroup in its own API; a status is written only where nobody else writes one."""
    muster.sync()
    ref = GroupRef(api, "default", "job")
    minimums = (("leader", 1),)
    muster.controller.tell(GroupSeen(PodGroup(ref, "job-uid", min_member=2, role_minimums=minimums)))
    muster.controller.tell(PodSeen(muster.pod("job-0", 8, ref)))
    await asyncio.sleep(5)
    event, copy = muster.api.events
    assert (event.about.api_version, event.about.kind, event.about.uid) == (version, "PodGroup", "job-uid")
    assert (event.reason, event.message) == ("RoleMembersMissing", "0 of 1 members of role leader exist")
    assert (copy.about.kind, copy.reason, copy.message) == ("Pod", event.reason, event.message)
    assert len(muster.api.statuses) == statuses


async def test_the_reason_stands_on_another_operators_object(muster: Muster) -> None:
    """Where a JobSet, say, describes the gang, events are about that."""
    muster.sync()
    ref, about = GroupRef(LEADER_WORKER_SET, "default", "llm-0"), ObjectRef("x/v1", "X", "default", "llm", "u")
    muster.controller.tell(GroupSeen(PodGroup(ref, "u/0", min_member=2, about=about)))
    muster.controller.tell(PodSeen(muster.pod("llm-0", 8, ref)))
    await asyncio.sleep(5)
    first = ObjectRef("v1", "Pod", "default", "llm-0", "uid-llm-0")
    assert [(event.about.kind, event.reason) for event in muster.api.events] == [
        ("X", "MembersMissing"),
        ("Pod", "MembersMissing"),
    ]
    assert [event.about for event in muster.api.events] == [about, replace(first, uid=muster.api.events[1].about.uid)]
    assert muster.api.statuses == []


class TestWhoIsTold:
    """Where people look for why a gang waits: its object, what made that or its pods, and its first pod."""

    JOB = ObjectRef("batch/v1", "Job", "default", "train", "job")
    TRAIN_JOB = ObjectRef("trainer.kubeflow.org/v1alpha1", "TrainJob", "default", "train", "train-job")

    async def told(self, muster: Muster, ref: GroupRef, group: PodGroup | None, members: int = 2) -> list[str]:
        """Return what is told, and of what kind of object, of a gang whose pods a Job makes."""
        muster.sync()
        if group is not None:
            muster.controller.tell(GroupSeen(group))
        for index in range(members):
            muster.controller.tell(PodSeen(replace(muster.pod(f"train-{index}", 8, ref), owner=self.JOB)))
        await asyncio.sleep(5)
        return [f"{event.about.kind} {event.reason}" for event in muster.api.events]

    async def test_the_object_that_makes_the_pods_is_told_too(self, muster: Muster) -> None:
        """A Job whose pods name a PodGroup, which does not exist, or is in a Queue that does not."""
        ref = GroupRef(COSCHEDULING, "default", "train")
        assert await self.told(muster, ref, None) == ["Pod PodGroupMissing", "Job PodGroupMissing"]
        muster.api.events.clear()
        muster.controller.tell(GroupSeen(PodGroup(ref, "u", min_member=2, options=Options(queue="none"))))
        await asyncio.sleep(5)
        told = {f"{event.about.kind} {event.reason}" for event in muster.api.events}
        assert told == {"PodGroup UnknownQueue", "Job UnknownQueue", "Pod UnknownQueue"}
        assert len({event.message for event in muster.api.events}) == 1

    async def test_what_made_the_podgroup_comes_before_what_made_the_pods(self, muster: Muster) -> None:
        """The topmost that is known; only the first pod is told of, however many there are."""
        ref = GroupRef(COSCHEDULING, "default", "train")
        group = PodGroup(ref, "u", min_member=4, owner=self.TRAIN_JOB)
        kinds = [each.partition(" ")[0] for each in await self.told(muster, ref, group, members=3)]
        assert kinds == ["PodGroup", "TrainJob", "Pod"]

    async def test_pods_that_come_later_are_told_what_the_podgroup_was_told(self, muster: Muster) -> None:
        """A PodGroup that is created before its pods has said what is wrong with it when they come."""
        ref = GroupRef(COSCHEDULING, "default", "train")
        group = PodGroup(ref, "u", min_member=2, options=Options(queue="none"))
        assert await self.told(muster, ref, group, members=0) == ["PodGroup UnknownQueue"]
        muster.controller.tell(PodSeen(replace(muster.pod("train-0", 8, ref), owner=self.JOB)))
        muster.controller.tell(PodSeen(replace(muster.pod("train-1", 8, ref), owner=self.JOB)))
        await asyncio.sleep(5)
        kinds = [f"{event.about.kind} {event.reason}" for event in muster.api.events[1:]]
        assert kinds[-2:] == ["Job UnknownQueue", "Pod UnknownQueue"]

    async def test_numbers_that_change_are_told_on_the_gangs_own_object_alone(self, muster: Muster) -> None:
        """Else a gang that waits for long would fill the Events of all three."""
        ref = GroupRef(COSCHEDULING, "default", "train")
        assert len(await self.told(muster, ref, PodGroup(ref, "u", min_member=4), members=2)) == 3
        muster.controller.tell(PodSeen(muster.pod("train-2", 8, ref)))
        await asyncio.sleep(5)
        assert [event.about.kind for event in muster.api.events[3:]] == ["PodGroup"]

    async def test_pods_that_name_no_group_are_told_one_by_one(self, muster: Muster) -> None:
        """What made them is not: a ReplicaSet makes thousands."""
        muster.sync()
        muster.controller.tell(PodSeen(replace(muster.pod("web", 8), owner=self.JOB)))
        await asyncio.sleep(5)
        assert {event.about.kind for event in muster.api.events} == {"Pod"}


async def test_a_status_that_was_refused_is_written_with_the_next_change(muster: Muster) -> None:
    """What could not be written does not count as said, even if the gang then stands as it did before."""
    muster.nodes(1)
    muster.sync()
    muster.api.status_failures.append(ApiError(409, "Conflict", "the object was changed"))
    pods = muster.gang("train", 2, present=1)
    await asyncio.sleep(5)
    assert muster.api.statuses == []
    muster.controller.tell(PodSeen(pods[1]))
    await asyncio.sleep(1)
    muster.controller.tell(PodGone(pods[1].uid))
    await asyncio.sleep(5)
    assert muster.api.statuses[-1][0] == "train"


async def test_a_status_that_was_denied_is_written_though_nothing_changes(muster: Muster) -> None:
    """A webhook may deny it for a while: a minute later it is tried again."""
    muster.nodes(1)
    muster.sync()
    muster.api.status_failures += [ApiError(403, "Forbidden", "denied by a webhook")] * 2
    muster.gang("train", 2, present=1)
    await asyncio.sleep(100)
    assert muster.api.statuses == []
    await asyncio.sleep(30)
    assert [name for name, *_ in muster.api.statuses] == ["train"]


async def test_a_podgroup_without_pods_says_that_it_has_none_yet(muster: Muster) -> None:
    """At once if it has a key of Muster's, even one that there is not; one without is left alone. No Event says so."""
    muster.sync()
    ours, foreign = (GroupRef(COSCHEDULING, "default", name) for name in ("ours", "foreign"))
    misspelt = read_options({}, {"muster.dev/topology-requierd": "rack"})
    peers = Options(peers=TopologyTerms(required="rack"), peer_queue="lq", problems=(Problem("spec", "odd"),))
    muster.controller.tell(GroupSeen(PodGroup(ours, "ours-uid", min_member=2, options=misspelt)))
    muster.controller.tell(GroupSeen(PodGroup(foreign, "foreign-uid", min_member=2, options=peers)))
    await asyncio.sleep(5)
    ((name, status),) = muster.api.statuses
    assert (name, status.phase, status.reason) == ("ours", "Pending", "MembersMissing")
    assert status.message == "0 of 2 members exist"
    assert [(event.reason, event.warning) for event in muster.api.events] == [("InvalidField", True)]
    assert muster.sample("muster_gangs", phase="Pending") == 0
    assert muster.sample("muster_gangs_waiting", reason="MembersMissing") == 0


async def test_a_podgroup_without_pods_names_a_queue_that_does_not_exist(muster: Muster) -> None:
    """What is wrong is told before there is a pod, and no more as soon as it is mended; the Queue counts no gang."""
    muster.sync()
    ref = GroupRef(COSCHEDULING, "default", "train")
    options = read_options({QUEUE: "team"}, {})
    muster.controller.tell(GroupSeen(PodGroup(ref, "train-uid", min_member=2, options=options)))
    await asyncio.sleep(5)
    message = "no Queue is called team; known: none"
    assert [(status.reason, status.message) for _, status in muster.api.statuses] == [("UnknownQueue", message)]
    assert [(e.reason, e.message, e.warning) for e in muster.api.events] == [("UnknownQueue", message, True)]
    muster.controller.tell(QueueSeen(Queue("team", uid="team")))
    await asyncio.sleep(5)
    assert muster.api.statuses[-1][-1].reason == "MembersMissing"
    assert muster.api.queue_statuses[-1][-1].row.pending_gangs == 0
    assert len(muster.api.events) == 1


async def test_a_podgroup_without_pods_that_is_invalid_says_so(muster: Muster) -> None:
    """A field that cannot be used is told where a key of Muster's says for whom the PodGroup is."""
    muster.sync()
    ref = GroupRef(VOLCANO, "default", "train")
    group = PodGroup(ref, "u", options=read_options({QUEUE: "team"}, {}), problem=Problem("spec.minMember", "is -1"))
    muster.controller.tell(GroupSeen(group))
    await asyncio.sleep(5)
    assert [event.reason for event in muster.api.events] == ["InvalidPodGroup"]


async def test_a_podgroup_whose_last_pod_has_gone_does_not_say_that_it_runs(muster: Muster) -> None:
    """Its status counts what is there."""
    muster.nodes(1)
    muster.sync()
    (pod,) = muster.gang("train", 1)
    await asyncio.sleep(5)
    muster.controller.tell(PodSeen(replace(pod, node_name="node-0", phase=Phase.RUNNING)))
    await asyncio.sleep(5)
    assert muster.api.statuses[-1][-1].running == 1
    muster.controller.tell(PodGone(pod.uid))
    await asyncio.sleep(5)
    status = muster.api.statuses[-1][-1]
    assert (status.phase, status.scheduled, status.running, status.reason) == ("Pending", 0, 0, "MembersMissing")


async def test_a_status_that_is_no_longer_true_is_found_after_a_restart(muster: Muster) -> None:
    """A PodGroup whose pods went while no Muster ran has a status of Muster's; one that finished keeps its own."""
    for name, told in (("gone", "Running"), ("done", "Finished"), ("foreign", "")):
        ref = GroupRef(COSCHEDULING, "default", name)
        muster.controller.tell(GroupSeen(PodGroup(ref, f"{name}-uid", min_member=2, told=told)))
    muster.sync()
    await asyncio.sleep(5)
    assert [(name, status.phase) for name, status in muster.api.statuses] == [("gone", "Pending")]


async def test_a_gang_that_has_finished_stays_finished_while_its_pods_are_cleaned_up(muster: Muster) -> None:
    """A time to live takes the pods of a finished job one by one; a new pod begins anew."""
    muster.sync()
    pods = [replace(pod, phase=Phase.SUCCEEDED, node_name="n") for pod in muster.gang("train", 2, present=0)]
    for pod in pods:
        muster.controller.tell(PodSeen(pod))
    await asyncio.sleep(5)
    ref, told = pods[0].group, muster.api.statuses[-1][-1].phase
    muster.controller.tell(GroupSeen(PodGroup(ref, "train-uid", min_member=2, created="train", told=told)))
    for pod in pods:
        muster.controller.tell(PodGone(pod.uid))
        await asyncio.sleep(5)
    assert [(status.phase, status.succeeded) for _, status in muster.api.statuses] == [("Finished", 2)]
    (row,) = [seen for seen in muster.controller.inspection.gangs() if seen.ref == ref]
    assert (row.phase, row.wait) == ("Finished", None)
    muster.controller.tell(PodSeen(muster.pod("train-2", 8, ref)))
    await asyncio.sleep(5)
    assert muster.api.statuses[-1][-1].phase == "Pending"


async def start(muster: Muster, pods: list[Pod]) -> list[str]:
    """Have all pods bound to the nodes that they were promised, and run there; return the nodes."""
    nodes = {pod.uid: slot.node for pod in pods if (slot := muster.state.slot(pod)) is not None}
    answers = await asyncio.gather(*(muster.bind(pod, nodes[pod.uid]) for pod in pods))
    assert set(answers) == {""}
    for pod in pods:
        muster.controller.tell(PodSeen(replace(pod, node_name=nodes[pod.uid], phase=Phase.RUNNING)))
    await asyncio.sleep(1)
    return sorted(nodes.values())


async def test_a_gang_that_starts_at_once_leaves_one_event(muster: Muster) -> None:
    """It says on which nodes and after how long; members that join it later, and looking again, add none."""
    muster.nodes(3)
    muster.sync()
    pods = muster.gang("train", 3, min_member=2, present=2)
    await asyncio.sleep(0.2)
    nodes = await start(muster, pods[:2])
    (event,) = muster.api.events
    assert (event.about.kind, event.about.uid, event.reason, event.warning) == (
        "PodGroup",
        "train-uid",
        "Started",
        False,
    )
    text = f"2 members bound, minMember is 2; on 2 nodes: {', '.join(nodes)}; 0.2 s after the gang was first seen"
    assert event.message == text
    muster.controller.tell(PodSeen(pods[2]))
    await asyncio.sleep(0.2)
    await start(muster, pods[2:])
    assert len(muster.api.events) == 1


async def test_what_made_a_gang_hears_that_it_started(muster: Muster) -> None:
    """The Job of its pods, in the same words: people look at what they have submitted."""
    muster.nodes(2)
    muster.sync()
    job = ObjectRef("batch/v1", "Job", "default", "train", "job-uid")
    pods = [replace(pod, owner=job) for pod in muster.gang("train", 2, present=0)]
    for pod in pods:
        muster.controller.tell(PodSeen(pod))
    await asyncio.sleep(0.2)
    await start(muster, pods)
    assert {(event.about.kind, event.reason) for event in muster.api.events} == {
        ("PodGroup", "Started"),
        ("Job", "Started"),
    }
    assert len({event.message for event in muster.api.events}) == 1


async def test_a_gang_without_an_object_leaves_the_event_on_its_first_pod(muster: Muster) -> None:
    """Pods say by their labels that they start together; a pod without a gang leaves none."""
    muster.nodes(3)
    muster.sync()
    ref = GroupRef(LABEL, "default", "job")
    options = Options(min_member=2)
    pods = [replace(muster.pod(f"job-{index}", 8, ref), options=options) for index in range(2)]
    for pod in (*pods, single := muster.pod("alone", 8)):
        muster.controller.tell(PodSeen(pod))
    await asyncio.sleep(0.2)
    await start(muster, [*pods, single])
    assert [(event.about.kind, event.about.name, event.reason) for event in muster.api.events] == [
        ("Pod", "job-0", "Started")
    ]


async def test_a_start_is_told_when_the_minimum_is_bound(muster: Muster) -> None:
    """Not when the barrier opens: a Binding may fail after that."""
    muster.nodes(2)
    muster.sync()
    pods = muster.gang("train", 2)
    await asyncio.sleep(0.2)
    nodes = [slot.node for slot in map(muster.state.slot, pods) if slot is not None]
    assert await asyncio.gather(*map(muster.bind, pods, nodes)) == ["", ""]
    for pod, node, told in zip(pods, nodes, (0, 1), strict=True):
        muster.controller.tell(PodSeen(replace(pod, node_name=node)))
        await asyncio.sleep(5)
        assert [event.reason for event in muster.api.events].count("Started") == told


async def test_gangs_that_ran_before_leave_no_event_when_muster_starts(muster: Muster) -> None:
    """Another Muster told of them."""
    muster.nodes(2)
    for pod in muster.gang("train", 2):
        muster.controller.tell(PodSeen(replace(pod, node_name="node-0", phase=Phase.RUNNING)))
    muster.sync()
    await asyncio.sleep(5)
    assert muster.api.events == []


async def test_a_long_list_of_nodes_is_cut(muster: Muster) -> None:
    """An Event has room for a kilobyte."""
    muster.nodes(10)
    muster.sync()
    pods = muster.gang("train", 10)
    await asyncio.sleep(0.2)
    await start(muster, pods)
    assert "on 10 nodes: node-0, node-1," in muster.api.events[-1].message
    assert " and 2 more;" in muster.api.events[-1].message
