"""What kubelets make of pods: those that they turn away, and what they give to the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import (
    Arrive,
    BindVerdict,
    Decide,
    NodeGone,
    NodeSeen,
    NodeTopologySeen,
    Outcome,
    PodGone,
    PodSeen,
    Rebuild,
    StandDown,
)
from extender.ledger.effects import CollectedEffects, Fact, Note, Observation
from extender.objects.holdings import DeviceHolding
from extender.objects.node import Node
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Phase, Pod, Rejection, RejectionReason
from extender.objects.reason import Reason
from tests.worlds import GPU, Job, World

MISALIGNED = Rejection(
    RejectionReason.TOPOLOGY_AFFINITY, "Pod was rejected: Resources cannot be allocated with Topology locality"
)
REJECTED = (
    "pod waits: RejectedByKubelet: "
    "kubelets rejected such pods on nodes that have room; 0 of 1 members fit on other nodes"
)


def turned_away(pod: Pod, node: str) -> Pod:
    """Return a pod as its kubelet leaves it."""
    return replace(pod, node_name=node, phase=Phase.FAILED, rejection=MISALIGNED)


def send(world: World, pod: Pod, node: str, rejection: Rejection | None = MISALIGNED) -> Pod:
    """Bind a pod, and have its kubelet turn it away, or run it."""
    bound = replace(pod, node_name=node)
    world.tell(PodSeen(bound))
    phase = Phase.RUNNING if rejection is None else Phase.FAILED
    seen = replace(bound, phase=phase, rejection=rejection)
    world.tell(PodSeen(seen))
    world.tell(Decide())
    return seen


def renew(job: Job, index: int) -> Pod:
    """Do as the controller of a job does: make a member anew."""
    old = job.pods[index]
    job.world.tell(PodGone(old.uid))
    fresh: dict[str, Any] = {"uid": f"{old.uid}+", "node_name": "", "phase": Phase.PENDING, "rejection": None}
    job.pods[index] = replace(old, **fresh)
    job.world.tell(PodSeen(job.pods[index]))
    job.world.tell(Decide())
    return job.pods[index]


def notes(world: World) -> list[Note]:
    """Return the warnings about kubelets since last time."""
    return [note for note in world.effects().notes if note.reason == "PodRejected"]


def test_a_member_made_anew_goes_to_another_node(world: World) -> None:
    """The node whose kubelet turned it away is left out, though there is room; no loop begins."""
    world.nodes(2)
    job = world.gang("a", 1, gpus=4)
    first = job.reserved["a-0"]
    job.bind(0)
    job.see(0, node_name=first)
    job.see(0, phase=Phase.FAILED, rejection=MISALIGNED)
    renew(job, 0)
    assert job.reserved["a-0"] != first


def test_it_counts_for_every_gang_and_for_single_pods(world: World) -> None:
    """Unlike what kube-scheduler refuses, the kubelet's refusal does not depend on whose pod it is."""
    names = world.nodes(2)
    send(world, world.pod("early", 4), names[0])
    assert set(world.gang("a", 2, gpus=4).reserved.values()) == {names[1]}
    assert world.ask(world.pod("late", 4)).text == REJECTED
    assert world.ask(world.pod("smaller", 2)).accepted == [names[0]]


def test_members_that_are_on_their_way_there_are_moved(world: World) -> None:
    """Also one that has arrived at the barrier: it would fail too."""
    names = world.nodes(3)
    job = world.gang("a", 2, gpus=8)
    job.bind(0)
    taken = job.reserved["a-0"]
    world.effects()
    send(world, world.pod("foreign", 8, scheduler_name="other", node_name=taken), taken)
    assert set(job.reserved.values()) == set(names) - {taken}
    assert world.effects().refused == {job.pods[0].uid: f"node {taken} is no longer available"}


def test_a_node_is_tried_again_after_a_while(world: World) -> None:
    """Time alone brings the node back, for gangs that wait for it too."""
    (name,) = world.nodes(1)
    send(world, world.pod("early", 8), name)
    job = world.gang("a", 1)
    single = world.pod("single", 8)
    assert job.reserved == {}
    assert world.ask(single).outcome is Outcome.REFUSED
    assert world.admission.next_tick() == 30
    world.later(29)
    assert job.reserved == {}
    world.later(1)
    assert job.reserved == {"a-0": name}


def test_what_ends_on_the_node_brings_it_back_sooner(world: World) -> None:
    """The kubelet may have zones free then: a finished pod, a deleted one, another size of the node."""
    (name,) = world.nodes(1)
    others = [send(world, world.pod(f"other-{index}", 1), name, rejection=None) for index in range(2)]
    whole = Node(name, uid=name, allocatable={"cpu": 64_000, "memory": 2**40, "pods": 110, GPU: 8})
    endings: tuple[Callable[[], object], ...] = (
        lambda: world.tell(PodSeen(replace(others[0], phase=Phase.SUCCEEDED))),
        lambda: world.tell(PodGone(others[1].uid)),
        lambda: world.tell(NodeSeen(replace(whole, labels={"repaired": "true"}))),
    )
    send(world, world.pod("early", 4), name)
    world.later(30)
    for number, end in enumerate(endings):
        send(world, world.pod(f"again-{number}", 4), name)
        end()
        world.later(29.9)
        early = world.pod(f"early-{number}", 4)
        assert world.ask(early).outcome is Outcome.REFUSED
        world.later(0.1)
        assert world.filter(early).outcome is Outcome.PINNED
        world.tell(PodGone(early.uid))
    assert len(world.admission.rejections) == 0


def test_its_own_end_does_not_bring_the_node_back_sooner(world: World) -> None:
    """A pod that was rejected has held nothing: that it is deleted frees nothing."""
    (name,) = world.nodes(1)
    for number, pause in enumerate((30, 60)):
        failed = send(world, world.pod(f"pod-{number}", 4), name)
        world.tell(PodGone(failed.uid))
        world.later(pause - 1)
        assert len(world.admission.rejections) == 1
        world.later(1)
        assert len(world.admission.rejections) == 0


def test_a_node_that_comes_back_is_another(world: World) -> None:
    """With a node goes what its kubelet did."""
    (name,) = world.nodes(1)
    send(world, world.pod("early", 4), name)
    world.tell(NodeGone(name))
    world.nodes(1)
    assert world.ask(world.pod("late", 4)).accepted == [name]


def test_a_bind_call_that_filter_allowed_before_is_refused(world: World) -> None:
    """Between filter and bind the kubelet may have turned somebody away."""
    (name,) = world.nodes(1)
    late = world.pod("late", 4)
    assert world.ask(late).accepted == [name]
    send(world, world.pod("early", 4), name)
    arrival = world.tell(Arrive(late.uid, name))
    assert (arrival.verdict, arrival.message) == (BindVerdict.REFUSE, REJECTED)


def test_nobody_is_evicted_for_a_pod_that_the_kubelet_would_turn_away(world: World) -> None:
    """A node that is left out is no place to clear: the victim is who holds the other."""
    names = world.nodes(2)
    victims = [world.pod(f"victim-{index}", 8, node_name=name) for index, name in enumerate(names)]
    for pod in victims:
        world.tell(PodSeen(pod))
    send(world, world.pod("early", 8), names[0])
    assert not world.ask(world.pod("late", 8, priority=10)).accepted
    assert set(world.effects().evictions) == {victims[1].uid}


def test_the_owner_is_told_once_for_all_that_failed_together(world: World) -> None:
    """One Warning on the gang names node, policy, reason and how long; each pod counts in the metric."""
    (name,) = world.nodes(1)
    world.tell(NodeTopologySeen(NodeTopology(name, TopologyPolicy.RESTRICTED, zones=(Zone(0, "node-0", {GPU: 8}),))))
    job = world.gang("a", 2, gpus=4)
    for index in range(2):
        job.see(index, node_name=name)
    world.effects()
    for index in range(2):
        job.see(index, phase=Phase.FAILED, rejection=MISALIGNED)
    effects = world.effects()
    assert effects.rejections == [RejectionReason.TOPOLOGY_AFFINITY] * 2
    (note,) = effects.notes
    assert (note.about, note.warning, note.reason) == (job.ref, True, "PodRejected")
    assert note.message == (
        f"the kubelet of node {name} (Topology Manager policy restricted) rejected a pod, TopologyAffinityError: "
        "Resources cannot be allocated with Topology locality; for 30 s no pod that asks for the same is sent there"
    )


def test_a_single_pods_owner_is_told_on_the_pod(world: World) -> None:
    """The Warning is about the pod's own gang of one; without words of the kubelet it says so."""
    (name,) = world.nodes(1)
    failed = send(world, world.pod("single", 4), name, Rejection(RejectionReason.UNEXPECTED_ADMISSION, ""))
    (note,) = notes(world)
    assert note.about == failed.group
    assert f"of node {name} rejected a pod, UnexpectedAdmissionError: no message; for 30 s" in note.message


def test_pods_of_other_schedulers_teach_but_nobody_is_told(world: World) -> None:
    """What their kubelet thinks is known then; whom to tell is their scheduler's affair."""
    (name,) = world.nodes(1)
    send(world, world.pod("foreign", 4, scheduler_name="other"), name)
    assert world.ask(world.pod("late", 4)).outcome is Outcome.REFUSED
    effects = world.effects()
    assert (effects.rejections, effects.notes) == ([], [])


def test_a_restart_remembers_by_the_failed_pods_that_there_are(world: World) -> None:
    """A new process leaves the node out for the first time again; what was told is not told again."""
    names = world.nodes(2)
    failed = [turned_away(world.pod(f"failed-{index}", 4), names[0]) for index in range(5)]
    successor = world.restart()
    successor.nodes(2)
    for pod in failed:
        successor.tell(PodSeen(pod))
    successor.tell(Rebuild())
    assert successor.ask(successor.pod("late", 4)).accepted == [names[1]]
    assert notes(successor) == []
    assert successor.effects().rejections == []
    successor.later(30)
    assert successor.ask(successor.pod("later", 8)).accepted == [names[0]]


def test_a_replica_that_stands_by_learns_and_tells_nothing(world: World) -> None:
    """Who takes over knows at once where kubelets refuse."""
    (name,) = world.nodes(1)
    world.tell(StandDown())
    send(world, world.pod("early", 4), name)
    assert (effects := world.effects()).changed
    assert effects == CollectedEffects(changed=effects.changed)
    world.tell(Rebuild())
    assert world.ask(world.pod("late", 4)).outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (DeviceHolding(gpus=(0, 1), zones=(0,)), [(Fact.GPUS, True), (Fact.ZONES, True)]),
        (DeviceHolding(gpus=(0, 4), zones=(0, 1)), [(Fact.GPUS, False), (Fact.ZONES, False)]),
        (DeviceHolding(zones=(1,)), [(Fact.ZONES, False)]),
        (DeviceHolding(uuids=("GPU-a",)), []),
    ],
)
def test_predictions_are_compared_with_what_is_observed(
    world: World, observed: DeviceHolding, expected: list[tuple[Fact, bool]]
) -> None:
    """Each fact that somebody observes is a match or a mismatch, once for each pod."""
    (name,) = world.nodes(1)
    running = send(
        world, world.pod("single", 2, predicted=DeviceHolding(gpus=(0, 1), zones=(0,))), name, rejection=None
    )
    world.effects()
    for _ in range(2):
        world.tell(PodSeen(replace(running, observed=observed)))
    assert world.effects().observations == [Observation(fact, match) for fact, match in expected]


def test_a_fact_that_is_observed_later_counts_then(world: World) -> None:
    """Zones and GPUs may be the work of two agents; what has no prediction is compared with nothing."""
    (name,) = world.nodes(1)
    running = send(world, world.pod("single", 2, predicted=DeviceHolding(zones=(0,))), name, rejection=None)
    world.effects()
    world.tell(PodSeen(replace(running, observed=DeviceHolding(gpus=(3,)))))
    assert world.effects().observations == []
    world.tell(PodSeen(replace(running, observed=DeviceHolding(gpus=(3,), zones=(0,)))))
    assert world.effects().observations == [Observation(Fact.ZONES, match=True)]
    world.tell(PodSeen(replace(running, observed=DeviceHolding(gpus=(4,), zones=(1,)))))
    assert world.effects().observations == []


def test_a_gang_that_fits_but_for_what_kubelets_refused_says_so(world: World) -> None:
    """It is not told that no node matches, nor that it never fits, and goes on when the node is tried again."""
    names = world.nodes(2)
    send(world, world.pod("early", 8), names[0])
    job = world.gang("a", 2)
    assert job.wait is not None
    assert (job.reason, job.wait.numbers) == (Reason.REJECTED_BY_KUBELET, {"fits": 1, "minMember": 2})
    send(world, world.pod("late", 8), names[1])
    assert (job.reason, job.wait.numbers["minMember"]) == (Reason.REJECTED_BY_KUBELET, 2)
    world.later(30)
    assert len(job.reserved) == 2


def test_what_never_fits_is_told_so_whatever_kubelets_refused(world: World) -> None:
    """A node that is left out for a while is there all the same when the question is whether waiting can help."""
    (name,) = world.nodes(1)
    send(world, world.pod("early", 8), name)
    assert world.gang("large", 2).reason is Reason.EXCEEDS_CLUSTER
    assert world.gang("fitting", 1).reason is Reason.REJECTED_BY_KUBELET


@pytest.mark.parametrize(("uuids", "observations"), [(("GPU-b", "GPU-a"), [True]), (("GPU-a", "GPU-c"), [False])])
def test_gpus_that_are_observed_by_uuid_are_looked_up_on_their_node(
    world: World, uuids: tuple[str, ...], observations: list[bool]
) -> None:
    """HAMi names GPUs by UUID, and tells on the node which index each has."""
    register = ":".join(f"GPU-{letter},1,81920,100,H100,0,true,{'abcd'.index(letter)},hami-core" for letter in "abcd")
    (name,) = world.nodes(1, gpus=4, annotations={"hami.io/node-nvidia-register": register + ":"})
    running = send(world, world.pod("single", 2, predicted=DeviceHolding(gpus=(0, 1))), name, rejection=None)
    world.effects()
    world.tell(PodSeen(replace(running, observed=DeviceHolding(uuids=uuids))))
    assert world.effects().observations == [Observation(Fact.GPUS, match) for match in observations]
