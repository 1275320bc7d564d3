"""Preemption by dry run: on which node evicting whom would make room for one pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from extender.objects.pod import Pod
from muster_lab.simulation.objects import Stored
from muster_lab.simulation.scheduler.extender import ExtenderClient, ExtenderError
from muster_lab.simulation.scheduler.filters import Code, Filters, NodeStatuses, fit_error
from muster_lab.simulation.scheduler.nodes import NodeCache, NodeColumns, NodeInfo

#: How many candidates are looked for: this share of the nodes that could be, at least so many. Source: the defaults of
#: DefaultPreemptionArgs, minCandidateNodesPercentage and minCandidateNodesAbsolute.
_CANDIDATES_PERCENT = 10
_CANDIDATES_LEAST = 100

_NO_VICTIMS = "No preemption victims found for incoming pod"
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What preemption came to.

    `message` is what the FailedScheduling event says of it. `nomination` is the node that the pod is to be nominated
    to, "" for none, None for what it is now. `victims` are to be evicted from that node.
    """

    message: str
    nomination: str | None
    victims: tuple[Pod, ...] = ()


@dataclass(slots=True)
class _DryRun:
    """What came of trying: victims per candidate, why other nodes are none, and what should not have happened."""

    candidates: dict[str, list[Pod]] = field(default_factory=dict)
    obstacles: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)


class DefaultPreemption:
    """Look for victims for a pod that no node had room for. Source: framework/preemption and DefaultPreemption.

    There are no PodDisruptionBudgets here, and candidates are looked for from the first node on, not from a random one.
    """

    def __init__(self, cache: NodeCache, filters: Filters, extender: ExtenderClient | None) -> None:
        """Look at the nodes of `cache`; ask `extender`, if there is one, about the candidates."""
        self._cache = cache
        self._filters = filters
        self._extender = extender

    async def attempt(self, version: Stored, columns: NodeColumns, statuses: NodeStatuses) -> Attempt:
        """Find the best node to preempt on, if any, after an attempt that ended in `statuses`."""
        pod = version.pod
        if (obstacle := self._ineligible(version, columns, statuses)) is not None:
            return Attempt(f"preemption: {obstacle}", None)
        trial = self._dry_run(pod, columns, statuses)
        candidates = trial.candidates
        if not candidates and trial.errors:
            return Attempt(f"preemption: {_aggregate(trial.errors)}", None)
        if not candidates:
            return Attempt(f"preemption: {fit_error(len(columns.names), trial.obstacles)}", "")
        if self._extender is not None:
            try:
                candidates = await self._ask(self._extender, version, candidates)
            except ExtenderError as error:
                return Attempt(f"preemption: {error}", None)
        if not candidates:
            return Attempt("preemption: no candidate node for preemption", None)
        node = min(candidates, key=lambda name: _preference(candidates[name]))
        return Attempt("", node, tuple(candidates[node]))

    def _ineligible(self, version: Stored, columns: NodeColumns, statuses: NodeStatuses) -> str | None:
        """Say why the pod may not preempt at all, or None."""
        pod = version.pod
        if version.json["spec"].get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never."
        info = self._cache.find(pod.nominated_node) if pod.nominated_node else None
        row = columns.row.get(pod.nominated_node)
        if info is None or row is None or statuses.code(row) is Code.UNRESOLVABLE:
            return None
        if any(other.deleting and other.priority < pod.priority for other in info.pods.values()):
            return "not eligible due to a terminating pod on the nominated node."
        return None

    def _dry_run(self, pod: Pod, columns: NodeColumns, statuses: NodeStatuses) -> _DryRun:
        """Try every node on which evicting might help, until there are enough candidates."""
        potential = statuses.count(Code.UNSCHEDULABLE)
        most = max(potential * _CANDIDATES_PERCENT // 100, _CANDIDATES_LEAST)
        hopeful = statuses.among(np.flatnonzero(columns.lowest_priority < pod.priority), Code.UNSCHEDULABLE)
        trial = _DryRun()
        trial.obstacles[_NO_VICTIMS] = potential - hopeful.shape[0]
        trial.obstacles[_NOT_HELPFUL] = len(columns.names) - potential
        infos = [self._cache.find(columns.names[row]) for row in hopeful.tolist()]
        for info in infos:
            if info is not None and len(trial.candidates) < most:
                self._try(pod, info, trial)
        trial.obstacles = +trial.obstacles
        return trial

    def _try(self, pod: Pod, info: NodeInfo, trial: _DryRun) -> None:
        """Find the victims on one node, or what stands in the way."""
        name = info.node.name
        victims, lacking = self._victims(pod, info)
        if victims:
            trial.candidates[name] = victims
        elif lacking:
            trial.obstacles.update(lacking)
        else:
            # It fits with all victims back: the extender refused this node, and evicting is no answer to that.
            trial.errors.append(f'expected at least one victim pod on node "{name}"')

    def _victims(self, pod: Pod, info: NodeInfo) -> tuple[list[Pod], list[str]]:
        """Return the fewest and least important pods that must leave one node, most important first, or what it lacks.

        All pods of lower priority are taken away; then, the most important first, those are put back that fit beside
        the pod and those nominated here.
        """
        trial = info.copy()
        for other in self._filters.nominated_beside(pod, info.node.name):
            trial.add(other)
        movable = sorted((other for other in info.pods.values() if other.priority < pod.priority), key=_importance)
        for other in movable:
            trial.remove(other.uid)
        if not trial.fits(pod):
            return [], _lacking(pod, trial)
        victims = []
        for other in movable:
            trial.add(other)
            if not trial.fits(pod):
                trial.remove(other.uid)
                victims.append(other)
        return victims, []

    async def _ask(
        self, extender: ExtenderClient, version: Stored, candidates: dict[str, list[Pod]]
    ) -> dict[str, list[Pod]]:
        """Return what the extender leaves of the candidates."""
        offered = {node: [victim.uid for victim in victims] for node, victims in candidates.items()}
        chosen = await extender.preempt(version, offered)
        result = {}
        for node, uids in chosen.items():
            info = self._cache.find(node)
            if info is None:
                raise ExtenderError(f'nodeinfo not found for node name "{node}"')
            for uid in uids:
                if uid not in info.pods:
                    message = f"extender claims to preempt pod (UID: {uid}) on node: {node}, but it is not on that node"
                    raise ExtenderError(message)
            if not uids:
                raise ExtenderError(f'expected at least one victim pod on node "{node}"')
            result[node] = [info.pods[uid] for uid in uids]
        return result


def _aggregate(errors: Sequence[str]) -> str:
    """Write errors as apimachinery's Aggregate does: one by itself, several in brackets, equal ones once."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _importance(pod: Pod) -> tuple[int, str, str]:
    """Return the sort key of victims, most important first: priority, then who has been there longer."""
    return (-pod.priority, pod.created, pod.uid)


def _preference(victims: Sequence[Pod]) -> tuple[int, int, int]:
    """Return the sort key of candidates, best first. Source: pickOneNodeForPreemption."""
    return (
        max(victim.priority for victim in victims),
        sum(victim.priority + 2**31 for victim in victims),
        len(victims),
    )


def _lacking(pod: Pod, info: NodeInfo) -> list[str]:
    return [
        "Too many pods" if resource == "pods" else f"Insufficient {resource}"
        for resource, amount in pod.shape.requests
        if info.requested.get(resource, 0) + amount > info.node.allocatable.get(resource, 0)
    ]
