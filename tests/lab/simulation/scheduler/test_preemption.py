"""Preemption: whom kube-scheduler would evict for one pod, and what an extender can say to it."""

from __future__ import annotations

from typing import Any

import pytest

from extender.control.ports import WatchedKind
from tests.builders import GPU
from tests.lab.conftest import Bench, Virtually, reach

FULL = f"0/2 nodes are available: 2 Insufficient {GPU}. "


async def crowded(bench: Bench, *priorities: tuple[str, int]) -> None:
    """Fill the nodes `n` and `m` with pods of four GPUs, of these priorities, two on each node."""
    bench.nodes("n", "m")
    await bench.settle()
    for index, (name, priority) in enumerate(priorities):
        bench.pod(name, gpus=4, node="n" if index < 2 else "m", spec={"priority": priority})
    await bench.settle()


def evictions(bench: Bench) -> list[tuple[str, str]]:
    """Return who was evicted from where."""
    return [(eviction.pod.name, eviction.node) for eviction in bench.scheduler.evictions]


def test_the_least_important_pods_make_room(virtually: Virtually) -> None:
    """The node whose victims matter least is chosen, and no more pods leave than necessary; then the pod takes it."""

    async def story() -> tuple[list[tuple[str, str]], dict[str, str], str, str]:
        bench = Bench()
        await crowded(bench, ("a", 5), ("b", 3), ("c", 4), ("d", 2))
        bench.pod("high", gpus=4, spec={"priority": 10})
        await bench.settle()
        await bench.close()
        (told,) = bench.cluster.events.about("d", "Preempted")
        (eviction,) = bench.scheduler.evictions
        return evictions(bench), bench.placed(), told.event.message, eviction.preemptor.name

    evicted, placed, told, preemptor = virtually(story())
    assert evicted == [("d", "m")]
    assert placed == {"a": "n", "b": "n", "c": "m", "high": "m"}
    assert told.startswith("Preempted by pod ")
    assert told.endswith(" on node m")
    assert preemptor == "high"


def test_fewer_victims_are_better_than_more(virtually: Virtually) -> None:
    """Among nodes with equally important victims the sum of their priorities decides."""

    async def story() -> list[tuple[str, str]]:
        bench = Bench()
        await crowded(bench, ("a", 3), ("b", 3), ("c", 3), ("d", 20))
        bench.pod("high", gpus=4, spec={"priority": 10})
        await bench.settle()
        await bench.close()
        return evictions(bench)

    assert virtually(story()) == [("b", "n")]


def test_pods_of_no_lower_priority_stay(virtually: Virtually) -> None:
    """Equals are no victims, and the event says so for every node."""

    async def story() -> tuple[list[tuple[str, str]], str]:
        bench = Bench()
        await crowded(bench, ("a", 10), ("b", 10), ("c", 10), ("d", 10))
        bench.pod("equal", gpus=4, spec={"priority": 10})
        await bench.settle()
        await bench.close()
        return evictions(bench), bench.get("equal").refusal

    text = "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    assert virtually(story()) == ([], FULL + text)


def test_a_pod_that_would_not_fit_even_then_evicts_nobody(virtually: Virtually) -> None:
    """Victims that would not make enough room are left alone; the event says what would still be lacking."""

    async def story() -> tuple[list[tuple[str, str]], str]:
        bench = Bench()
        await crowded(bench, ("a", 1), ("b", 20), ("c", 1), ("d", 20))
        bench.pod("high", gpus=8, spec={"priority": 10})
        await bench.settle()
        await bench.close()
        return evictions(bench), bench.get("high").refusal

    text = f"preemption: 0/2 nodes are available: 2 Insufficient {GPU}."
    assert virtually(story()) == ([], FULL + text)


def test_a_pod_may_be_told_never_to_preempt(virtually: Virtually) -> None:
    """`preemptionPolicy: Never` ends it before anybody looks."""

    async def story() -> tuple[list[tuple[str, str]], str]:
        bench = Bench()
        await crowded(bench, ("a", 1), ("b", 1), ("c", 1), ("d", 1))
        bench.pod("meek", gpus=4, spec={"priority": 10, "preemptionPolicy": "Never"})
        await bench.settle()
        await bench.close()
        return evictions(bench), bench.get("meek").refusal

    assert virtually(story()) == ([], FULL + "preemption: not eligible due to preemptionPolicy=Never.")


def test_a_node_that_could_never_hold_the_pod_is_no_candidate(virtually: Virtually) -> None:
    """Evicting does not make a node larger."""

    async def story() -> str:
        bench = Bench()
        await crowded(bench, ("a", 1), ("b", 1), ("c", 1), ("d", 1))
        bench.pod("huge", gpus=16, spec={"priority": 10})
        await bench.settle()
        await bench.close()
        return bench.get("huge").refusal

    text = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    assert virtually(story()) == FULL + text


def test_while_victims_end_the_preemptor_waits_for_them(virtually: Virtually) -> None:
    """With a grace period the pod stays nominated, evicts nobody else, and gets the room when it is free."""

    async def story() -> tuple[str, str, int, dict[str, str]]:
        bench = Bench()
        bench.nodes("n", "m")
        await bench.settle()
        for name, node in (("a", "n"), ("b", "m")):
            bench.pod(name, gpus=8, node=node, spec={"terminationGracePeriodSeconds": 30})
        await bench.settle()
        bench.pod("high", gpus=8, spec={"priority": 10})
        await reach(10)
        nominated = bench.get("high").nominated_node
        bench.end("b") if nominated == "n" else bench.end("a")
        bench.nodes("small", gpus=1)
        await reach(20)
        placed_early = bench.placed().get("high", "")
        await reach(100)
        await bench.close()
        return nominated, placed_early, len(bench.scheduler.evictions), bench.placed()

    nominated, early, evicted, placed = virtually(story())
    assert (nominated, evicted) == ("n", 1)
    assert early == placed["high"] == "m"


def test_a_terminating_victim_on_the_nominated_node_stops_further_preemption(virtually: Virtually) -> None:
    """Another attempt meanwhile evicts nobody and keeps the nomination."""

    async def story() -> tuple[str, str, int]:
        bench = Bench()
        bench.nodes("n", "m")
        await bench.settle()
        for name, node in (("a", "n"), ("b", "m")):
            bench.pod(name, gpus=8, node=node, spec={"terminationGracePeriodSeconds": 3000})
        await bench.settle()
        bench.pod("high", gpus=8, spec={"priority": 10})
        await reach(400)
        await bench.close()
        return bench.get("high").nominated_node, bench.get("high").refusal, len(bench.scheduler.evictions)

    text = "preemption: not eligible due to a terminating pod on the nominated node."
    assert virtually(story()) == ("n", FULL + text, 1)


def test_lower_nominations_on_the_node_are_cleared(virtually: Virtually) -> None:
    """A pod that hoped for the node has to look elsewhere."""

    async def story() -> str:
        bench = Bench()
        await crowded(bench, ("a", 1), ("b", 1), ("c", 20), ("d", 20))
        gate = {"schedulingGates": [{"name": "g"}], "priority": 5}
        bench.pod("hopeful", gpus=4, spec=gate, status={"nominatedNodeName": "n"})
        await bench.settle()
        bench.pod("high", gpus=4, spec={"priority": 10})
        await bench.settle()
        await bench.close()
        return bench.get("hopeful").nominated_node

    assert virtually(story()) == ""


def asked(bench: Bench) -> dict[str, list[str]]:
    """Return the victims, by name, that the extender was first asked about."""
    (first, *_) = bench.extender.calls("preempt")
    names = {version.uid: version.pod.name for version in bench.cluster.list(WatchedKind.POD)}
    offered: dict[str, Any] = first["NodeNameToMetaVictims"]
    return {node: [names[pod["UID"]] for pod in victims["Pods"]] for node, victims in offered.items()}


def test_an_extender_can_stop_preemption(virtually: Virtually) -> None:
    """Asked with candidates and victims, it leaves none: nothing is evicted, and the event says so."""

    async def story() -> tuple[dict[str, list[str]], list[tuple[str, str]], str]:
        bench = Bench(extended=True)
        await crowded(bench, ("a", 1), ("b", 2), ("c", 20), ("d", 20))
        bench.pod("high", gpus=4, spec={"priority": 10})
        await bench.settle()
        await bench.close()
        return asked(bench), evictions(bench), bench.get("high").refusal

    offered, evicted, refusal = virtually(story())
    assert offered == {"n": ["a"]}
    assert evicted == []
    assert refusal == FULL + "preemption: no candidate node for preemption"


def test_an_extender_can_choose_among_the_candidates(virtually: Virtually) -> None:
    """Only what it leaves is considered."""

    async def story() -> list[tuple[str, str]]:
        bench = Bench(extended=True)
        await crowded(bench, ("a", 1), ("b", 1), ("c", 2), ("d", 2))
        bench.extender.preempt = lambda body: {
            "NodeNameToMetaVictims": {"m": body["NodeNameToMetaVictims"]["m"]},
        }
        bench.pod("high", gpus=4, spec={"priority": 10})
        await bench.settle()
        await bench.close()
        return evictions(bench)

    assert virtually(story()) == [("d", "m")]


@pytest.mark.parametrize(
    ("victims", "complaint"),
    [
        ({"x": {"Pods": [{"UID": "u"}]}}, 'nodeinfo not found for node name "x"'),
        (
            {"n": {"Pods": [{"UID": "u"}]}},
            "extender claims to preempt pod (UID: u) on node: n, but it is not on that node",
        ),
        ({"n": {"Pods": []}}, 'expected at least one victim pod on node "n"'),
    ],
)
def test_an_extender_that_names_others_fails_the_preemption(
    virtually: Virtually, victims: dict[str, Any], complaint: str
) -> None:
    """Nodes and victims that do not exist, or no victims at all, are an error: nothing is evicted."""

    async def story() -> tuple[list[tuple[str, str]], str]:
        bench = Bench(extended=True)
        await crowded(bench, ("a", 1), ("b", 1), ("c", 1), ("d", 1))
        bench.extender.preempt = lambda _: {"NodeNameToMetaVictims": victims}
        bench.pod("high", gpus=4, spec={"priority": 10})
        await bench.settle()
        await bench.close()
        return evictions(bench), bench.get("high").refusal

    assert virtually(story()) == ([], f"{FULL}preemption: {complaint}")


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        (["n"], 'expected at least one victim pod on node "n"'),
        (
            ["n", "m"],
            '[expected at least one victim pod on node "n", expected at least one victim pod on node "m"]',
        ),
    ],
)
def test_nodes_that_only_the_extender_refused_have_no_victims(
    virtually: Virtually, nodes: list[str], complaint: str
) -> None:
    """Where the filters see room, evicting somebody is no answer to an extender's refusal."""

    async def story() -> tuple[list[tuple[str, str]], str]:
        bench = Bench(extended=True)
        bench.nodes(*nodes)
        await bench.settle()
        for index, node in enumerate(nodes):
            bench.pod(f"a{index}", gpus=4, node=node, spec={"priority": 1})
        await bench.settle()
        bench.extender.filter = lambda body: {"NodeNames": [], "FailedNodes": dict.fromkeys(body["NodeNames"], "no")}
        bench.pod("high", gpus=4, spec={"priority": 10})
        await bench.settle()
        await bench.close()
        return evictions(bench), bench.get("high").refusal

    count = len(nodes)
    assert virtually(story()) == ([], f"0/{count} nodes are available: {count} no. preemption: {complaint}")
