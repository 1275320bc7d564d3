"""The disruption controller: how many pods of each PodDisruptionBudget may be evicted now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from extender.control.ports import ApiError, WatchedKind
from extender.objects.budget import DisruptionBudget
from extender.objects.pod import Phase, Pod
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.objects import Json, ObjectChange, Stored

Scale = Callable[[Pod], tuple[str, int] | None]
"""A pod's controller: its name, and how many pods it wants; None for a pod without one."""


class DisruptionController:
    """Keep the status of every PodDisruptionBudget up to date.

    A pod is healthy while it runs and is not being deleted. Source: k8s.io/kubernetes pkg/controller/disruption, save
    that a controller of any kind has a scale here, so that maxUnavailable works for jobs too.
    """

    def __init__(self, cluster: Cluster, scale: Scale) -> None:
        self._cluster = cluster
        self._scale = scale
        self._pods: dict[tuple[str, str], dict[str, Pod]] = {}
        self._due: set[tuple[str, str]] = set()
        cluster.watch(self._take_in)

    def _take_in(self, change: ObjectChange) -> None:
        key = change.object.key
        if key.kind is WatchedKind.DISRUPTION_BUDGET:
            self._budget(change)
        elif key.kind is WatchedKind.POD and self._pods:
            for budget in self._cluster.list(WatchedKind.DISRUPTION_BUDGET):
                self._pod(budget, change)

    def _budget(self, change: ObjectChange) -> None:
        name = (change.object.key.namespace, change.object.key.name)
        if change.after is None:
            self._pods.pop(name, None)
        elif name not in self._pods:
            self._pods[name] = {}
            for version in self._cluster.list(WatchedKind.POD):
                self._pod(change.after, ObjectChange(None, version))
            self._recompute_soon(name)

    def _pod(self, budget: Stored, change: ObjectChange) -> None:
        """Take a pod in, if the budget is about it."""
        pod, name = change.object.pod, (budget.key.namespace, budget.key.name)
        counted = self._pods.get(name)
        if counted is None or not isinstance(budget.value, DisruptionBudget):
            return
        if change.after is not None and not pod.done and budget.value.matches(pod.namespace, pod.labels):
            counted[pod.uid] = pod
        elif counted.pop(pod.uid, None) is None:
            return
        self._recompute_soon(name)

    def _recompute_soon(self, name: tuple[str, str]) -> None:
        if not self._due:
            asyncio.get_running_loop().call_soon(self._recompute)
        self._due.add(name)

    def _recompute(self) -> None:
        due, self._due = sorted(self._due), set()
        for name in due:
            pods = self._pods.get(name, {}).values()
            healthy = sum(pod.phase is Phase.RUNNING and not pod.deleting for pod in pods)
            expected = self._expected(pods)
            try:
                self._cluster.update(WatchedKind.DISRUPTION_BUDGET, name, _status(healthy, expected))
            except ApiError:
                continue  # deleted since

    def _expected(self, pods: Iterable[Pod]) -> int:
        """Return how many pods there should be: what their controllers want, and those without one."""
        controllers: dict[str, int] = {}
        alone = 0
        for pod in pods:
            controller = self._scale(pod)
            if controller is None:
                alone += 1
            else:
                controllers[controller[0]] = controller[1]
        return alone + sum(controllers.values())


def _status(healthy: int, expected: int) -> Callable[[Json], None]:
    def write(json: Json) -> None:
        spec = json["spec"]
        lowest = spec.get("minAvailable")
        desired = max(expected - spec["maxUnavailable"], 0) if lowest is None else lowest
        json["status"] = {
            "observedGeneration": json["metadata"]["generation"],
            "expectedPods": expected,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": max(healthy - desired, 0) if expected else 0,
        }

    return write
