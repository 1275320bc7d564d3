"""What the watches of Muster's own client would deliver, read off the simulated API server."""

from __future__ import annotations

import asyncio

from extender.control.ports import REQUIRED_KINDS, Observer
from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.simulation.cluster import Cluster
from extender.simulation.objects import Change
from extender.wire.kubernetes import PriorityClass

#: How often the API server sends a bookmark on a silent watch. Source: bookmarkFrequency of apiserver's cacher.
BOOKMARK_SECONDS = 60.0


class Feed:
    """Tell an observer of every change, as domain values, and that its watches are alive.

    Attributes:
        synced: set once everything there was has been delivered.
    """

    def __init__(self, cluster: Cluster, observer: Observer, latency: float = 0.0) -> None:
        """Deliver `latency` seconds after each change."""
        self._cluster = cluster
        self._observer = observer
        self._latency = latency
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Deliver all there is, report every kind as synced, then deliver until cancelled."""
        self._cluster.watch(self._deliver, self._latency)
        await asyncio.sleep(self._latency)
        for kind in REQUIRED_KINDS:
            self._observer.synced(kind)
        self.synced.set()
        while True:
            await asyncio.sleep(BOOKMARK_SECONDS / 2)
            for kind in REQUIRED_KINDS:
                self._observer.heard(kind)

    def _deliver(self, change: Change) -> None:
        observer, version = self._observer, change.object
        gone = change.after is None
        match version.value:
            case Pod() as pod:
                observer.pod_gone(version.uid) if gone else observer.pod_seen(pod)
            case Node() as node:
                observer.node_gone(node.name) if gone else observer.node_seen(node)
            case PodGroup() as group:
                observer.group_gone(group.ref, version.uid) if gone else observer.group_seen(group)
            case PriorityClass() as seen:
                if gone:
                    observer.priority_class_gone(version.key.name)
                else:
                    default = bool(seen.global_default)
                    observer.priority_class_seen(version.key.name, seen.value or 0, global_default=default)
        observer.heard(version.key.kind)
