"""The API server as Muster writes to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from extender.clock import Clock
from extender.control.ports import NO_ANNOTATIONS, ClusterEvent, GroupStatus, Kind, PodKey
from extender.domain.membership import GroupRef
from extender.simulation.cluster import Cluster, set_condition
from extender.simulation.objects import Json


class SimulatedApi:
    """Make Muster's writes to a simulated cluster. Implements `extender.control.ports.ClusterApi`.

    Each write takes `latency` seconds, and at least a turn of the loop: nothing is written before the caller waits.
    """

    def __init__(self, cluster: Cluster, clock: Clock, latency: float = 0.0) -> None:
        """Write to `cluster`."""
        self._cluster = cluster
        self._clock = clock
        self._latency = latency

    async def nominate(self, pod: PodKey, node: str) -> None:
        """Set a pod's nominated node, or clear it with an empty one; raise ApiError 404 or 409 for another pod."""
        await asyncio.sleep(self._latency)

        def patch(json: Json) -> None:
            if node:
                json["status"]["nominatedNodeName"] = node
            else:
                json["status"].pop("nominatedNodeName", None)

        self._cluster.update(Kind.POD, (pod.namespace, pod.name), patch, pod.uid)

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> None:
        """Bind a pod, and annotate it; raise ApiError 404 or 409 if it is another pod, or on another node."""
        await asyncio.sleep(self._latency)
        self._cluster.bind(pod.namespace, pod.name, node, pod.uid, annotations)

    async def record_event(self, event: ClusterEvent) -> None:
        """Record an Event."""
        await asyncio.sleep(self._latency)
        self._cluster.record(event)

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a PodGroup's status; raise ApiError 404 or 409 if it is another PodGroup."""
        await asyncio.sleep(self._latency)

        def patch(json: Json) -> None:
            json.setdefault("status", {}).update(
                phase=status.phase,
                scheduled=status.scheduled,
                running=status.running,
                succeeded=status.succeeded,
                failed=status.failed,
            )
            condition = {
                "type": "Scheduled",
                "status": status.condition_status,
                "reason": status.reason,
                "message": status.message,
                "observedGeneration": status.observed_generation,
            }
            set_condition(json, condition, self._clock)

        self._cluster.update(Kind.COSCHEDULING_POD_GROUP, (group.namespace, group.name), patch, uid)
