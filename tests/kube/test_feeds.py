"""The kinds, from the API server's JSON to what the observer is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random

import pytest
from aiohttp import web

from extender.admission.events import NodeGone
from extender.control.ports import News, WatchedKind
from extender.control.watched import REQUIRED_KINDS
from extender.kube.reflector import Feeds, feeds
from extender.kube.transport import Transport
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.native import NATIVE
from extender.objects.sources.volcano import VOLCANO
from tests.kube.apiscript import ApiScript, added, bookmark, deleted, event, hold, listed, named, refuses, watch
from tests.kube.observer import Recorder
from tests.kube.watched import Naps

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
COSCHEDULING_PATH = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
NATIVE_PATH = "/apis/scheduling.k8s.io/v1beta1/podgroups"
VOLCANO_PATH = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
CALIBRATION = "/api/v1/namespaces/muster-system/configmaps"
NAMESPACES = "/api/v1/namespaces"
#: What every cluster has.
CORE = (NODES, PODS, CLASSES, CALIBRATION, NAMESPACES)


@contextlib.asynccontextmanager
async def running(transport: Transport, observer: Recorder, lease: str | None = None) -> AsyncIterator[Feeds]:
    """Run the feeds."""
    feeds = Feeds(transport, observer, random=Random(1), sleep=Naps(), lease=lease)
    task = asyncio.create_task(feeds.run())
    try:
        yield feeds
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_nodes(script: ApiScript, transport: Transport) -> None:
    """A node is told of as the scheduler sees it, and its deletion by name."""
    item = named("n", status={"allocatable": {"cpu": "2"}})
    script.plan(NODES, watch(event("ADDED", item), listed(7), deleted("n"), then=hold))
    observer = Recorder()
    async with running(transport, observer):
        await observer.until(lambda: ("node gone", "n") in observer.told)
    assert observer.nodes[0].allocatable == {"cpu": 2000}


async def test_pods(script: ApiScript, transport: Transport) -> None:
    """A pod that names no priority gets that of the global default class; its deletion is told by UID."""
    script.plan(CLASSES, watch(added("standard", value=5, globalDefault=True), listed(3), then=hold))
    plain = added("p", namespace="x", spec={"nodeName": "n"})
    important = added("q", namespace="x", spec={"priority": 9})
    script.plan(PODS, watch(plain, important, listed(7), deleted("p", namespace="x"), then=hold))
    observer = Recorder()
    async with running(transport, observer):
        await observer.until(lambda: ("pod gone", "uid-p") in observer.told)
    assert [(pod.key, pod.priority, pod.node_name) for pod in observer.pods] == [("x/p", 5, "n"), ("x/q", 9, "")]


async def test_the_schedulers_lease(script: ApiScript, transport: Transport) -> None:
    """Of all Leases only the one that is named is watched; its holder is told of, and its deletion."""
    path = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases"
    held = added("muster", namespace="muster-system", spec={"holderIdentity": "a_1", "leaseDurationSeconds": 5})
    script.plan(path, watch(held, listed(7), deleted("muster", namespace="muster-system"), then=hold))
    observer = Recorder()
    async with running(transport, observer, lease="muster-system/muster"):
        await observer.until(lambda: ("lease gone",) in observer.told)
    assert [(lease.holder, lease.duration) for lease in observer.leases] == [("a_1", 5.0)]
    assert WatchedKind.LEASE in observer.synced_kinds
    assert script.of(path)[0].query["fieldSelector"] == "metadata.name=muster"


async def test_priority_classes(script: ApiScript, transport: Transport) -> None:
    """A PriorityClass is told of with its value and whether it is the default."""
    script.plan(
        CLASSES,
        watch(added("high", value=1000), added("usual", value=10, globalDefault=True), added("none"), listed(7),
              deleted("high"), then=hold),
    )  # fmt: skip
    observer = Recorder()
    async with running(transport, observer):
        await observer.until(lambda: ("class gone", "high") in observer.told)
    seen = [words for words in observer.told if words[0] == "class seen"]
    assert seen == [
        ("class seen", "high", "1000", ""),
        ("class seen", "usual", "10", "default"),
        ("class seen", "none", "0", ""),
    ]


async def test_coscheduling_pod_groups(script: ApiScript, transport: Transport) -> None:
    """A coscheduling PodGroup is told of under its API, and so is its deletion, with its UID."""
    item = added("g", namespace="x", spec={"minMember": 4})
    script.plan(COSCHEDULING_PATH, watch(item, listed(7), deleted("g", namespace="x"), then=hold))
    observer = Recorder()
    async with running(transport, observer):
        await observer.until(lambda: ("group gone", "scheduling.x-k8s.io", "x/g", "uid-g") in observer.told)
    (group,) = observer.groups
    assert (group.ref, group.min_member) == (GroupRef(COSCHEDULING, "x", "g"), 4)


async def test_native_pod_groups(script: ApiScript, transport: Transport) -> None:
    """A native PodGroup of the same name is another group."""
    item = added("g", namespace="x", spec={"schedulingPolicy": {"gang": {"minCount": 3}}})
    script.plan(NATIVE_PATH, watch(item, listed(7), deleted("g", namespace="x"), then=hold))
    observer = Recorder()
    async with running(transport, observer):
        await observer.until(lambda: ("group gone", "scheduling.k8s.io", "x/g", "uid-g") in observer.told)
    (group,) = observer.groups
    assert (group.ref, group.min_member) == (GroupRef(NATIVE, "x", "g"), 3)


async def test_volcano_pod_groups(script: ApiScript, transport: Transport) -> None:
    """A Volcano PodGroup is told of with the value of its PriorityClass, or none as long as that is not known."""
    script.plan(CLASSES, watch(added("high", value=1000), listed(7), then=hold))
    high = added("g", namespace="x", spec={"minMember": 3, "priorityClassName": "high"})
    other = added("h", namespace="x", spec={"minMember": 2, "priorityClassName": "unknown"})
    observer = Recorder()

    async def later(script: ApiScript, request: web.Request) -> web.StreamResponse:
        await observer.until(lambda: ("class seen", "high", "1000", "") in observer.told)
        return await watch(high, other, listed(7), deleted("g", namespace="x"), then=hold)(script, request)

    script.plan(VOLCANO_PATH, later)
    async with running(transport, observer):
        await observer.until(lambda: ("group gone", "scheduling.volcano.sh", "x/g", "uid-g") in observer.told)
    assert [(group.ref, group.min_member, group.priority) for group in observer.groups] == [
        (GroupRef(VOLCANO, "x", "g"), 3, 1000),
        (GroupRef(VOLCANO, "x", "h"), 2, None),
    ]


async def test_cluster_without_further_apis_is_synced(script: ApiScript, transport: Transport) -> None:
    """Nothing beyond the core kinds and the ConfigMap need be there: all kinds are synced, each once."""
    optional = [feed for feed in feeds(Recorder()) if feed.optional]
    for path in CORE:
        script.plan(path, watch(listed(7), then=hold))
    for path in (path for feed in optional for path in (feed.path, *feed.older)):
        script.plan(path, refuses(404, "NotFound"))
    observer = Recorder()
    async with running(transport, observer):
        await observer.until(lambda: len(observer.synced_kinds) == len(REQUIRED_KINDS))
    assert sorted(observer.synced_kinds) == sorted(REQUIRED_KINDS)
    assert len(optional) == len(REQUIRED_KINDS) - len(CORE)


@pytest.mark.parametrize("path", CORE)
async def test_cluster_that_lacks_a_core_api_is_not_synced(script: ApiScript, transport: Transport, path: str) -> None:
    """A 404 for a kind that every cluster has is not an empty list."""
    script.plan(path, refuses(404, "NotFound"))
    observer = Recorder()
    async with running(transport, observer):
        await observer.until(lambda: observer.restarts)
    assert observer.synced_kinds == []


async def test_undecodable_objects_are_counted_by_kind(script: ApiScript, transport: Transport) -> None:
    """What had to be skipped can be read off, kind by kind."""
    script.plan(NODES, watch(added("n", spec=7), added("m"), listed(7), then=hold))
    observer = Recorder()
    async with running(transport, observer) as feeds:
        await observer.until(lambda: ("node seen", "m") in observer.told)
        assert feeds.undecodable() == {kind: int(kind is WatchedKind.NODE) for kind in REQUIRED_KINDS}


async def test_error_of_the_observer_ends_all(script: ApiScript, transport: Transport) -> None:
    """A mistake of our own is not retried: it comes out, and all watches end."""

    class Broken(Recorder):
        """An observer with a mistake."""

        def tell(self, event: News) -> None:
            """Fail for a node that is gone."""
            match event:
                case NodeGone(name):
                    raise LookupError(name)
                case _:
                    super().tell(event)

    script.plan(NODES, watch(added("n"), listed(7), bookmark(8), deleted("n"), then=hold))
    feeds = Feeds(transport, Broken(), random=Random(1), sleep=Naps())
    with pytest.raises(ExceptionGroup) as raised:
        await feeds.run()
    assert raised.group_contains(LookupError, match="n")
