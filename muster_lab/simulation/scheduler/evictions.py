"""Evicting the victims of a preemption."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from extender.clock import Clock
from extender.control.ports import ApiError, ClusterEvent, WatchedKind
from extender.objects.pod import Pod
from muster_lab.simulation.cluster import Cluster, set_condition
from muster_lab.simulation.objects import Json
from muster_lab.simulation.scheduler.nominator import Nominator


@dataclass(frozen=True, slots=True)
class PendingPodEviction:
    """A pod that was evicted from a node to make room for another, and when (seconds of the loop's time)."""

    at: float
    pod: Pod
    node: str
    preemptor: Pod


class Evictor:
    """Evict as kube-scheduler does: in the background, each victim with a condition and an Event.

    Attributes:
        evictions: what was evicted, in order.
    """

    def __init__(self, cluster: Cluster, clock: Clock, nominator: Nominator) -> None:
        self._cluster = cluster
        self._clock = clock
        self._nominator = nominator
        self.evictions: list[PendingPodEviction] = []

    def evict(self, victims: Sequence[Pod], preemptor: Pod, node: str) -> None:
        """Start evicting; pods of lower priority that are nominated to the node lose their nomination."""
        asyncio.get_running_loop().call_soon(self._evict, tuple(victims), preemptor, node)

    def _evict(self, victims: tuple[Pod, ...], preemptor: Pod, node: str) -> None:
        for pod in self._nominator.on(node):
            if pod.priority < preemptor.priority:
                self._clear_nomination(pod)
        for victim in victims:
            if not victim.deleting:
                self._delete(victim, preemptor, node)

    def _clear_nomination(self, pod: Pod) -> None:
        def patch(json: Json) -> None:
            json["status"].pop("nominatedNodeName", None)

        try:
            self._cluster.update(WatchedKind.POD, (pod.namespace, pod.name), patch, pod.uid)
        except ApiError:
            return  # deleted since: its nomination went with it

    def _delete(self, victim: Pod, preemptor: Pod, node: str) -> None:
        def patch(json: Json) -> None:
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod",
            }
            set_condition(json, condition, self._clock)

        key = (victim.namespace, victim.name)
        try:
            version = self._cluster.update(WatchedKind.POD, key, patch, victim.uid)
            self._cluster.delete(WatchedKind.POD, *key, victim.uid)
        except ApiError:
            return  # deleted since, which is what was wanted
        note = f"Preempted by pod {preemptor.uid} on node {node}"
        event = ClusterEvent(version.ref, warning=False, reason="Preempted", message=note, action="Preempting")
        self._cluster.record(event)
        self.evictions.append(PendingPodEviction(asyncio.get_running_loop().time(), victim, node, preemptor))
