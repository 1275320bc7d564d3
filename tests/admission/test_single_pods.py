"""A pod that names no group, by the setting `single_pods`: pinned to its planned node, or all with room are ranked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import Arrive, BindVerdict, Decide, Outcome, PodSeen, Prioritize, QueueSeen
from extender.objects.keys import Options
from extender.objects.pod import Phase, Pod
from extender.objects.queue import Flavor, Queue, Quota
from tests.worlds import GPU, World


@pytest.fixture
def ranked() -> World:
    """Return an empty world in which single pods are ranked."""
    return World(single_pods="ranked")


def busy(world: World, **gpus: int) -> None:
    """Let pods run that hold so many GPUs of nodes whose names are written with underscores."""
    for name, number in gpus.items():
        pod = world.pod(f"on-{name}", number, node_name=name.replace("_", "-"), phase=Phase.RUNNING)
        world.tell(PodSeen(pod))


def planned(world: World, name: str = "single", gpus: int = 2, **fields: Any) -> Pod:
    """Return a single pod that has been planned."""
    pod = world.pod(name, gpus, **fields)
    world.tell(PodSeen(pod))
    world.tell(Decide())
    assert world.state.slot(pod) is not None
    return pod


def node_of(world: World, pod: Pod) -> str:
    """Return the node that a pod is promised."""
    slot = world.state.slot(pod)
    assert slot is not None
    return slot.node


class TestFilter:
    """Which nodes are offered."""

    def test_all_nodes_with_room_are_offered(self, ranked: World) -> None:
        """Full nodes are left out, and those that nobody knows; the order is that of the question."""
        ranked.nodes(4)
        busy(ranked, node_1=8, node_2=7)
        answer = ranked.filter(planned(ranked), ["node-3", "node-2", "ghost", "node-1", "node-0"])
        assert (answer.outcome, answer.accepted) == (Outcome.RANKED, ["node-3", "node-0"])
        assert answer.decision

    def test_what_the_pod_is_promised_does_not_count_against_it(self, ranked: World) -> None:
        """Its own node is offered though its own promise fills it."""
        ranked.nodes(1)
        pod = planned(ranked, gpus=8)
        assert ranked.filter(pod).accepted == ["node-0"]
        assert ranked.filter(pod).accepted == ["node-0"]

    def test_what_others_are_promised_does(self, ranked: World) -> None:
        """Of two pods that each fill a node neither is offered the other's."""
        ranked.nodes(2)
        pods = [planned(ranked, name, gpus=8) for name in "ab"]
        assert [ranked.filter(pod).accepted for pod in pods] == [[node_of(ranked, pod)] for pod in pods]

    def test_members_of_larger_gangs_stay_pinned(self, ranked: World) -> None:
        """Where one member goes depends on the others."""
        names = ranked.nodes(4)
        job = ranked.gang("a", 2, gpus=1)
        answer = ranked.filter(job.pods[0], names)
        assert (answer.outcome, answer.accepted) == (Outcome.PINNED, [job.reserved["a-0"]])

    def test_what_is_kept_for_the_head_is_not_offered(self, ranked: World) -> None:
        """A gang waits for two whole nodes, of which one has begun to empty; only an older pod may go there."""
        ranked.nodes(5)
        busy(ranked, node_0=8, node_1=8, node_2=2, node_4=4)
        older = planned(ranked, "older", gpus=1)
        ranked.gang("head", 2)
        younger = planned(ranked, "younger", gpus=1)
        assert ranked.filter(older).accepted == ["node-2", "node-3", "node-4"]
        assert ranked.filter(younger).accepted == ["node-4"]

    def test_a_refused_node_is_not_offered_again(self, ranked: World) -> None:
        """What a kubelet rejected is no node with room."""
        ranked.nodes(3)
        pod = planned(ranked)
        away = next(name for name in ("node-1", "node-2") if name != node_of(ranked, pod))
        ranked.reject(pod.shape, away)
        assert away not in ranked.filter(pod).accepted
        assert len(ranked.filter(pod).accepted) == 2

    def test_only_nodes_of_the_flavor_that_it_is_charged_to_are_offered(self, ranked: World) -> None:
        """Quota is taken in one flavor, and a choice of kube-scheduler's changes nothing of that."""
        ranked.nodes(2, prefix="fast", labels={"pool": "fast"})
        ranked.nodes(2, prefix="slow", labels={"pool": "slow"})
        flavors = tuple(
            Flavor(name, {GPU: Quota(gpus)}, node_selector=(("pool", name),))
            for name, gpus in (("fast", 2), ("slow", 8))
        )
        ranked.tell(QueueSeen(Queue("team", "team", flavors=flavors)))
        options = Options(queue="team")
        first, second = (planned(ranked, name, options=options) for name in "ab")
        assert ranked.filter(first).accepted == ["fast-0", "fast-1"]
        assert ranked.filter(second).accepted == ["slow-0", "slow-1"]

    def test_a_nominated_node_alone_is_refused_so_that_all_are_offered(self, ranked: World) -> None:
        """kube-scheduler tries a nominated node before it looks at others; it would never choose."""
        names = ranked.nodes(3)
        pod = planned(ranked)
        nominated = replace(pod, nominated_node=node_of(ranked, pod))
        assert ranked.ask(nominated, nominated.nominated_node).outcome is Outcome.REFUSED
        assert ranked.filter(nominated, names).accepted == names

    def test_a_nominated_node_alone_is_taken_when_it_is_offered_again(self, ranked: World) -> None:
        """In the same attempt, in which kube-scheduler looks at all nodes: its own filters leave no other one."""
        ranked.nodes(3)
        pod = planned(ranked)
        nominated = replace(pod, nominated_node=node_of(ranked, pod))
        assert ranked.ask(nominated, nominated.nominated_node).accepted == []
        assert ranked.ask(nominated, nominated.nominated_node).accepted == [nominated.nominated_node]

    def test_a_nomination_that_was_taken_off_before_is_refused_alone_too(self, ranked: World) -> None:
        """It had arrived during an attempt that failed, and took no choice among all nodes away."""
        names = ranked.nodes(3)
        pod = planned(ranked)
        nominated = replace(pod, nominated_node=node_of(ranked, pod))
        ranked.tell(PodSeen(nominated))
        ranked.tell(PodSeen(pod))
        assert ranked.ask(nominated, nominated.nominated_node).outcome is Outcome.REFUSED
        assert ranked.filter(nominated, names).accepted == names
        assert ranked.ask(nominated, nominated.nominated_node).outcome is Outcome.REFUSED


class TestPrioritize:
    """How the offered nodes are ranked."""

    def test_the_scores_are_what_the_plan_was_made_by(self, ranked: World) -> None:
        """The planned node is best; nodes on which later requests lose as much and that are as full are equal to it."""
        names = ranked.nodes(5)
        busy(ranked, node_1=6, node_3=6, node_4=4)
        pod = planned(ranked)
        assert node_of(ranked, pod) == "node-1"
        assert ranked.tell(Prioritize(pod, names)) == [0, 10, 0, 10, 5]

    def test_nodes_without_room_score_nothing(self, ranked: World) -> None:
        """They are not offered; should they be, they are the worst."""
        names = ranked.nodes(3)
        busy(ranked, node_0=8)
        assert ranked.tell(Prioritize(planned(ranked), [*names, "ghost"])) == [0, 10, 10, 0]

    def test_a_pod_that_is_not_planned_has_no_scores(self, ranked: World) -> None:
        """Nothing can be said of it."""
        names = ranked.nodes(2)
        assert ranked.tell(Prioritize(ranked.pod("unseen", 2), names)) == [0, 0]


class TestBind:
    """kube-scheduler chose."""

    def test_a_pod_may_bind_where_there_is_room(self, ranked: World) -> None:
        """The promise moves with it, and what it had is free for others."""
        ranked.nodes(2)
        pod = planned(ranked, gpus=8)
        (other,) = {"node-0", "node-1"} - {node_of(ranked, pod)}
        assert ranked.tell(Arrive(pod.uid, other)).verdict is BindVerdict.WRITE
        assert node_of(ranked, pod) == other
        assert node_of(ranked, planned(ranked, "next", gpus=8)) != other
        ranked.check_promises()

    def test_a_pod_may_not_bind_where_there_is_none_any_more(self, ranked: World) -> None:
        """Another was promised that node between filter and bind; the pod keeps its own."""
        ranked.nodes(2)
        pod = planned(ranked, gpus=8)
        assert ranked.filter(pod).accepted == ["node-0", "node-1"]
        kept, other = node_of(ranked, pod), node_of(ranked, planned(ranked, "other", gpus=8))
        arrival = ranked.tell(Arrive(pod.uid, other))
        assert arrival.verdict is BindVerdict.REFUSE
        assert arrival.message == (
            f"pod waits: pod default/single is planned on {kept}, and {other} has no room for it any more"
        )
        assert ranked.tell(Arrive(pod.uid, kept)).verdict is BindVerdict.WRITE
        ranked.check_promises()

    def test_a_pinned_pod_may_not_bind_elsewhere(self, world: World) -> None:
        """By default kube-scheduler has no choice."""
        world.nodes(2)
        pod = planned(world)
        (other,) = {"node-0", "node-1"} - {node_of(world, pod)}
        assert world.tell(Arrive(pod.uid, other)).verdict is BindVerdict.REFUSE
