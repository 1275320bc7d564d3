"""Evictions: how the API server makes them, and a record of who made them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from extender.clock import Clock
from extender.control.ports import BudgetError, PodKey, WatchedKind
from extender.ledger.effects import EvictionReason
from extender.objects.budget import DisruptionBudget
from extender.objects.pod import Phase, Pod
from muster_lab.simulation.cluster import Cluster, EventLog, has_condition, set_condition
from muster_lab.simulation.objects import Json, ObjectChange, Stored
from muster_lab.simulation.virtual_time import LoopClock

_TARGET = {"type": "DisruptionTarget", "status": "True"}

#: The reasons of Muster's Events about pods that it evicts.
_REASONS = frozenset(map(str, EvictionReason))

#: How Muster's Event about a pod that it evicts begins: for whom.
_ON_BEHALF = re.compile(r"evicted for ([^\s:]+/[^\s:]+): ")


def evict(cluster: Cluster, clock: Clock, target: PodKey, *, dry_run: bool = False) -> None:
    """Evict a pod as the Eviction subresource does; a dry run changes nothing.

    Raises ApiError 404 for no such pod, 409 for another UID; BudgetError 429 if a PodDisruptionBudget forbids it, 500
    if several are about the pod. Source: k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go.
    """
    pod = cluster.get(WatchedKind.POD, target.namespace, target.name, target.uid).pod
    if not (pod.done or pod.phase is Phase.PENDING or pod.deleting):
        _take_from_budget(cluster, pod, dry_run=dry_run)
    if dry_run:
        return

    def mark(json: Json) -> None:
        because = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        set_condition(json, {**_TARGET, **because}, clock)

    if not pod.done:
        cluster.update(WatchedKind.POD, (target.namespace, target.name), mark, target.uid)
    cluster.delete(WatchedKind.POD, target.namespace, target.name, target.uid)


def _take_from_budget(cluster: Cluster, pod: Pod, *, dry_run: bool) -> None:
    """Take the disruption from the budget of a pod, where it has one; raise BudgetError if that allows none."""
    budgets = [version for version in cluster.list(WatchedKind.DISRUPTION_BUDGET) if _is_about(version, pod)]
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise BudgetError(500, "InternalError", message)
    for version in budgets:
        metadata, status = version.json["metadata"], version.json.get("status") or {}
        if status.get("observedGeneration", 0) < metadata["generation"]:
            message = f"The disruption budget {version.key.name} is still being processed by the server."
            raise BudgetError(429, "TooManyRequests", message, retry_after=10.0)
        if status["disruptionsAllowed"] <= 0:
            message = (
                "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget "
                f"{version.key.name} needs {status['desiredHealthy']} healthy pods and has "
                f"{status['currentHealthy']} currently"
            )
            raise BudgetError(429, "TooManyRequests", message)
        if not dry_run:
            cluster.update(
                WatchedKind.DISRUPTION_BUDGET, (version.key.namespace, version.key.name), _take_one, version.uid
            )


def _is_about(version: Stored, pod: Pod) -> bool:
    budget = version.value
    return isinstance(budget, DisruptionBudget) and budget.matches(pod.namespace, pod.labels)


def _take_one(json: Json) -> None:
    json["status"]["disruptionsAllowed"] -= 1


@dataclass(frozen=True, slots=True)
class SimulatedEviction:
    """A pod that was evicted from its node, and when (seconds since the start)."""

    at: float
    pod: Pod


class EvictionRecord:
    """Write down every pod on a node that is marked as the target of a disruption, by any client.

    Attributes:
        evictions: what was evicted, in order.
    """

    def __init__(self, cluster: Cluster, clock: LoopClock) -> None:
        """Look at every change of `cluster` from now on."""
        self._clock = clock
        self.evictions: list[SimulatedEviction] = []
        cluster.audit(self._look)

    def _look(self, change: ObjectChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or after.key.kind is not WatchedKind.POD or not after.pod.node_name:
            return
        if has_condition(after.json, _TARGET) and not has_condition(before.json, _TARGET):
            self.evictions.append(SimulatedEviction(self._clock.elapsed(), after.pod))


@dataclass(frozen=True, slots=True)
class EvictionCause:
    """For whom a pod was evicted (`namespace/name`, empty if unknown), and why in a word."""

    by: str
    reason: str


def causes(events: EventLog, preempted: Mapping[str, str], uids: Iterable[str]) -> dict[str, EvictionCause]:
    """Return why the pods with `uids` were evicted.

    Args:
        events: what was recorded; Muster says there for whom it evicts a pod.
        preempted: whom kube-scheduler's own preemption evicted, by UID, and for whom.
        uids: of the pods that were evicted.
    """
    found = dict.fromkeys(uids, EvictionCause("", "Evicted"))
    for recorded in events:
        event = recorded.event
        if event.about.uid in found and event.reason in _REASONS:
            said = _ON_BEHALF.match(event.message)
            found[event.about.uid] = EvictionCause("" if said is None else said[1], event.reason)
    return found | {uid: EvictionCause(by, "Preempted") for uid, by in preempted.items() if uid in found}
