"""The API server in memory: what it stores, refuses and tells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from extender.control.ports import ApiError, ClusterEvent, WatchedKind
from extender.objects.meta import ObjectRef
from extender.objects.sources.coscheduling import COSCHEDULING, COSCHEDULING_POD_GROUPS
from extender.objects.sources.native import NATIVE, NATIVE_POD_GROUPS
from extender.objects.sources.table import SOURCE_OF
from extender.objects.sources.volcano import VOLCANO, VOLCANO_POD_GROUPS
from muster_lab.simulation.cluster import Cluster, EventLog
from muster_lab.simulation.kubelet import Kubelet
from muster_lab.simulation.objects import ChangeType, ObjectChange, Stored
from tests.builders import coscheduling_json, native_json, node_json, pod_json, volcano_json
from tests.lab.conftest import Virtually, loop_clock, reach


def label(key: str) -> Any:
    """Return a mutation that sets a label."""

    def mutate(document: dict[str, Any]) -> None:
        document["metadata"].setdefault("labels", {})[key] = "x"

    return mutate


def test_a_created_object_gets_uid_time_version_and_defaults(virtually: Virtually) -> None:
    """An object is stored as the API server would, whatever UID it came with; the caller's document is left alone."""

    async def story() -> tuple[Stored, Stored, dict[str, Any]]:
        cluster = Cluster(loop_clock())
        await asyncio.sleep(61)
        document = pod_json("a", gpus=1)
        first = cluster.create(WatchedKind.POD, document)
        return first, cluster.create(WatchedKind.POD, pod_json("b")), document

    first, second, document = virtually(story())
    assert document == pod_json("a", gpus=1)
    assert first.json["metadata"]["creationTimestamp"] == "2026-01-01T00:01:01Z"
    assert first.json["spec"]["priority"] == 0
    assert first.json["status"]["phase"] == "Pending"
    assert first.uid == first.json["metadata"]["uid"] == first.pod.uid
    assert first.uid < second.uid
    assert int(first.json["metadata"]["resourceVersion"]) < int(second.json["metadata"]["resourceVersion"])


def test_names_are_taken_once_per_kind_and_namespace(virtually: Virtually) -> None:
    """A second object of a name is refused with 409 AlreadyExists."""

    async def story() -> ApiError:
        cluster = Cluster(loop_clock())
        cluster.create(WatchedKind.NODE, node_json("x"))
        cluster.create(WatchedKind.POD, pod_json("x"))
        with pytest.raises(ApiError) as refused:
            cluster.create(WatchedKind.POD, pod_json("x"))
        return refused.value

    assert (virtually(story()).status, virtually(story()).reason) == (409, "AlreadyExists")


def test_what_is_not_there_or_another_is_refused(virtually: Virtually) -> None:
    """A missing object is 404; one with another UID is 409."""

    async def story() -> list[int]:
        cluster = Cluster(loop_clock())
        cluster.create(WatchedKind.POD, pod_json("a"))
        statuses = []
        for call in (
            lambda: cluster.get(WatchedKind.POD, "default", "b"),
            lambda: cluster.get(WatchedKind.POD, "default", "a", "another"),
            lambda: cluster.update(WatchedKind.POD, ("default", "b"), label("x")),
            lambda: cluster.update(WatchedKind.POD, ("default", "a"), label("x"), "another"),
            lambda: cluster.delete(WatchedKind.POD, "default", "b"),
            lambda: cluster.delete(WatchedKind.POD, "default", "a", "another"),
            lambda: cluster.bind("default", "b", "n"),
            lambda: cluster.bind("default", "a", "n", "another"),
        ):
            with pytest.raises(ApiError) as refused:
                call()
            statuses.append(refused.value.status)
        return statuses

    assert virtually(story()) == [404, 409] * 4


def test_changes_are_told_in_order_and_never_at_once(virtually: Virtually) -> None:
    """A watcher hears of every change, in order, on a later turn of the loop, with the versions before and after."""

    async def story() -> list[tuple[ChangeType, str, bool]]:
        cluster = Cluster(loop_clock())
        told: list[ObjectChange] = []
        cluster.watch(told.append)
        cluster.create(WatchedKind.POD, pod_json("a"))
        cluster.update(WatchedKind.POD, ("default", "a"), label("x"))
        cluster.delete(WatchedKind.POD, "default", "a")
        assert told == []
        await reach(0)
        assert told[0].after is told[1].before
        return [(change.type, change.object.key.name, change.after is None) for change in told]

    assert virtually(story()) == [
        (ChangeType.ADDED, "a", False),
        (ChangeType.MODIFIED, "a", False),
        (ChangeType.DELETED, "a", True),
    ]


def test_a_late_watcher_hears_of_what_is_there(virtually: Virtually) -> None:
    """A watch starts with all objects, as additions."""

    async def story() -> list[str]:
        cluster = Cluster(loop_clock())
        cluster.create(WatchedKind.NODE, node_json("n"))
        cluster.create(WatchedKind.POD, pod_json("a"))
        told: list[ObjectChange] = []
        cluster.watch(told.append)
        await reach(0)
        return [f"{change.type} {change.object.key.name}" for change in told]

    assert virtually(story()) == ["ADDED n", "ADDED a"]


def test_news_takes_as_long_as_its_watch(virtually: Virtually) -> None:
    """With latency every change arrives that much later, still in order."""

    async def story() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        cluster = Cluster(loop_clock())
        told: list[tuple[float, str]] = []
        cluster.watch(lambda change: told.append((loop.time(), change.object.key.name)), latency=2.0)
        for name in ("a", "b", "c"):
            cluster.create(WatchedKind.POD, pod_json(name))
            await asyncio.sleep(1.5)
        await reach(10)
        return told

    assert virtually(story()) == [(2.0, "a"), (3.5, "b"), (5.0, "c")]


def test_what_a_handler_writes_is_told_after_what_came_before(virtually: Virtually) -> None:
    """A write made while changes are delivered is delivered after them."""

    async def story() -> list[str]:
        cluster = Cluster(loop_clock())
        told: list[str] = []

        def react(change: ObjectChange) -> None:
            told.append(change.object.key.name)
            if change.object.key.name == "a":
                cluster.create(WatchedKind.POD, pod_json("reaction"))

        cluster.watch(react)
        for name in ("a", "b"):
            cluster.create(WatchedKind.POD, pod_json(name))
        await reach(0)
        return told

    assert virtually(story()) == ["a", "b", "reaction"]


def test_an_audit_hears_of_a_write_in_the_moment_in_which_it_is_made(virtually: Virtually) -> None:
    """Unlike a watch, which is a turn late at least; each write has the next version, deletions included."""

    async def story() -> list[tuple[str, int]]:
        cluster = Cluster(loop_clock())
        heard: list[tuple[str, int]] = []
        cluster.audit(lambda change: heard.append((change.type.value, change.version)))
        cluster.create(WatchedKind.POD, pod_json("a"))
        cluster.bind("default", "a", "n")
        cluster.delete(WatchedKind.POD, "default", "a")
        return heard

    assert virtually(story()) == [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 3)]


@pytest.mark.parametrize("latency", [0.0, 1.0])
def test_a_watch_belongs_to_who_watches(virtually: Virtually, latency: float) -> None:
    """News is delivered in the context of who asked for it, whoever made the change."""
    who = ContextVar("who", default="nobody")

    async def story() -> list[str]:
        cluster = Cluster(loop_clock())
        heard: list[str] = []

        async def as_somebody(name: str, act: Callable[[], object]) -> None:
            who.set(name)
            act()

        await asyncio.create_task(
            as_somebody("watcher", lambda: cluster.watch(lambda _: heard.append(who.get()), latency))
        )
        await asyncio.create_task(as_somebody("writer", lambda: cluster.create(WatchedKind.POD, pod_json("a"))))
        await reach(1)
        return heard

    assert virtually(story()) == ["watcher"]


def test_an_update_that_changes_nothing_is_not_written(virtually: Virtually) -> None:
    """No new version, nothing to tell; the stored version is the same object."""

    async def story() -> tuple[bool, int]:
        cluster = Cluster(loop_clock())
        before = cluster.create(WatchedKind.POD, pod_json("a"))
        told: list[ObjectChange] = []
        cluster.watch(told.append)
        after = cluster.update(WatchedKind.POD, ("default", "a"), lambda _: None)
        await reach(0)
        return after is before, len(told)

    assert virtually(story()) == (True, 1)


def test_binding_puts_a_pod_on_its_node_and_clears_its_nomination(virtually: Virtually) -> None:
    """The pod has its node and PodScheduled is True; the nomination is gone; the same binding again changes nothing."""

    async def story() -> tuple[Stored, Stored]:
        cluster = Cluster(loop_clock())
        cluster.create(WatchedKind.POD, pod_json("a", status={"nominatedNodeName": "n"}))
        return cluster.bind("default", "a", "n"), cluster.bind("default", "a", "n")

    bound, again = virtually(story())
    assert (bound.pod.node_name, bound.pod.nominated_node) == ("n", "")
    (condition,) = bound.json["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert again is bound


@pytest.mark.parametrize(
    ("pod", "refusal"),
    [
        (pod_json("a", node="m"), 'pod a is already assigned to node "m"'),
        (pod_json("a", spec={"schedulingGates": [{"name": "g"}]}), "pod a has non-empty .spec.schedulingGates"),
        (
            {**pod_json("a"), "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "pod a is being deleted, cannot be assigned to a host",
        ),
    ],
)
def test_a_binding_that_cannot_be_is_a_conflict(virtually: Virtually, pod: dict[str, Any], refusal: str) -> None:
    """A pod that is elsewhere, gated or going away is not bound; the message is the real API server's."""

    async def story() -> ApiError:
        cluster = Cluster(loop_clock())
        cluster.create(WatchedKind.POD, pod)
        with pytest.raises(ApiError) as refused:
            cluster.bind("default", "a", "n")
        return refused.value

    error = virtually(story())
    assert error.status == 409
    assert error.message == f'Operation cannot be fulfilled on pods/binding "a": {refusal}'


def test_a_deleted_pod_on_a_node_ends_after_its_grace_period(virtually: Virtually) -> None:
    """It is marked at once and goes when the time is over; deleting it again changes nothing; others go at once."""

    async def story() -> list[tuple[float, str, bool]]:
        loop = asyncio.get_running_loop()
        cluster = Cluster(loop_clock())
        told: list[tuple[float, str, bool]] = []
        grace = {"terminationGracePeriodSeconds": 30}
        cluster.create(WatchedKind.POD, pod_json("waiting", spec=grace))
        cluster.create(WatchedKind.POD, pod_json("running", spec=grace | {"nodeName": "n"}))
        await reach(0)
        cluster.watch(lambda c: told.append((loop.time(), f"{c.type} {c.object.key.name}", c.object.pod.deleting)))
        await reach(0)
        told.clear()
        for name in ("waiting", "running", "running"):
            cluster.delete(WatchedKind.POD, "default", name)
        await reach(60)
        return told

    assert virtually(story()) == [
        (0.0, "DELETED waiting", False),
        (0.0, "MODIFIED running", True),
        (30.0, "DELETED running", True),
    ]


def test_a_grace_period_does_not_end_a_namesake(virtually: Virtually) -> None:
    """A pod created anew under the name of one that was ending stays."""

    async def story() -> bool:
        cluster = Cluster(loop_clock())
        spec = {"terminationGracePeriodSeconds": 30, "nodeName": "n"}
        cluster.create(WatchedKind.POD, pod_json("a", spec=spec))
        cluster.delete(WatchedKind.POD, "default", "a")
        cluster.update(WatchedKind.POD, ("default", "a"), lambda d: d["status"].update(phase="Failed"))
        cluster.delete(WatchedKind.POD, "default", "a")
        cluster.create(WatchedKind.POD, pod_json("a", spec=spec))
        await reach(60)
        return cluster.find(WatchedKind.POD, "default", "a") is not None

    assert virtually(story())


def test_a_pods_priority_is_that_of_its_class_or_of_the_default(virtually: Virtually) -> None:
    """Admission fills in the priority; one that is given stays."""

    async def story() -> list[int]:
        cluster = Cluster(loop_clock())
        for name, value, default in (("high", 100, False), ("normal", 5, True)):
            cluster.create(
                WatchedKind.PRIORITY_CLASS, {"metadata": {"name": name}, "value": value, "globalDefault": default}
            )
        specs: list[dict[str, Any]] = [
            {},
            {"priorityClassName": "high"},
            {"priority": 7},
            {"priorityClassName": "gone"},
        ]
        return [
            cluster.create(WatchedKind.POD, pod_json(f"p{i}", spec=spec)).pod.priority for i, spec in enumerate(specs)
        ]

    assert virtually(story()) == [5, 100, 7, 0]


def test_a_gated_pod_says_so(virtually: Virtually) -> None:
    """A pod with scheduling gates has the condition that the API server gives it."""

    async def story() -> Stored:
        return Cluster(loop_clock()).create(WatchedKind.POD, pod_json("a", spec={"schedulingGates": [{"name": "g"}]}))

    assert virtually(story()).pod.refusal == "SchedulingGated"


def test_groups_of_all_apis_are_kept(virtually: Virtually) -> None:
    """PodGroups are objects like others, from which Muster reads what its client would."""

    async def story() -> list[Any]:
        cluster = Cluster(loop_clock())
        ours = cluster.create(COSCHEDULING_POD_GROUPS, coscheduling_json("g", minMember=3))
        native = cluster.create(NATIVE_POD_GROUPS, native_json("g", gang={"minCount": 2}))
        volcano = cluster.create(VOLCANO_POD_GROUPS, volcano_json("g", minMember=4))
        for version in (ours, native, volcano):
            with pytest.raises(TypeError):
                _ = version.pod
            with pytest.raises(TypeError):
                _ = version.node
        return [ours.item, native.item, volcano.item]

    items = zip((COSCHEDULING, NATIVE, VOLCANO), virtually(story()), strict=True)
    groups = [group for api, item in items for group in SOURCE_OF[api].kinds[0].read(item, {})]
    assert [group.min_member for group in groups] == [3, 2, 4]


def test_a_change_without_any_version_is_a_mistake() -> None:
    """A change is of something."""
    with pytest.raises(ValueError, match="a version before or after"):
        _ = ObjectChange(None, None).object


def test_equal_events_are_counted(virtually: Virtually) -> None:
    """An Event recorded again raises its count and its last time; another reason is another Event."""

    def event(reason: str) -> ClusterEvent:
        about = ObjectRef("v1", "Pod", "default", "a", "uid")
        return ClusterEvent(about, warning=True, reason=reason, message="m", action="Scheduling")

    async def story() -> EventLog:
        cluster = Cluster(loop_clock())
        cluster.record(event("one"))
        await asyncio.sleep(5)
        cluster.record(event("one"))
        cluster.record(event("two"))
        return cluster.events

    log = virtually(story())
    first, second = log
    assert (first.count, (first.last - first.first).total_seconds(), second.count, len(log)) == (2, 5, 1, 2)
    assert [found.event.reason for found in log.about("a")] == ["one", "two"]
    assert [found.event.reason for found in log.about("a", "two")] == ["two"]
    assert log.about("b") == []


def test_the_oldest_events_give_way(virtually: Virtually, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that lives long does not grow for ever."""
    monkeypatch.setattr(EventLog, "CAPACITY", 2)

    async def story() -> list[str]:
        cluster = Cluster(loop_clock())
        for name in "abc":
            about = ObjectRef("v1", "Pod", "default", name, name)
            cluster.record(ClusterEvent(about, warning=False, reason="r", message="m", action="x"))
        return [known.event.about.name for known in cluster.events]

    assert virtually(story()) == ["b", "c"]


def test_kubelets_start_what_is_on_their_node(virtually: Virtually) -> None:
    """A bound pod runs at once, with a start time; others wait; one deleted in the same moment is let go."""

    async def story() -> dict[str, tuple[str, str | None]]:
        clock = loop_clock()
        cluster = Cluster(clock)
        Kubelet(cluster, clock)
        for name in ("bound", "waiting", "brief"):
            cluster.create(WatchedKind.POD, pod_json(name))
        await asyncio.sleep(60)
        cluster.bind("default", "bound", "n")
        cluster.bind("default", "brief", "n")
        cluster.delete(WatchedKind.POD, "default", "brief")
        await reach(100)
        return {
            v.pod.name: (v.pod.phase.value, v.json["status"].get("startTime")) for v in cluster.list(WatchedKind.POD)
        }

    assert virtually(story()) == {"bound": ("Running", "2026-01-01T00:01:00Z"), "waiting": ("Pending", None)}
