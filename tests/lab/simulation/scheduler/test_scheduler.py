"""Scheduling cycles on a small cluster, without an extender and with one that follows a script."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.control.ports import WatchedKind
from muster_lab.simulation.scheduler.extender import TransportError
from tests.builders import GPU, node_json
from tests.lab.conftest import Bench, Virtually, reach

NO_GPUS = f"Insufficient {GPU}"
NO_VICTIMS = "No preemption victims found for incoming pod"


def refuse_all(text: str, *, resolvable: bool = False) -> Any:
    """Return a filter answer that refuses every node."""
    field = "FailedNodes" if resolvable else "FailedAndUnresolvableNodes"
    return lambda body: {"NodeNames": [], field: dict.fromkeys(body["NodeNames"], text)}


def offered(bench: Bench) -> list[list[str]]:
    """Return the nodes that each filter call offered."""
    return [body["NodeNames"] for body in bench.extender.calls("filter")]


def test_pods_spread_over_the_emptier_nodes(virtually: Virtually) -> None:
    """LeastAllocated sends each pod to the node with most CPU and memory left, among equals to the first."""

    async def story() -> dict[str, str]:
        bench = Bench()
        bench.nodes("n", "m")
        for name in ("a", "b", "c"):
            bench.pod(name, gpus=1)
        await bench.settle()
        await bench.close()
        return bench.placed()

    assert virtually(story()) == {"a": "n", "b": "m", "c": "n"}


def test_a_pod_that_anti_affinity_keeps_away_says_so(virtually: Virtually) -> None:
    """What the scheduler is told to rule out is no node for that pod, and one for others."""

    async def story() -> tuple[dict[str, str], str]:
        bench = Bench(ruled_out=lambda pod, _: pod.name == "a")
        bench.nodes("n")
        for name in ("a", "b"):
            bench.pod(name)
        await bench.settle()
        await bench.close()
        return bench.placed(), bench.get("a").refusal

    placed, refusal = virtually(story())
    assert placed == {"b": "n"}
    assert "1 node(s) didn't match pod anti-affinity rules" in refusal


def test_a_pod_without_room_says_why_and_is_scheduled_when_there_is_room(virtually: Virtually) -> None:
    """Condition and Event have kube-scheduler's words; the end of another pod makes room."""

    async def story() -> tuple[str, str, dict[str, str], float]:
        bench = Bench()
        bench.nodes("n", "m")
        for name in ("a", "b", "c"):
            bench.pod(name, gpus=8)
        await bench.settle()
        refusal = bench.get("c").refusal
        (event,) = bench.cluster.events.about("c", "FailedScheduling")
        await asyncio.sleep(100)
        bench.end("a")
        await bench.settle()
        await bench.close()
        return refusal, event.event.message, bench.placed(), bench.clock.elapsed()

    refusal, event, placed, now = virtually(story())
    assert refusal == f"0/2 nodes are available: 2 {NO_GPUS}. preemption: 0/2 nodes are available: 2 {NO_VICTIMS}."
    assert event == refusal
    assert (placed["c"], now) == ("n", 100.0)


def test_without_nodes_a_pod_waits_for_the_first(virtually: Virtually) -> None:
    """No node at all is an error of its own, which is tried again by itself."""

    async def story() -> tuple[str, dict[str, str]]:
        bench = Bench()
        bench.pod("a")
        await bench.settle()
        refusal = bench.get("a").refusal
        bench.nodes("n")
        await reach(2)
        await bench.close()
        return refusal, bench.placed()

    assert virtually(story()) == ("no nodes available to schedule pods", {"a": "n"})


def test_only_pods_that_name_the_scheduler_are_scheduled(virtually: Virtually) -> None:
    """Pods of other schedulers are left alone, and count once they are on a node."""

    async def story() -> dict[str, str]:
        bench = Bench()
        bench.nodes("n")
        bench.pod("foreign", gpus=8, spec={"schedulerName": "other"})
        await bench.settle()
        bench.cluster.bind("default", "foreign", "n")
        await bench.settle()
        bench.pod("ours", gpus=8)
        await bench.settle()
        await bench.close()
        return bench.placed()

    assert virtually(story()) == {"foreign": "n"}


def test_a_node_that_comes_grows_opens_or_goes_matters(virtually: Virtually) -> None:
    """A pod without room goes to a new node; one kept away by a cordon goes when that ends; deleted nodes are out."""

    async def story() -> list[dict[str, str]]:
        bench = Bench()
        bench.nodes("small", gpus=4)
        bench.nodes("closed", unschedulable=True)
        bench.pod("a", gpus=8)
        await bench.settle()
        seen = [bench.placed()]
        bench.cluster.update(WatchedKind.NODE, ("", "closed"), lambda node: node["spec"].update(unschedulable=False))
        await bench.settle()
        seen.append(bench.placed())
        bench.pod("b", gpus=8)
        await bench.settle()
        bench.cluster.update(
            WatchedKind.NODE, ("", "small"), lambda node: node["status"]["allocatable"].update({GPU: "8"})
        )
        await bench.settle()
        seen.append(bench.placed())
        bench.end("a")
        bench.cluster.delete(WatchedKind.NODE, "", "closed")
        await bench.settle()
        bench.pod("c", gpus=8)
        await bench.settle()
        seen.append(bench.placed())
        await bench.close()
        return seen

    assert virtually(story()) == [{}, {"a": "closed"}, *[{"a": "closed", "b": "small"}] * 2]


def test_a_pod_being_deleted_is_not_scheduled(virtually: Virtually) -> None:
    """It is skipped with an Event."""

    async def story() -> tuple[dict[str, str], str]:
        bench = Bench()
        bench.nodes("n")
        bench.pod("a", spec={"schedulingGates": [{"name": "g"}]})
        await bench.settle()

        def free_and_delete(pod: dict[str, Any]) -> None:
            pod["spec"]["schedulingGates"] = []
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

        bench.cluster.update(WatchedKind.POD, ("default", "a"), free_and_delete)
        await bench.settle()
        (event,) = bench.cluster.events.about("a", "FailedScheduling")
        await bench.close()
        return bench.placed(), event.event.message

    assert virtually(story()) == ({}, "skip schedule deleting pod: default/a")


def test_the_extender_is_asked_about_what_the_filters_left(virtually: Virtually) -> None:
    """Filter gets the nodes with room, prioritize those that remain; the better score wins; bind ends it."""

    async def story() -> tuple[list[tuple[str, Any]], dict[str, str]]:
        bench = Bench(extended=True)
        bench.nodes("small", gpus=1)
        bench.nodes("n", "m", "k")
        bench.extender.filter = lambda body: {"NodeNames": [name for name in body["NodeNames"] if name != "k"]}
        bench.extender.prioritize = lambda _: [{"Host": "m", "Score": 10}, {"Host": "n", "Score": 0}]
        bench.pod("a", gpus=8)
        await bench.settle()
        await bench.close()
        asked = [(verb, body.get("NodeNames") or body.get("Node")) for verb, body in bench.extender.asked]
        return asked, bench.placed()

    asked, placed = virtually(story())
    assert asked == [("filter", ["n", "m", "k"]), ("prioritize", ["n", "m"]), ("bind", "m")]
    assert placed == {"a": "m"}


def test_a_single_node_is_not_scored(virtually: Virtually) -> None:
    """When one node is left prioritize is skipped."""

    async def story() -> list[str]:
        bench = Bench(extended=True)
        bench.nodes("n", "m")
        bench.extender.filter = lambda _: {"NodeNames": ["m"]}
        bench.pod("a")
        await bench.settle()
        await bench.close()
        return [verb for verb, _ in bench.extender.asked]

    assert virtually(story()) == ["filter", "bind"]


def test_the_extender_is_not_asked_when_no_node_has_room(virtually: Virtually) -> None:
    """In-tree filters come first."""

    async def story() -> int:
        bench = Bench(extended=True)
        bench.nodes("n", gpus=1)
        bench.pod("a", gpus=8)
        await bench.settle()
        await bench.close()
        return len(bench.extender.asked)

    assert virtually(story()) == 0


def test_an_extenders_reason_is_aggregated_and_rules_preemption_out(virtually: Virtually) -> None:
    """Equal texts are counted over the nodes; unresolvable nodes are no preemption candidates."""

    async def story() -> str:
        bench = Bench(extended=True)
        bench.nodes("n", "m", "k")
        bench.extender.filter = refuse_all("gang waits: 3 of 4 members exist")
        bench.pod("a")
        await bench.settle()
        await bench.close()
        return bench.get("a").refusal

    assert virtually(story()) == (
        "0/3 nodes are available: 3 gang waits: 3 of 4 members exist. "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )


def test_what_an_extender_refused_is_tried_again_on_any_event(virtually: Virtually) -> None:
    """A node's label changes, and the pod is offered again at once; a heartbeat changes nothing.

    The first refusal changes the pod's own condition, which is such an event too: it is tried twice.
    """

    async def story() -> list[int]:
        bench = Bench(extended=True)
        bench.nodes("n", "m")
        bench.extender.filter = refuse_all("no")
        bench.pod("a")
        await reach(100)
        calls = [len(bench.extender.asked)]
        bench.cluster.update(WatchedKind.NODE, ("", "n"), lambda node: node["status"].update(heartbeat=1))
        await bench.settle()
        calls.append(len(bench.extender.asked))
        bench.cluster.update(WatchedKind.NODE, ("", "n"), lambda node: node["metadata"].update(labels={"a": "b"}))
        await bench.settle()
        calls.append(len(bench.extender.asked))
        await bench.close()
        return calls

    assert virtually(story()) == [2, 2, 3]


def test_an_annotation_wakes_a_pod_that_the_extender_refused_but_not_one_without_room(virtually: Virtually) -> None:
    """An update of the pod can only help where the extender refused it."""

    async def story() -> list[str]:
        bench = Bench(extended=True)
        bench.nodes("n")
        bench.extender.filter = refuse_all("no")
        bench.pod("refused")
        bench.pod("large", gpus=16)
        await bench.settle()
        bench.extender.asked.clear()
        before = bench.scheduler.attempts
        for name in ("refused", "large"):
            bench.cluster.update(
                WatchedKind.POD, ("default", name), lambda p: p["metadata"].update(annotations={"a": "b"})
            )
        await bench.settle()
        await bench.close()
        assert bench.scheduler.attempts == before + 1
        return [body["Pod"]["metadata"]["name"] for body in bench.extender.calls("filter")]

    assert virtually(story()) == ["refused"]


def test_a_nomination_wakes_a_refused_pod_with_that_node_alone(virtually: Virtually) -> None:
    """The nominated node is offered by itself; accepted, the pod goes straight to bind."""

    async def story() -> tuple[list[tuple[str, Any]], dict[str, str]]:
        bench = Bench(extended=True)
        bench.nodes("n", "m", "k")
        bench.extender.filter = refuse_all("no")
        bench.pod("a")
        await bench.settle()
        bench.extender.asked.clear()
        bench.extender.filter = lambda body: {"NodeNames": body["NodeNames"]}
        bench.nominate("a", "m")
        await bench.settle()
        await bench.close()
        asked = [(verb, body.get("NodeNames") or body.get("Node")) for verb, body in bench.extender.asked]
        return asked, bench.placed()

    asked, placed = virtually(story())
    assert asked == [("filter", ["m"]), ("bind", "m")]
    assert placed == {"a": "m"}


def test_a_refused_nomination_is_followed_by_the_full_list_and_cleared(virtually: Virtually) -> None:
    """The full list comes at once, the nomination is taken off, and that wakes the pod once more."""

    async def story() -> tuple[list[list[str]], str]:
        bench = Bench(extended=True)
        bench.nodes("n", "m")
        bench.extender.filter = refuse_all("no")
        bench.pod("a")
        await bench.settle()
        bench.extender.asked.clear()
        bench.nominate("a", "m")
        await bench.settle()
        await bench.close()
        return offered(bench), bench.get("a").nominated_node

    assert virtually(story()) == ([["m"], ["n", "m"], ["n", "m"]], "")


@pytest.mark.parametrize("failure", [TransportError("code 500"), None])
def test_a_failing_call_about_the_nominated_node_leads_to_the_full_list(
    virtually: Virtually, failure: Exception | None
) -> None:
    """An error there is not the end of the attempt; neither is a nominated node that is gone or full."""

    async def story() -> tuple[list[list[str]], dict[str, str]]:
        bench = Bench(extended=True)
        bench.nodes("n", "m")

        def answer(body: dict[str, Any]) -> dict[str, Any]:
            if failure is not None and body["NodeNames"] == ["m"]:
                raise failure
            return {"NodeNames": ["n"]}

        bench.extender.filter = answer
        bench.pod("a", status={"nominatedNodeName": "m" if failure else "gone"})
        await bench.settle()
        await bench.close()
        return offered(bench), bench.placed()

    expected = [["m"], ["n", "m"]] if failure else [["n", "m"]]
    assert virtually(story()) == (expected, {"a": "n"})


def test_a_nomination_that_lands_during_an_attempt_is_cleared_by_its_failure(virtually: Virtually) -> None:
    """The failing attempt takes it off the pod: whoever nominates has to watch for that and nominate again."""

    async def story() -> tuple[list[str], str]:
        loop = asyncio.get_running_loop()
        bench = Bench(extended=True)
        bench.nodes("n", "m")
        bench.extender.delay = 1.0
        bench.extender.filter = refuse_all("no")
        bench.pod("a")
        loop.call_at(0.5, bench.nominate, "a", "m")
        seen: list[str] = []
        for when in (0.6, 1.5):
            await reach(when)
            seen.append(bench.get("a").nominated_node)
        await bench.close()
        return seen, bench.get("a").refusal.partition(". ")[0]

    assert virtually(story()) == (["m", ""], "0/2 nodes are available: 2 no")


def test_a_nomination_that_the_scheduler_has_not_heard_of_survives_a_failure(virtually: Virtually) -> None:
    """It clears what it knows: a nomination on its way to the scheduler stays, and wakes the pod when it arrives."""

    async def story() -> tuple[list[list[str]], dict[str, str]]:
        loop = asyncio.get_running_loop()
        bench = Bench(extended=True)
        await bench.close()
        running = asyncio.create_task(bench.scheduler.run(latency=0.5))
        bench.nodes("n", "m")
        bench.extender.filter = refuse_all("no")
        bench.pod("a")
        loop.call_at(0.4, bench.nominate, "a", "m")
        await reach(0.6)
        bench.extender.filter = lambda body: {"NodeNames": body["NodeNames"]}
        await reach(2.0)
        running.cancel()
        return offered(bench), bench.placed()

    assert virtually(story()) == ([["n", "m"], ["m"]], {"a": "m"})


def test_an_error_of_the_extender_is_tried_again_after_a_while(virtually: Virtually) -> None:
    """An answer with Error fails the attempt as an error, and an event does not bring the pod back any sooner."""

    async def story() -> tuple[str, str, float]:
        loop = asyncio.get_running_loop()
        bench = Bench(extended=True)
        bench.nodes("n")
        times: list[float] = []

        def answer(body: dict[str, Any]) -> dict[str, Any]:
            times.append(loop.time())
            return {"NodeNames": body["NodeNames"], "Error": "broken" if len(times) == 1 else ""}

        bench.extender.filter = answer
        bench.pod("a")
        await bench.settle()
        version = bench.cluster.get(WatchedKind.POD, "default", "a")
        (condition,) = version.json["status"]["conditions"]
        bench.nodes("m")
        await reach(5)
        await bench.close()
        return condition["reason"], condition["message"], times[1]

    assert virtually(story()) == ("SchedulerError", "broken", 2.0)


def test_binds_wait_side_by_side_while_others_are_scheduled(virtually: Virtually) -> None:
    """A held bind holds up nobody: all members of a gang may be held and let go together."""

    async def story() -> tuple[int, dict[str, str]]:
        bench = Bench(extended=True)
        bench.nodes("n", "m", "k", "l")
        arrived = asyncio.Event()

        async def hold(body: dict[str, Any]) -> dict[str, str]:
            if len(bench.extender.calls("bind")) == 4:
                arrived.set()
            await arrived.wait()
            return bench.extender.write_binding(body)

        bench.extender.bind = hold
        for name in "abc":
            bench.pod(name, gpus=8)
        await bench.settle()
        held = len(bench.placed())
        bench.pod("d", gpus=8)
        await bench.settle()
        await bench.close()
        return held, bench.placed()

    held, placed = virtually(story())
    assert held == 0
    assert sorted(placed) == ["a", "b", "c", "d"]
    assert len(set(placed.values())) == 4


def test_an_assumed_pod_holds_its_room_and_is_not_tried_again(virtually: Virtually) -> None:
    """While a bind is held its node counts as taken, and an update of the pod starts no second attempt."""

    async def story() -> tuple[list[str], str]:
        bench = Bench(extended=True)
        bench.nodes("n")
        bench.extender.bind = lambda _: asyncio.Event().wait()
        bench.pod("a", gpus=8)
        await bench.settle()
        bench.cluster.update(WatchedKind.POD, ("default", "a"), lambda p: p["metadata"].update(annotations={"a": "b"}))
        bench.pod("b", gpus=8)
        await bench.settle()
        await bench.close()
        return [verb for verb, _ in bench.extender.asked], bench.get("b").refusal.partition(". ")[0]

    assert virtually(story()) == (["filter", "bind"], f"0/1 nodes are available: 1 {NO_GPUS}")


def test_a_failed_bind_gives_the_room_back(virtually: Virtually) -> None:
    """The pod is tried again after its backoff, another takes the room at once."""

    async def story() -> tuple[dict[str, str], str, str]:
        bench = Bench(extended=True)
        bench.nodes("n")
        refused: list[str] = []

        def answer(body: dict[str, Any]) -> dict[str, str]:
            if body["PodName"] == "a" and not refused:
                refused.append("a")
                return {"Error": "the gang has to wait"}
            return bench.extender.write_binding(body)

        bench.extender.bind = answer
        bench.pod("a", gpus=8)
        bench.pod("b", gpus=8)
        await bench.settle()
        placed = bench.placed()
        (condition,) = bench.cluster.get(WatchedKind.POD, "default", "a").json["status"]["conditions"]
        bench.end("b")
        await reach(3)
        await bench.close()
        return placed, condition["message"], bench.placed()["a"]

    assert virtually(story()) == ({"b": "n"}, "the gang has to wait", "n")


def test_a_bind_that_times_out_although_the_pod_was_bound_does_no_harm(virtually: Virtually) -> None:
    """The pod keeps its node and its room, and is not scheduled again."""

    async def story() -> tuple[dict[str, str], int]:
        bench = Bench(extended=True)
        bench.nodes("n")

        async def late(body: dict[str, Any]) -> dict[str, str]:
            bench.extender.write_binding(body)
            await asyncio.sleep(60)
            return {"Error": ""}

        bench.extender.bind = late
        bench.pod("a", gpus=8)
        await reach(100)
        bench.pod("b", gpus=8)
        await bench.settle()
        await bench.close()
        return bench.placed(), len(bench.extender.calls("bind"))

    assert virtually(story()) == ({"a": "n"}, 1)


@pytest.mark.parametrize("graceful", [True, False])
def test_a_pod_deleted_while_its_bind_is_held_frees_its_room(virtually: Virtually, *, graceful: bool) -> None:
    """Whether it is marked first or gone at once, others get the room, and the failing bind changes nothing more."""

    async def story() -> dict[str, str]:
        bench = Bench(extended=True)
        bench.nodes("n")
        bench.extender.bind = lambda body: (
            asyncio.sleep(10, {"Error": "gone"}) if body["PodName"] == "a" else bench.extender.write_binding(body)
        )
        bench.pod("a", gpus=8)
        bench.pod("b", gpus=8)
        await bench.settle()
        if graceful:
            bench.cluster.update(
                WatchedKind.POD,
                ("default", "a"),
                lambda p: p["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
            )
        else:
            bench.cluster.delete(WatchedKind.POD, "default", "a")
        await bench.settle()
        await reach(20)
        await bench.close()
        return bench.placed()

    assert virtually(story()) == {"b": "n"}


def test_a_pod_created_anew_during_an_attempt_is_another_pod(virtually: Virtually) -> None:
    """The failure of the attempt for the old one is not written to the new one, which is scheduled by itself."""

    async def story() -> tuple[dict[str, str], int]:
        loop = asyncio.get_running_loop()
        bench = Bench(extended=True)
        bench.nodes("n")
        bench.extender.delay = 1.0
        first: list[str] = []

        def answer(body: dict[str, Any]) -> dict[str, Any]:
            first.append(body["Pod"]["metadata"]["uid"])
            return {"NodeNames": ["n"] if len(first) > 1 else [], "Error": ""}

        def anew() -> None:
            bench.cluster.delete(WatchedKind.POD, "default", "a")
            bench.pod("a")

        bench.extender.filter = answer
        bench.pod("a")
        loop.call_at(0.5, anew)
        await reach(10)
        await bench.close()
        return bench.placed(), len(set(first))

    assert virtually(story()) == ({"a": "n"}, 2)


def test_a_pod_deleted_during_an_attempt_is_forgotten(virtually: Virtually) -> None:
    """Nothing is written to it, and nothing waits for it."""

    async def story() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        bench = Bench(extended=True)
        bench.nodes("n")
        bench.extender.delay = 1.0
        bench.extender.filter = refuse_all("no")
        bench.pod("a", status={"nominatedNodeName": "gone"})
        loop.call_at(0.5, bench.cluster.delete, WatchedKind.POD, "default", "a")
        await reach(10)
        await bench.close()
        return len(bench.scheduler), len(bench.cluster.events.about("a"))

    assert virtually(story()) == (0, 0)


def test_a_waiting_pod_that_is_deleted_releases_its_nomination(virtually: Virtually) -> None:
    """Others that had to leave room for it are tried again."""

    async def story() -> dict[str, str]:
        bench = Bench(extended=True)
        bench.nodes("n")
        bench.extender.filter = lambda body: (
            {"NodeNames": body["NodeNames"]} if body["Pod"]["metadata"]["name"] == "b" else {"NodeNames": []}
        )
        bench.pod("a", gpus=8, spec={"schedulingGates": [{"name": "g"}]}, status={"nominatedNodeName": "n"})
        bench.pod("b", gpus=8)
        await bench.settle()
        assert bench.placed() == {}
        bench.cluster.delete(WatchedKind.POD, "default", "a")
        await bench.settle()
        await bench.close()
        return bench.placed()

    assert virtually(story()) == {"b": "n"}


def test_a_pod_bound_by_somebody_else_leaves_the_queue(virtually: Virtually) -> None:
    """Whoever binds it, it is done; its nomination is over."""

    async def story() -> tuple[int, dict[str, str]]:
        bench = Bench(extended=True)
        bench.nodes("n", "m")
        bench.extender.filter = refuse_all("no")
        bench.pod("a", gpus=8)
        await bench.settle()
        bench.cluster.bind("default", "a", "m")
        await bench.settle()
        await bench.close()
        return len(bench.scheduler), bench.placed()

    assert virtually(story()) == (0, {"a": "m"})


def test_scheduled_pods_have_their_event(virtually: Virtually) -> None:
    """Successfully assigned, with pod and node."""

    async def story() -> str:
        bench = Bench()
        bench.nodes("n")
        bench.pod("a")
        await bench.settle()
        await bench.close()
        (event,) = bench.cluster.events.about("a", "Scheduled")
        return event.event.message

    assert virtually(story()) == "Successfully assigned default/a to n"


def test_a_very_long_reason_is_cut_in_the_event(virtually: Virtually) -> None:
    """An Event's note has 1024 characters at most; the condition says it all."""

    async def story() -> tuple[int, int]:
        bench = Bench(extended=True)
        bench.nodes("n")
        bench.extender.filter = refuse_all("x" * 2000)
        bench.pod("a")
        await bench.settle()
        await bench.close()
        (event,) = bench.cluster.events.about("a", "FailedScheduling")
        return len(event.event.message), len(bench.get("a").refusal)

    note, condition = virtually(story())
    assert note == 1024
    assert condition > 2000


def test_an_answer_about_a_node_that_is_unknown_is_left_out_of_the_reasons(virtually: Virtually) -> None:
    """A reason for a node that was never offered counts nowhere."""

    async def story() -> str:
        bench = Bench(extended=True)
        bench.cluster.create(WatchedKind.NODE, node_json("n"))
        bench.extender.filter = lambda _: {"NodeNames": [], "FailedNodes": {"x": "no", "n": "yes"}}
        bench.pod("a")
        await bench.settle()
        await bench.close()
        return bench.get("a").refusal

    assert virtually(story()).startswith("0/1 nodes are available: 1 yes. ")
