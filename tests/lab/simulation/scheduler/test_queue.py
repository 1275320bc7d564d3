"""The scheduling queue."""

from __future__ import annotations

import asyncio
from typing import Any

from extender.control.ports import WatchedKind
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.objects import Stored
from muster_lab.simulation.scheduler.events import EventKind, SchedulerEvent, SchedulerPlugin
from muster_lab.simulation.scheduler.queue import QueuedPod, SchedulingQueue, target_event
from tests.builders import pod_json
from tests.lab.conftest import Virtually, loop_clock, reach

FIT, EXTENDER = SchedulerPlugin.NODE_RESOURCES_FIT, SchedulerPlugin.EXTENDER
BOUND = SchedulerEvent(EventKind.ASSIGNED_POD_ADDED)


class Pods:
    """Makes versions of pods."""

    def __init__(self) -> None:
        """Start on the running loop."""
        self._cluster = Cluster(loop_clock())

    def make(self, name: str, **spec: Any) -> Stored:
        """Return the first version of a pod."""
        return self._cluster.create(WatchedKind.POD, pod_json(name, spec=spec))

    def change(self, version: Stored, **spec: Any) -> Stored:
        """Return another version of a pod."""

        def mutate(document: dict[str, Any]) -> None:
            document["spec"].update(spec)
            document["metadata"]["annotations"] = {"changed": "yes"}

        return self._cluster.update(WatchedKind.POD, (version.key.namespace, version.key.name), mutate)


async def drain(queue: SchedulingQueue) -> list[str]:
    """Pop whatever can be popped now, and return the names."""
    names: list[str] = []
    while True:
        popping = asyncio.create_task(queue.pop())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not popping.done():
            popping.cancel()
            return names
        names.append(popping.result().pod.name)


async def refuse(queue: SchedulingQueue, *plugins: SchedulerPlugin) -> QueuedPod:
    """Pop a pod and have it refused."""
    queued = await queue.pop()
    queue.refused(queued, queued.version, plugins)
    return queued


def test_higher_priority_comes_first_then_who_came_earlier(virtually: Virtually) -> None:
    """The active queue is sorted by priority, then by the time of entering it."""

    async def story() -> list[str]:
        pods, queue = Pods(), SchedulingQueue()
        for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
            queue.add(pods.make(name, priority=priority))
            await asyncio.sleep(1)
        return await drain(queue)

    assert virtually(story()) == ["b", "d", "a", "c"]


def test_popping_waits_for_a_pod(virtually: Virtually) -> None:
    """Nothing is popped from an empty queue until something is added."""

    async def story() -> tuple[str, float]:
        pods, queue = Pods(), SchedulingQueue()
        asyncio.get_running_loop().call_later(5, lambda: queue.add(pods.make("a")))
        queued = await queue.pop()
        return queued.pod.name, asyncio.get_running_loop().time()

    assert virtually(story()) == ("a", 5.0)


def test_a_refused_pod_waits_for_an_event_that_concerns_its_rejectors(virtually: Virtually) -> None:
    """A bound pod changes nothing for a pod without room, and may change something for one that an extender refused."""

    async def story() -> list[str]:
        pods, queue = Pods(), SchedulingQueue()
        for name, plugin in (("full", FIT), ("refused", EXTENDER)):
            queue.add(pods.make(name))
            await refuse(queue, plugin)
        assert await drain(queue) == []
        queue.move(BOUND)
        return await drain(queue)

    assert virtually(story()) == ["refused"]


def test_a_woken_pod_is_taken_from_backoff_when_nothing_else_is_active(virtually: Virtually) -> None:
    """An idle scheduler tries a woken pod at once, backoff or not."""

    async def story() -> list[str]:
        pods, queue = Pods(), SchedulingQueue()
        queue.add(pods.make("woken"))
        await refuse(queue, EXTENDER)
        queue.move(BOUND)
        return await drain(queue)

    assert virtually(story()) == ["woken"]


def test_active_pods_go_before_those_in_backoff(virtually: Virtually) -> None:
    """As long as there are active pods, a woken one waits."""

    async def story() -> list[str]:
        pods, queue = Pods(), SchedulingQueue()
        queue.add(pods.make("woken", priority=100))
        await refuse(queue, EXTENDER)
        for name in ("a", "b"):
            queue.add(pods.make(name))
        queue.move(BOUND)
        return await drain(queue)

    assert virtually(story()) == ["a", "b", "woken"]


def test_backoff_ends_by_itself_and_restores_the_order(virtually: Virtually) -> None:
    """When its backoff is over a woken pod is active again, and its priority counts."""

    async def story() -> list[str]:
        pods, queue = Pods(), SchedulingQueue()
        queue.add(pods.make("woken", priority=100))
        await refuse(queue, EXTENDER)
        for name in ("a", "b"):
            queue.add(pods.make(name))
        queue.move(BOUND)
        await reach(2)
        return await drain(queue)

    assert virtually(story()) == ["woken", "a", "b"]


def test_a_pod_that_never_failed_does_not_back_off(virtually: Virtually) -> None:
    """Its backoff has ended before time began."""

    async def story() -> float:
        pods, queue = Pods(), SchedulingQueue()
        queue.add(pods.make("a"))
        return (await queue.pop()).backoff_end()

    assert virtually(story()) == float("-inf")


def test_backoff_doubles_to_ten_seconds(virtually: Virtually) -> None:
    """The window in which the backoff ends: 1, 2, 4, 8, then 10 seconds after the refusal."""

    async def story() -> list[float]:
        pods, queue = Pods(), SchedulingQueue()
        queue.add(pods.make("a"))
        ends = []
        for _ in range(6):
            ends.append((await refuse(queue, EXTENDER)).backoff_end())
            queue.move(BOUND)
        return ends

    assert virtually(story()) == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_an_error_is_retried_after_its_backoff_only(virtually: Virtually) -> None:
    """A pod that failed with an error is not taken early, and needs no event; the count starts anew after a refusal."""

    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        pods, queue = Pods(), SchedulingQueue()
        queue.add(pods.make("a"))
        times = []
        for _ in range(3):
            await refuse(queue)
            queued = await queue.pop()
            times.append(loop.time())
            queue.refused(queued, queued.version, [EXTENDER])
            assert queued.errors == 0
            queue.move(BOUND)
        return times

    assert virtually(story()) == [2.0, 4.0, 6.0]


def test_errors_in_a_row_double_the_backoff(virtually: Virtually) -> None:
    """After 1, 2 and 4 seconds, each to the end of its window of a second."""

    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        pods, queue = Pods(), SchedulingQueue()
        queue.add(pods.make("a"))
        queued = await queue.pop()
        times = []
        for _ in range(3):
            queue.refused(queued, queued.version, [])
            queued = await queue.pop()
            times.append(loop.time())
        return times

    assert virtually(story()) == [2.0, 5.0, 10.0]


def test_an_event_while_the_pod_is_tried_counts_afterwards(virtually: Virtually) -> None:
    """What happened during an attempt is held against its refusal: the pod is tried again without another event."""

    async def story() -> list[list[str]]:
        pods, queue = Pods(), SchedulingQueue()
        seen = []
        for plugin in (EXTENDER, FIT):
            queue.add(pods.make(plugin.lower()))
            queued = await queue.pop()
            queue.move(BOUND)
            queue.refused(queued, queued.version, [plugin])
            seen.append(await drain(queue))
        return seen

    assert virtually(story()) == [["extender"], []]


def test_an_update_of_the_pod_itself_wakes_it_where_that_can_help(virtually: Virtually) -> None:
    """Its own update wakes a pod that an extender refused, not one without room, and no other pod."""

    async def story() -> list[str]:
        pods, queue = Pods(), SchedulingQueue()
        versions = {}
        for name, plugin in (("full", FIT), ("refused", EXTENDER), ("bystander", EXTENDER)):
            versions[name] = pods.make(name)
            queue.add(versions[name])
            await refuse(queue, plugin)
        for name in ("full", "refused"):
            after = pods.change(versions[name])
            queue.update(after, target_event(versions[name].pod, after.pod))
        return await drain(queue)

    assert virtually(story()) == ["refused"]


def test_an_update_in_flight_is_an_event_for_the_pod(virtually: Virtually) -> None:
    """The pod in flight keeps its version; the update wakes it after a refusal by an extender."""

    async def story() -> list[str]:
        pods, queue = Pods(), SchedulingQueue()
        before = pods.make("a")
        queue.add(before)
        queued = await queue.pop()
        assert queue.in_flight(queued.uid)
        after = pods.change(before)
        queue.update(after, target_event(before.pod, after.pod))
        assert queued.version is before
        queue.refused(queued, after, [EXTENDER])
        assert not queue.in_flight(queued.uid)
        assert queued.version is after
        return await drain(queue)

    assert virtually(story()) == ["a"]


def test_an_update_of_a_waiting_pod_changes_its_place(virtually: Virtually) -> None:
    """The newest version counts, in whichever place it waits; one that is nowhere is added."""

    async def story() -> tuple[list[str], int]:
        pods, queue = Pods(), SchedulingQueue()
        active, backing = pods.make("active"), pods.make("backing")
        queue.add(backing)
        await refuse(queue, EXTENDER)
        queue.add(pods.make("other"))
        queue.add(active)
        queue.move(BOUND)
        for before in (active, backing):
            after = pods.change(before, priority=50)
            queue.update(after, target_event(before.pod, after.pod))
        new = pods.make("new")
        queue.update(new, target_event(new.pod, new.pod))
        return await drain(queue), len(queue)

    assert virtually(story()) == (["active", "other", "new", "backing"], 0)


def test_a_gated_pod_is_not_tried_until_it_is_free(virtually: Virtually) -> None:
    """Scheduling gates keep a pod out of the active queue."""

    async def story() -> tuple[list[str], list[str], int]:
        pods, queue = Pods(), SchedulingQueue()
        before = pods.make("a", schedulingGates=[{"name": "g"}])
        queue.add(before)
        gated, waiting = await drain(queue), len(queue)
        still = pods.change(before, schedulingGates=[{"name": "h"}])
        queue.update(still, target_event(before.pod, still.pod))
        assert await drain(queue) == []
        free = pods.change(before, schedulingGates=[])
        queue.update(free, target_event(still.pod, free.pod))
        return gated, await drain(queue), waiting

    assert virtually(story()) == ([], ["a"], 1)


def test_a_deleted_pod_is_nowhere(virtually: Virtually) -> None:
    """A deleted pod is forgotten in every place."""

    async def story() -> tuple[list[str], int]:
        pods, queue = Pods(), SchedulingQueue()
        versions = [
            pods.make("unschedulable"),
            pods.make("backing"),
            pods.make("erring"),
            pods.make("gated", schedulingGates=[{"name": "g"}]),
            pods.make("active"),
        ]
        queue.add(versions[1])
        await refuse(queue, EXTENDER)
        queue.move(BOUND)
        queue.add(versions[0])
        await refuse(queue, FIT)
        queue.add(versions[2])
        await refuse(queue)
        queue.add(versions[3])
        queue.add(versions[4])
        assert len(queue) == 5
        for version in versions:
            queue.delete(version.uid)
        await reach(600)
        return await drain(queue), len(queue)

    assert virtually(story()) == ([], 0)


def test_only_those_whom_an_event_concerns_are_moved(virtually: Virtually) -> None:
    """A released nomination concerns pods of no higher priority."""

    async def story() -> list[str]:
        pods, queue = Pods(), SchedulingQueue()
        for name, priority in (("low", 1), ("high", 10)):
            queue.add(pods.make(name, priority=priority))
            await refuse(queue, EXTENDER)
        queue.move(BOUND, concerns=lambda pod: pod.priority <= 5)
        return await drain(queue)

    assert virtually(story()) == ["low"]


def test_nothing_waits_for_an_event_for_ever(virtually: Virtually) -> None:
    """After five minutes without an event a pod is tried again, within half a minute."""

    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        pods, queue = Pods(), SchedulingQueue()
        queue.add(pods.make("a"))
        times = []
        for _ in range(2):
            await refuse(queue, FIT)
            queued = await queue.pop()
            times.append(loop.time())
            queue.add(queued.version)
            queue.done(queued.uid)
        return times

    assert virtually(story()) == [330.0, 660.0]
