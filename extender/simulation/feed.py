"""What the watches of Muster's own client would deliver, read off the simulated API server."""

from __future__ import annotations

import asyncio

from extender.control.observer import Observer
from extender.control.ports import REQUIRED_KINDS
from extender.domain.budget import DisruptionBudget
from extender.domain.devices import DeviceReport
from extender.domain.hypernodes import HyperNode
from extender.domain.levelobjects import LevelList
from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.domain.queue import Queue
from extender.numa.nodetopology import NodeTopology
from extender.simulation.cluster import Cluster
from extender.simulation.objects import Change, Stored
from extender.wire.api import MetadataOnly
from extender.wire.kubernetes import ObjectMeta, PriorityClass
from extender.wire.topology import ConfigMap

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
        """Tell of one change."""
        if change.after is None:
            self._tell_gone(change.object)
        else:
            self._tell_seen(change.after)
        self._observer.heard(change.object.key.kind)

    def _tell_seen(self, version: Stored) -> None:
        observer = self._observer
        match version.value:
            case Pod() as pod:
                observer.pod_seen(pod)
            case Node() as node:
                observer.node_seen(node)
            case PodGroup() as group:
                observer.group_seen(group)
            case PriorityClass() as seen:
                default = bool(seen.global_default)
                observer.priority_class_seen(version.key.name, seen.value or 0, global_default=default)
            case NodeTopology() as topology:
                observer.node_topology_seen(topology)
            case HyperNode() as hyper_node:
                observer.hyper_node_seen(hyper_node)
            case LevelList() as levels:
                observer.levels_seen(levels)
            case DeviceReport() as report:
                observer.device_seen(report)
            case ConfigMap() as config:
                observer.calibration_seen(version.ref, config.data or {})
            case _:
                self._tell_sharing_seen(version)

    def _tell_sharing_seen(self, version: Stored) -> None:
        observer = self._observer
        match version.value:
            case Queue() as queue:
                observer.queue_seen(queue)
            case MetadataOnly() as namespace:
                metadata = namespace.metadata or ObjectMeta()
                observer.namespace_seen(version.key.name, metadata.labels or {})
            case DisruptionBudget() as budget:
                observer.budget_seen(budget)

    def _tell_gone(self, version: Stored) -> None:
        observer, name = self._observer, version.key.name
        match version.value:
            case Pod():
                observer.pod_gone(version.uid)
            case Node():
                observer.node_gone(name)
            case PodGroup() as group:
                observer.group_gone(group.ref, version.uid)
            case PriorityClass():
                observer.priority_class_gone(name)
            case NodeTopology():
                observer.node_topology_gone(name)
            case HyperNode():
                observer.hyper_node_gone(name)
            case LevelList() as levels:
                observer.levels_gone(levels.about.group, name)
            case DeviceReport():
                observer.device_gone(name)
            case ConfigMap():
                observer.calibration_gone()
            case _:
                self._tell_sharing_gone(version)

    def _tell_sharing_gone(self, version: Stored) -> None:
        observer, name = self._observer, version.key.name
        match version.value:
            case Queue():
                observer.queue_gone(name)
            case MetadataOnly():
                observer.namespace_gone(name)
            case DisruptionBudget() as budget:
                observer.budget_gone(budget.namespace, name)
