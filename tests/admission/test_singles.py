"""Pods without a gang on nodes whose kubelet aligns, or whose GPUs go together in some sets only."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.answers import BindVerdict, Filtered, Outcome, Refusal
from extender.domain.holdings import Holding
from extender.domain.pod import Phase, Pod
from extender.numa.nodetopology import NodeTopology, Policy, Zone
from tests.admission.conftest import GPU, World

MISALIGNED = "what is free is in NUMA zones or GPU partitions that the pod cannot have together"


def aligned(world: World, count: int = 1, policy: Policy = Policy.RESTRICTED, *, prefix: str = "node") -> list[str]:
    """Add nodes of two zones with four GPUs each."""
    names = world.nodes(count, prefix=prefix)
    zones = tuple(Zone(number, f"node-{number}", {GPU: 4}) for number in range(2))
    for name in names:
        world.admission.model.put_node_topology(NodeTopology(name, policy, zones=zones))
    return names


def run(world: World, node: str, name: str, *gpus: int) -> Pod:
    """Run a pod that is seen to hold these GPUs."""
    zones = tuple(sorted({gpu // 4 for gpu in gpus}))
    pod = world.pod(name, len(gpus), node_name=node, phase=Phase.RUNNING, observed=Holding(gpus, zones))
    world.admission.pod_seen(pod)
    return pod


def ask(world: World, pod: Pod, *names: str) -> Filtered:
    """Ask filter about a pod that has been seen."""
    world.admission.pod_seen(pod)
    return world.filter(pod, list(names) or None)


def test_a_pod_is_not_sent_where_its_kubelet_would_refuse_it(world: World) -> None:
    """Four GPUs are free as two and two: a restricted kubelet gives none of them to a pod that asks for four."""
    (name,) = aligned(world)
    run(world, name, "left", 0, 1)
    run(world, name, "right", 4, 5)
    assert ask(world, world.pod("four", 4)).refusals == (Refusal([name], MISALIGNED),)
    assert ask(world, world.pod("two", 2)).accepted == [name]


def test_each_node_is_refused_for_its_own_reason(world: World) -> None:
    """Full nodes, broken nodes and nodes with room are told apart in one answer, in the order offered."""
    names = aligned(world, 4)
    run(world, names[0], "whole", *range(8))
    run(world, names[1], "left", 0, 1)
    run(world, names[1], "right", 4, 5)
    run(world, names[3], "half", 0, 1, 2, 3)
    answer = ask(world, world.pod("four", 4), "unknown", *names)
    assert (answer.outcome, answer.accepted) == (Outcome.FITS, [names[2], names[3]])
    no_room = Refusal(["unknown", names[0]], "no room beside what is reserved for gangs", resolvable=True)
    assert answer.refusals == (no_room, Refusal([names[1]], MISALIGNED))
    assert answer.text == f"{no_room.text}; {MISALIGNED}"


def test_a_kubelet_that_aligns_as_well_as_it_can_refuses_nobody(world: World) -> None:
    """Under best-effort the pod gets two GPUs from each zone."""
    (name,) = aligned(world, policy=Policy.BEST_EFFORT)
    run(world, name, "left", 0, 1)
    run(world, name, "right", 4, 5)
    assert ask(world, world.pod("four", 4)).accepted == [name]


def test_the_zones_may_be_taken_between_filter_and_bind(world: World) -> None:
    """The second of two pods that filter let through is refused at bind, and its scheduler tries again."""
    (name,) = aligned(world)
    run(world, name, "half", 0, 1, 2, 3)
    pods = [world.pod(f"pod-{index}", 3) for index in range(2)]
    assert [ask(world, pod).accepted for pod in pods] == [[name], [name]]
    assert world.verbs.arrive(pods[0].uid, name).verdict is BindVerdict.WRITE
    run(world, name, "other", 4)
    world.admission.pod_gone("uid-1")
    assert world.verbs.arrive(pods[1].uid, name).verdict is BindVerdict.WRITE


def test_what_is_promised_to_a_pod_is_not_in_its_own_way(world: World) -> None:
    """A pod whose Binding failed finds its zones taken by itself alone."""
    (name,) = aligned(world)
    pod = world.pod("four", 4)
    run(world, name, "half", 0, 1, 2, 3)
    assert ask(world, pod).accepted == [name]
    assert world.verbs.arrive(pod.uid, name).verdict is BindVerdict.WRITE
    world.verbs.binding_failed(pod.uid, "no answer", final=False)
    assert ask(world, pod).accepted == [name]


def test_a_bound_pod_is_annotated_with_what_it_is_predicted_to_hold(world: World) -> None:
    """GPUs and zone of what is promised; nothing about what is observed, or about pods without either."""
    (name,) = aligned(world)
    running = run(world, name, "half", 0, 1, 2, 3)
    pod, plain = world.pod("two", 2), world.pod("plain", 0)
    world.nodes(1, gpus=0, prefix="cpu")
    for each, node in ((pod, name), (plain, "cpu-0")):
        world.admission.pod_seen(each)
        assert world.verbs.arrive(each.uid, node).verdict is BindVerdict.WRITE
    assert world.verbs.prediction(pod.uid) == {"muster.dev/predicted-gpus": "4,5", "muster.dev/predicted-zones": "1"}
    assert world.verbs.prediction(plain.uid) == {}
    assert world.verbs.prediction(running.uid) == {}
    assert world.verbs.prediction("nobody") == {}


def test_members_are_annotated_too(world: World) -> None:
    """The GPUs that a gang's members are predicted to hold are disjoint."""
    world.nodes(1)
    job = world.gang("a", 4, gpus=2)
    said = [world.verbs.prediction(pod.uid)["muster.dev/predicted-gpus"] for pod in job.pods]
    assert sorted(",".join(said).split(",")) == list("01234567")


def test_zones_that_an_observation_frees_are_found(world: World) -> None:
    """A gang that waits is judged anew when a pod turns out to hold something else than was predicted."""
    (name,) = aligned(world)
    predictions = (Holding((0, 1), (0,)), Holding((4, 5), (1,)))
    running = [world.pod(f"pod-{said.zones}", 2, node_name=name, predicted=said) for said in predictions]
    for pod in running:
        world.admission.pod_seen(pod)
    four = world.pod("four", 4)
    assert ask(world, four).outcome is Outcome.REFUSED
    world.admission.pod_seen(replace(running[1], observed=Holding((2, 3), (0,))))
    assert world.admission.pending
    assert ask(world, four).accepted == [name]
