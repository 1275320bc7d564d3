"""The kinds of objects that are watched: where they are, how they are read, and what is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from extender.control.observer import Observer
from extender.control.ports import Kind
from extender.domain.lease import read_lease
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.node import read_node
from extender.domain.pod import read_pod
from extender.domain.podgroup import read_coscheduling, read_native
from extender.domain.volcano import read_volcano
from extender.kube.api import ApiServer
from extender.kube.reflector import Reflector, Sleep
from extender.kube.sharingfeeds import sharing_feeds
from extender.kube.topologyfeeds import calibration_feed, topology_feeds
from extender.kube.watch import Feed, Identity, WatchOptions
from extender.kube.workloadfeeds import workload_feeds
from extender.wire import codec
from extender.wire import kubernetes as wire
from extender.wire.volcano import VolcanoPodGroup

#: How long the watch of the Lease may be silent, and the longest pause before it is opened again (seconds).
LEASE_IDLE_SECONDS = 5.0
LEASE_BACKOFF_SECONDS = 2.0


class Feeds:
    """Keep an observer in step with the API server: one watch for each kind, each reported as synced by itself."""

    def __init__(  # noqa: PLR0913 - what it reads, whom it tells, and what tests replace
        self,
        api: ApiServer,
        observer: Observer,
        options: WatchOptions = WatchOptions(),  # noqa: B008 - a frozen value
        *,
        random: Random,
        sleep: Sleep = asyncio.sleep,
        lease: str | None = None,
        calibration: str = "muster-system/muster-calibration",
    ) -> None:
        """Prepare; nothing is read before `run`.

        `random` draws jitter and the life of watches, `sleep` waits. `lease` (NAMESPACE/NAME) is watched too.
        `calibration` (NAMESPACE/NAME) is the ConfigMap with measured bandwidths.
        """
        watched = (*feeds(observer), calibration_feed(observer, calibration))
        if lease is not None:
            watched = (_lease(observer, lease), *watched)
        self._reflectors: dict[Kind, Reflector[Any]] = {
            feed.kind: Reflector(feed, api, observer, _patience(feed.kind, options), random=random, sleep=sleep)
            for feed in watched
        }

    async def run(self) -> None:
        """Watch until cancelled; failures of the API server are survived, an error of the observer ends all."""
        async with asyncio.TaskGroup() as group:
            for kind, reflector in self._reflectors.items():
                group.create_task(reflector.run(), name=f"watch-{kind}")

    def undecodable(self) -> Mapping[Kind, int]:
        """Count, by kind, the objects and events that were skipped because they could not be decoded."""
        return {kind: reflector.undecodable for kind, reflector in self._reflectors.items()}


def _patience(kind: Kind, options: WatchOptions) -> WatchOptions:
    """Return how patient the watch of a kind is: what a Lease says is out of date within seconds."""
    if kind is not Kind.LEASE:
        return options
    return replace(
        options,
        idle_timeout_seconds=min(options.idle_timeout_seconds, LEASE_IDLE_SECONDS),
        longest_backoff_seconds=min(options.longest_backoff_seconds, LEASE_BACKOFF_SECONDS),
    )


def feeds(observer: Observer) -> tuple[Feed[Any], ...]:
    """Return what to watch, told to `observer`."""
    priorities: dict[str, int] = {}
    return (
        _priority_classes(observer, priorities),
        _nodes(observer),
        _coscheduling_pod_groups(observer),
        _native_pod_groups(observer),
        _volcano_pod_groups(observer, priorities),
        *workload_feeds(observer, priorities),
        *topology_feeds(observer),
        *sharing_feeds(observer),
        _pods(observer),
    )


def _nodes(observer: Observer) -> Feed[wire.Node]:
    return Feed(
        kind=Kind.NODE,
        path="/api/v1/nodes",
        decode=codec.decode_node,
        seen=lambda node: observer.node_seen(read_node(node)),
        gone=lambda who: observer.node_gone(who.name),
    )


def _pods(observer: Observer) -> Feed[wire.Pod]:
    # All of them: members that have succeeded count, and pods of other schedulers take room.
    return Feed(
        kind=Kind.POD,
        path="/api/v1/pods",
        decode=codec.decode_pod,
        seen=lambda pod: observer.pod_seen(read_pod(pod, observer.default_priority())),
        gone=lambda who: observer.pod_gone(who.uid),
    )


def _priority_classes(observer: Observer, priorities: dict[str, int]) -> Feed[wire.PriorityClass]:
    """Keep `priorities`, by the names of the classes, beside telling the observer."""

    def seen(item: wire.PriorityClass) -> None:
        name = (item.metadata.name if item.metadata else None) or ""
        priorities[name] = item.value or 0
        observer.priority_class_seen(name, item.value or 0, global_default=bool(item.global_default))

    def gone(who: Identity) -> None:
        priorities.pop(who.name, None)
        observer.priority_class_gone(who.name)

    return Feed(
        kind=Kind.PRIORITY_CLASS,
        path="/apis/scheduling.k8s.io/v1/priorityclasses",
        decode=codec.decode_priority_class,
        seen=seen,
        gone=gone,
    )


def _coscheduling_pod_groups(observer: Observer) -> Feed[wire.CoschedulingPodGroup]:
    return Feed(
        kind=Kind.COSCHEDULING_POD_GROUP,
        path="/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
        decode=codec.decode_coscheduling_pod_group,
        seen=lambda group: observer.group_seen(read_coscheduling(group)),
        gone=lambda who: observer.group_gone(_group(GroupApi.COSCHEDULING, who), who.uid),
        optional=True,
    )


def _native_pod_groups(observer: Observer) -> Feed[wire.NativePodGroup]:
    return Feed(
        kind=Kind.NATIVE_POD_GROUP,
        path="/apis/scheduling.k8s.io/v1beta1/podgroups",
        decode=codec.decode_native_pod_group,
        seen=lambda group: observer.group_seen(read_native(group)),
        gone=lambda who: observer.group_gone(_group(GroupApi.NATIVE, who), who.uid),
        optional=True,
    )


def _volcano_pod_groups(observer: Observer, priorities: Mapping[str, int]) -> Feed[VolcanoPodGroup]:
    """Volcano's own controllers and webhooks leave the class as a name; a class not known yet leaves it to the pods."""

    def seen(group: VolcanoPodGroup) -> None:
        name = (group.spec.priority_class_name if group.spec else None) or ""
        observer.group_seen(read_volcano(group, priorities.get(name)))

    return Feed(
        kind=Kind.VOLCANO_POD_GROUP,
        path="/apis/scheduling.volcano.sh/v1beta1/podgroups",
        decode=codec.decode_volcano_pod_group,
        seen=seen,
        gone=lambda who: observer.group_gone(_group(GroupApi.VOLCANO, who), who.uid),
        optional=True,
    )


def _lease(observer: Observer, lease: str) -> Feed[wire.Lease]:
    namespace, _, name = lease.partition("/")
    return Feed(
        kind=Kind.LEASE,
        path=f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
        decode=codec.decode_lease,
        seen=lambda item: observer.lease_seen(read_lease(item)),
        gone=lambda _who: observer.lease_gone(),
        selector={"fieldSelector": f"metadata.name={name}"},
    )


def _group(api: GroupApi, who: Identity) -> GroupRef:
    return GroupRef(api, who.namespace, who.name)
