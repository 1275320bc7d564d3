"""Evictions: how the API server makes them, and a record of whoever made any."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from extender.clock import Clock
from extender.control.ports import BudgetError, Kind, PodKey
from extender.domain.budget import DisruptionBudget
from extender.domain.pod import Phase, Pod
from extender.simulation.cluster import Cluster, has_condition, set_condition
from extender.simulation.eventlog import EventLog
from extender.simulation.objects import Change, Json, Stored
from extender.simulation.virtual_time import LoopClock

_TARGET = {"type": "DisruptionTarget", "status": "True"}

#: How Muster's Event about a pod that it evicts begins: for whom.
_ON_BEHALF = re.compile(r"evicted for ([^\s:]+/[^\s:]+): ")


def evict(cluster: Cluster, clock: Clock, target: PodKey, *, dry_run: bool = False) -> None:
    """Evict a pod as the Eviction subresource does; a dry run changes nothing.

    Raises ApiError 404 for no such pod, 409 for another UID; BudgetError 429 if a PodDisruptionBudget forbids it, 500
    if several are about the pod. Source: k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go.
    """
    pod = cluster.get(Kind.POD, target.namespace, target.name, target.uid).pod
    if not (pod.done or pod.phase is Phase.PENDING or pod.deleting):
        _take_from_budget(cluster, pod, dry_run=dry_run)
    if dry_run:
        return

    def mark(json: Json) -> None:
        because = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        set_condition(json, {**_TARGET, **because}, clock)

    if not pod.done:
        cluster.update(Kind.POD, (target.namespace, target.name), mark, target.uid)
    cluster.delete(Kind.POD, target.namespace, target.name, target.uid)


def _take_from_budget(cluster: Cluster, pod: Pod, *, dry_run: bool) -> None:
    """Take the disruption from the budget of a pod, where it has one; raise BudgetError if that allows none."""
    budgets = [version for version in cluster.list(Kind.DISRUPTION_BUDGET) if _is_about(version, pod)]
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
            cluster.update(Kind.DISRUPTION_BUDGET, (version.key.namespace, version.key.name), _take_one, version.uid)


def _is_about(version: Stored, pod: Pod) -> bool:
    budget = version.value
    return isinstance(budget, DisruptionBudget) and budget.matches(pod.namespace, pod.labels)


def _take_one(json: Json) -> None:
    json["status"]["disruptionsAllowed"] -= 1


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that was evicted from its node, and when (seconds since the start)."""

    at: float
    pod: Pod


class EvictionRecord:
    """Write down every pod on a node that is marked as the target of a disruption, by whomever.

    Attributes:
        evictions: what was evicted, in order.
    """

    def __init__(self, cluster: Cluster, clock: LoopClock) -> None:
        """Look at every change of `cluster` from now on."""
        self._clock = clock
        self.evictions: list[Eviction] = []
        cluster.audit(self._look)

    def _look(self, change: Change) -> None:
        before, after = change.before, change.after
        if before is None or after is None or after.key.kind is not Kind.POD or not after.pod.node_name:
            return
        if has_condition(after.json, _TARGET) and not has_condition(before.json, _TARGET):
            self.evictions.append(Eviction(self._clock.elapsed(), after.pod))


@dataclass(frozen=True, slots=True)
class Cause:
    """For whom a pod was evicted (`namespace/name`, empty if nobody is known), and why in a word."""

    by: str
    reason: str


def causes(events: EventLog, preempted: Mapping[str, str], uids: Iterable[str]) -> dict[str, Cause]:
    """Return why the pods with `uids` were evicted.

    Args:
        events: what was recorded; Muster says there for whom it evicts a pod.
        preempted: whom kube-scheduler's own preemption evicted, by UID, and for whom.
        uids: of the pods that were evicted.
    """
    found = dict.fromkeys(uids, Cause("", "Evicted"))
    for recorded in events:
        event = recorded.event
        if event.about.uid in found and (said := _ON_BEHALF.match(event.message)) is not None:
            found[event.about.uid] = Cause(said[1], event.reason)
    return found | {uid: Cause(by, "Preempted") for uid, by in preempted.items() if uid in found}
