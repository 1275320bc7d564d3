"""Requests for nodes: who asks, for what, how often, and when a request is withdrawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import (
    GroupSeen,
    NamespaceSeen,
    NodeRequestGone,
    NodeRequestSeen,
    PodGone,
    PodSeen,
    QueueSeen,
    Rebuild,
)
from extender.admission.noderequests import KnownNodeRequests, NodeVerdict, decide
from extender.ledger.effects import NodeAsk
from extender.objects import keys
from extender.objects.meta import ObjectRef
from extender.objects.noderequest import NodeRequest, NodeRequestPhase
from extender.objects.podgroup import GroupRef
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.reason import Reason
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.table import LABEL
from extender.objects.workload import MANAGE_JOBS
from tests.admission.test_starts import Submitted
from tests.worlds import GPU, Job, World

CLASS = "check-capacity.autoscaling.x-k8s.io"
REF = GroupRef(COSCHEDULING, "default", "train")
PENDING = NodeRequest(REF, "r", "u", CLASS, (2,))
OTHER, TWIN = replace(PENDING, counts=(3,)), replace(PENDING, name="s")
FAILED = replace(PENDING, phase=NodeRequestPhase.FAILED, since=1000.0, detail="Failed (SoldOut)")


@pytest.mark.parametrize(
    ("requests", "now", "verdict"),
    [
        pytest.param([], 0, NodeVerdict(ask=1), id="none"),
        pytest.param([PENDING], 0, NodeVerdict(PENDING), id="pending"),
        pytest.param(
            [replace(PENDING, phase=NodeRequestPhase.PROVISIONED)],
            9999,
            NodeVerdict(replace(PENDING, phase=NodeRequestPhase.PROVISIONED)),
            id="provisioned",
        ),
        pytest.param([replace(PENDING, deleting=True)], 0, NodeVerdict(ask=1), id="going"),
        pytest.param(
            [replace(PENDING, counts=(3,))],
            0,
            NodeVerdict(ask=1, withdraw=(replace(PENDING, counts=(3,)),)),
            id="other",
        ),
        pytest.param(
            [replace(PENDING, provisioning_class="x")],
            0,
            NodeVerdict(ask=1, withdraw=(replace(PENDING, provisioning_class="x"),)),
            id="class",
        ),
        pytest.param([FAILED], 1059, NodeVerdict(FAILED, again_at=1060.0), id="pause"),
        pytest.param([FAILED], 1060, NodeVerdict(FAILED, ask=2), id="again"),
        pytest.param(
            [replace(FAILED, attempt=3)],
            1060,
            NodeVerdict(replace(FAILED, attempt=3), again_at=1240.0),
            id="longer pause",
        ),
        pytest.param(
            [replace(FAILED, attempt=90)],
            1060,
            NodeVerdict(replace(FAILED, attempt=90), again_at=2800.0),
            id="longest pause",
        ),
        pytest.param(
            [FAILED, replace(PENDING, attempt=2, name="s")],
            2000,
            NodeVerdict(replace(PENDING, attempt=2, name="s"), withdraw=(FAILED,)),
            id="newest counts",
        ),
        pytest.param(
            [replace(PENDING, name="s"), PENDING],
            0,
            NodeVerdict(PENDING, withdraw=(replace(PENDING, name="s"),)),
            id="twin",
        ),
    ],
)
def test_one_request_stands_and_the_next_comes_after_a_pause(
    requests: list[NodeRequest], now: float, verdict: NodeVerdict
) -> None:
    """The newest attempt counts; others go; a failed one is followed by the next after a pause that doubles."""
    assert decide((2,), CLASS, requests, now, 60.0) == verdict


def test_known_requests_are_told_apart_by_their_uids() -> None:
    """One that is made again under its name is another one, whichever news comes first."""
    known = KnownNodeRequests()
    known.put(PENDING)
    known.put(replace(PENDING, uid="v"))
    assert known.drop("u") == PENDING
    assert (len(known), known.drop("u"), known.refs()) == (1, None, (REF,))
    assert known.drop("v") == replace(PENDING, uid="v")
    assert (len(known), known.of(REF)) == (0, ())


def asking(**settings: Any) -> World:
    """Return a world whose gangs ask for nodes."""
    return World(provisioning_class=CLASS, **settings)


def asks(world: World) -> list[NodeAsk]:
    """Take what is asked for."""
    return [each for each in world.effects().node_requests.values() if isinstance(each, NodeAsk)]


def withdrawn(world: World) -> list[str]:
    """Take the names of the requests that are withdrawn."""
    return [each.name for each in world.effects().node_requests.values() if isinstance(each, NodeRequest)]


def stand(world: World, ask: NodeAsk, **fields: Any) -> NodeRequest:
    """Let a request be there as it was asked for."""
    counts = tuple(sorted(each.count for each in ask.pod_sets))
    request = NodeRequest(ask.ref, ask.name, f"uid-{ask.name}", CLASS, counts, ask.attempt)
    world.tell(NodeRequestSeen(replace(request, **fields)))
    world.judge()
    return replace(request, **fields)


def test_a_gang_asks_once_for_all_that_it_lacks() -> None:
    """One request with all pods, its name on the members, and the reason says so."""
    world = asking(provisioning_parameters=["maxRunDurationSeconds=60"])
    job = world.gang("train", 3)
    effects = world.effects()
    (ask,) = effects.node_requests.values()
    assert isinstance(ask, NodeAsk)
    assert (ask.ref, ask.attempt, [each.count for each in ask.pod_sets]) == (job.ref, 1, [3])
    assert (ask.provisioning_class, ask.parameters) == (CLASS, {"maxRunDurationSeconds": "60"})
    assert ask.pod_sets[0].source == ObjectRef("v1", "Pod", "default", "train-0", job.pods[0].uid)
    assert effects.annotations.keys() == {pod.uid for pod in job.pods}
    marks = effects.annotations[job.pods[0].uid].annotations
    assert marks["autoscaling.x-k8s.io/consume-provisioning-request"] == ask.name
    assert marks["cluster-autoscaler.kubernetes.io/provisioning-class-name"] == CLASS
    assert job.wait is not None
    assert job.reason is Reason.AWAITING_NODES
    assert f"ProvisioningRequest default/{ask.name} asks for nodes for 3 pods: it is being made" in job.wait.message
    world.judge()
    request = stand(world, ask)
    assert "has not answered yet" in job.wait.message
    world.tell(NodeRequestSeen(replace(request, detail="Accepted")))
    world.judge()
    assert job.wait.message.endswith("Accepted")
    effects = world.effects()
    assert not effects.node_requests
    assert not effects.annotations


def test_it_is_placed_when_nodes_come_and_the_request_goes_when_it_has_started() -> None:
    """While it is being placed the request stands: what it booked is still needed."""
    world = asking()
    job = world.gang("train", 2)
    (ask,) = asks(world)
    request = stand(world, ask, phase=NodeRequestPhase.PROVISIONED, detail="Provisioned")
    world.nodes(2)
    world.judge()
    assert job.reason is Reason.AWAITING_MEMBERS
    assert not withdrawn(world)
    job.run()
    world.judge()
    assert withdrawn(world) == [request.name]
    world.tell(NodeRequestGone(request.uid))
    world.judge()
    assert not world.effects().node_requests


def test_room_that_comes_free_does_as_well() -> None:
    """A gang that starts while nobody has answered needs no nodes any more."""
    world = asking()
    world.nodes(2)
    other = world.gang("other", 2)
    other.run()
    job = world.gang("train", 2)
    (ask,) = asks(world)
    stand(world, ask)
    other.finish()
    world.judge()
    job.run()
    world.judge()
    assert withdrawn(world) == [ask.name]


def test_a_gang_that_is_gone_leaves_no_request() -> None:
    """Whether the request was there before, or comes after it."""
    world = asking()
    job = world.gang("train", 1, min_member=1, api=LABEL)
    (ask,) = asks(world)
    world.tell(PodGone(job.pods[0].uid))
    world.judge()
    stand(world, ask)
    assert withdrawn(world) == [ask.name]


def test_without_pods_nothing_is_asked_for() -> None:
    """A PodGroup whose pods are deleted lacks these, and no nodes."""
    world = asking()
    job = world.gang("train", 2)
    (ask,) = asks(world)
    stand(world, ask)
    for pod in job.pods:
        world.tell(PodGone(pod.uid))
    world.judge()
    assert withdrawn(world) == [ask.name]


def test_one_that_fails_is_asked_for_again_after_a_pause() -> None:
    """The reason names what failed; the second attempt takes the place of the first."""
    world = asking()
    job = world.gang("train", 2)
    (ask,) = asks(world)
    failed = stand(world, ask, phase=NodeRequestPhase.FAILED, since=world.now, detail="Failed (SoldOut): no H100")
    assert job.wait is not None
    assert job.wait.message.endswith("Failed (SoldOut): no H100; it is to be asked again")
    assert not world.effects().node_requests
    world.later(59)
    assert not world.effects().node_requests
    due = world.admission.next_tick()
    assert due is not None
    assert due <= world.clock.monotonic() + 1.0
    world.later(1)
    (again,) = asks(world)
    assert (again.attempt, again.name != ask.name) == (2, True)
    stand(world, again)
    assert withdrawn(world) == [failed.name]


def test_what_does_not_come_to_be_is_asked_for_once_more() -> None:
    """A write that was lost leaves no gang waiting for what nobody knows of; the name is the same."""
    world = asking()
    world.gang("train", 2)
    (ask,) = asks(world)
    world.later(30)
    assert not asks(world)
    world.later(31)
    assert asks(world) == [ask]


def test_after_a_restart_the_request_that_is_there_counts() -> None:
    """It is found by the gang that it names, also one of which an attempt has failed."""
    world = asking()
    job = world.gang("train", 2)
    (ask,) = asks(world)
    successor = world.restart(provisioning_class=CLASS)
    assert job.gang.group is not None
    request = NodeRequest(ask.ref, ask.name, "u", CLASS, (2,), 3)
    successor.tell(NodeRequestSeen(request))
    successor.tell(GroupSeen(job.gang.group))
    for pod in job.pods:
        successor.tell(PodSeen(pod))
    successor.tell(Rebuild())
    successor.judge()
    effects = successor.effects()
    assert not effects.node_requests
    assert len(effects.annotations) == 2


def test_another_size_is_asked_for_anew() -> None:
    """A ProvisioningRequest does not change: one for other pods takes its place."""
    world = asking()
    job = world.gang("train", 3, min_member=2)
    (ask,) = asks(world)
    request = stand(world, ask)
    assert job.gang.group is not None
    world.tell(GroupSeen(replace(job.gang.group, min_member=3)))
    world.judge()
    effects = world.effects()
    (made,) = [each for each in effects.node_requests.values() if isinstance(each, NodeAsk)]
    assert [each.count for each in made.pod_sets] == [3]
    assert effects.node_requests[request.key] == request


def test_pods_of_several_kinds_are_asked_for_by_kind() -> None:
    """A leader that asks for no GPU is another kind than its workers."""
    world = asking()
    job = Job(world, REF)
    world.group(REF, 3)
    job.pods = [world.pod("train-0", 0, group=REF), *(world.pod(f"train-{n}", 8, group=REF) for n in (1, 2))]
    for pod in job.pods:
        world.tell(PodSeen(pod))
    world.judge()
    (ask,) = asks(world)
    assert sorted((each.source.name, each.count) for each in ask.pod_sets) == [("train-0", 1), ("train-1", 2)]


def test_more_kinds_than_a_request_has_room_for_are_not_asked_for() -> None:
    """The API takes 32: the gang keeps its reason."""
    world = asking()
    world.group(REF, 33)
    job = Job(world, REF, [world.pod(f"train-{n}", 0, cpu=1000 + n, group=REF) for n in range(33)])
    for pod in job.pods:
        world.tell(PodSeen(pod))
    world.judge()
    assert not world.effects().node_requests
    assert job.reason is not Reason.AWAITING_NODES


def test_a_pod_that_names_no_group_is_left_to_the_autoscaler() -> None:
    """It makes nodes for such pods by itself."""
    world = asking()
    world.tell(PodSeen(world.pod("single", 8)))
    world.judge()
    assert not world.effects().node_requests


def queue(quota: int) -> Queue:
    """Return a Queue called team with a flavor that has nodes of its own."""
    flavors = (Flavor("h100", {GPU: Quota(quota)}, (("gpu", "h100"),)),)
    return Queue("team", uid="team", flavors=flavors)


def test_who_lacks_quota_asks_for_no_nodes() -> None:
    """Once there is quota, nodes of the flavor are asked for that has it."""
    world = asking()
    world.tell(QueueSeen(queue(0)))
    job = world.gang("train", 2, options=keys.Options(queue="team"))
    assert job.reason is Reason.EXCEEDS_QUOTA
    assert not world.effects().node_requests
    world.tell(QueueSeen(queue(16)))
    world.judge()
    (ask,) = asks(world)
    assert ask.selector == {"gpu": "h100"}
    stand(world, ask)
    world.tell(QueueSeen(queue(0)))
    world.judge()
    assert withdrawn(world) == [ask.name]


def test_who_waits_behind_another_gang_asks_for_no_nodes() -> None:
    """Room that is kept for the first would do for the second."""
    world = asking()
    world.nodes(2)
    running = world.gang("running", 1)
    running.run()
    first, second = world.gang("first", 2), world.gang("second", 1)
    assert (first.reason, second.reason) == (Reason.AWAITING_NODES, Reason.BEHIND_HEAD)
    assert [ask.ref.name for ask in asks(world)] == ["first"]


def test_a_suspended_job_asks_with_its_template() -> None:
    """It has no pods: what they ask for stands in the Job, and those that come name the request."""
    world = asking()
    world.tell(QueueSeen(Queue("team", uid="team")))
    world.tell(NamespaceSeen("default", {MANAGE_JOBS: "true"}))
    train = Submitted(world, "train", pods=2)
    world.judge()
    effects = world.effects()
    assert not effects.annotations
    (ask,) = effects.node_requests.values()
    assert isinstance(ask, NodeAsk)
    assert [(str(each.source), each.count) for each in ask.pod_sets] == [("Job default/train", 2)]
    stand(world, ask, phase=NodeRequestPhase.PROVISIONED)
    world.nodes(2)
    world.judge()
    train.carry_out()
    train.create(0, 1)
    world.judge()
    assert world.effects().annotations.keys() == {pod.uid for pod in train.pods.values()}
    train.job.run()
    world.judge()
    assert withdrawn(world) == [ask.name]


def test_without_a_class_nothing_is_asked_for() -> None:
    """And requests of others change nothing."""
    world = World()
    job = world.gang("train", 2)
    assert job.reason is Reason.NO_NODE_MATCHES
    assert not world.effects().node_requests
