"""The scheduling cycle: one pod at a time, from the queue to a node or back into the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from extender.clock import Clock
from extender.control.ports import ApiError, ClusterEvent, WatchedKind
from extender.objects.pod import Pod
from muster_lab.simulation.cluster import Cluster, has_condition, set_condition
from muster_lab.simulation.objects import Json, Stored
from muster_lab.simulation.scheduler.dynamic_resources import ClaimCycle, DynamicResources, DynamicResourcesError
from muster_lab.simulation.scheduler.events import EventKind, SchedulerEvent, SchedulerPlugin
from muster_lab.simulation.scheduler.evictions import Evictor, PendingPodEviction
from muster_lab.simulation.scheduler.extender import ExtenderAnswer, ExtenderClient, ExtenderError
from muster_lab.simulation.scheduler.filters import Code, Filters, NodeStatuses, RuledOut, Screening, fit_error
from muster_lab.simulation.scheduler.informers import Informers
from muster_lab.simulation.scheduler.nodes import NodeCache, NodeColumns, best, least_allocated
from muster_lab.simulation.scheduler.nominator import Nominator
from muster_lab.simulation.scheduler.preemption import DefaultPreemption
from muster_lab.simulation.scheduler.queue import QueuedPod, SchedulingQueue

#: Longest note of an SchedulerEvent. Source: NoteLengthLimit of the core validation.
_NOTE_LENGTH = 1024


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt ended without a node.

    Without `rejectors` it was an error rather than a refusal. `nomination` is what becomes of the pod's nomination: a
    node, "" for none, None for no change.
    """

    message: str
    rejectors: frozenset[SchedulerPlugin]
    nomination: str | None
    reason: str = "Unschedulable"


class Scheduler:
    """Schedule the pods of some scheduler names, with or without an extender.

    Attributes:
        attempts: scheduling cycles so far.
        evictions: what preemption evicted, in order.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        names: Collection[str],
        extender: ExtenderClient | None = None,
        ruled_out: RuledOut | None = None,
    ) -> None:
        """Watch `cluster`; nothing is scheduled before `run`. `ruled_out` is what pod anti-affinity says of nodes."""
        self._cluster = cluster
        self._clock = clock
        self._extender = extender
        self._devices = DynamicResources(cluster)
        self._queue = SchedulingQueue(lambda pod: not pod.claims.claims or not self._devices.claims.missing(pod))
        self._cache = NodeCache()
        self._nominator = Nominator(self._newest)
        self._filters = Filters(self._nominator, ruled_out)
        self._preemption = DefaultPreemption(self._cache, self._filters, extender)
        self._evictor = Evictor(cluster, clock, self._nominator)
        self._informers = Informers(self._queue, self._cache, self._devices.claims, self._nominator, names)
        self.attempts = 0

    @property
    def evictions(self) -> list[PendingPodEviction]:
        """Return what preemption evicted."""
        return self._evictor.evictions

    def __len__(self) -> int:
        """Count the pods that wait for a node."""
        return len(self._queue)

    async def run(self, latency: float = 0.0) -> None:
        """Schedule until cancelled; changes are heard of `latency` seconds after they happened."""
        self._cluster.watch(self._informers.take_in, latency)
        async with asyncio.TaskGroup() as bindings:
            while True:
                await self._schedule(await self._queue.pop(), bindings)

    async def _schedule(self, queued: QueuedPod, bindings: asyncio.TaskGroup) -> None:
        """Run one scheduling cycle; the binding cycle follows in a task of its own, for hundreds may wait at once."""
        pod = queued.pod
        if pod.deleting:
            self._record(queued.version, "FailedScheduling", f"skip schedule deleting pod: {pod.key}")
            self._queue.done(pod.uid)
            return
        if self._cache.assumes(pod.uid):
            self._queue.done(pod.uid)
            return
        self.attempts += 1
        cycle = self._devices.begin(pod)
        try:
            result = await self._choose(queued.version, cycle)
        except (ExtenderError, DynamicResourcesError) as error:
            result = Failure(str(error), frozenset(), "", "SchedulerError")
        if isinstance(result, Failure):
            self._fail(queued, result)
            return
        self._cache.assume(replace(pod, node_name=result))
        self._devices.reserve(cycle, result)
        self._nominator.forget(pod.uid)
        bindings.create_task(self._bind(queued, result, cycle), name=f"bind-{pod.key}")

    async def _choose(self, version: Stored, cycle: ClaimCycle) -> str | Failure:
        """Find the node for a pod: the nominated one if it passes, else the best of all.

        Raises ExtenderError and DynamicResourcesError.
        """
        pod, columns = version.pod, self._cache.columns()
        if not columns.names:
            return Failure("no nodes available to schedule pods", frozenset(), "")
        if cycle.refusal:
            return await self._give_up(version, cycle, columns, _refused_by_claims(columns, cycle.refusal))
        if await self._nominated_passes(version, cycle, columns):
            return pod.nominated_node
        screening = self._filters.screen(pod, columns)
        statuses = screening.statuses
        passed = self._devices.screen(cycle, columns, screening.passed, statuses)
        rows = await self._extend(version, columns, Screening(passed, statuses))
        if rows.shape[0]:
            return await self._best(version, columns, rows)
        return await self._give_up(version, cycle, columns, statuses)

    async def _give_up(
        self, version: Stored, cycle: ClaimCycle, columns: NodeColumns, statuses: NodeStatuses
    ) -> Failure:
        """End an attempt without a node, with what can be done for the next one: claims set free, pods evicted."""
        ended = self._devices.end_an_allocation(cycle, version.pod)
        attempt = await self._preemption.attempt(version, columns, statuses)
        if attempt.victims and attempt.nomination:
            self._evictor.evict(attempt.victims, version.pod, attempt.nomination)
        after = ", ".join(said for said in (ended, attempt.message) if said)
        message = fit_error(len(columns.names), statuses.histogram(), after)
        if cycle.refusal:  # what is said of all nodes together has no number
            message = message.replace(f"{len(columns.names)} {cycle.refusal}", cycle.refusal)
        return Failure(message, frozenset(statuses.rejectors), attempt.nomination)

    async def _nominated_passes(self, version: Stored, cycle: ClaimCycle, columns: NodeColumns) -> bool:
        """Try the nominated node by itself, the extender included."""
        node = version.pod.nominated_node
        row = columns.row.get(node)
        if row is None or not self._filters.passes(version.pod, columns, row):
            return False
        if not self._devices.passes(cycle, columns.nodes[row]):
            return False
        if self._extender is None:
            return True
        try:
            return bool((await self._extender.filter(version, [node])).accepted)
        except ExtenderError:
            return False  # kube-scheduler logs this and goes on with all nodes

    async def _extend(self, version: Stored, columns: NodeColumns, screening: Screening) -> NDArray[np.intp]:
        """Return which of the nodes that passed the filters pass the extender too; raise ExtenderError."""
        passed, statuses = screening.passed, screening.statuses
        if self._extender is None or not passed.shape[0]:
            return passed
        verdict = await self._extender.filter(version, [columns.names[row] for row in passed.tolist()])
        _write_down(verdict, columns.row, statuses)
        if len(verdict.accepted) != passed.shape[0]:
            statuses.rejectors.add(SchedulerPlugin.EXTENDER)
        return np.array([columns.row[name] for name in verdict.accepted], dtype=np.intp)

    async def _best(self, version: Stored, columns: NodeColumns, rows: NDArray[np.intp]) -> str:
        """Return the name of the best of several nodes; a single one is not scored."""
        names: list[str] = [columns.names[row] for row in rows.tolist()]
        if len(names) == 1:
            return names[0]
        scores = least_allocated(version.pod, rows, columns)
        if self._extender is None:
            return best(names, scores, {}, 0)
        return best(names, scores, await self._extender.prioritize(version, names), self._extender.weight)

    async def _bind(self, queued: QueuedPod, node: str, cycle: ClaimCycle) -> None:
        """Run one binding cycle."""
        pod = queued.pod
        self._queue.done(pod.uid)
        try:
            self._devices.bind(cycle, pod, node)
            if self._extender is not None:
                await self._extender.bind(pod, node)
            else:
                self._cluster.bind(pod.namespace, pod.name, node, pod.uid)
        except (ExtenderError, ApiError, DynamicResourcesError) as error:
            self._devices.unreserve(cycle, pod)
            self._cache.forget(pod.uid)
            self._queue.move(SchedulerEvent(EventKind.ASSIGNED_POD_DELETED, pod=replace(pod, node_name=node)))
            self._fail(queued, Failure(str(error), frozenset(), "", "SchedulerError"))
            return
        self._record(queued.version, "Scheduled", f"Successfully assigned {pod.key} to {node}")

    def _fail(self, queued: QueuedPod, failure: Failure) -> None:
        """Put a pod back into the queue and say why. Source: handleSchedulingFailure."""
        newest = self._informers.find(queued.pod)
        if newest is None or newest.pod.node_name or newest.uid != queued.uid:
            self._queue.done(queued.uid)
            if newest is None or newest.uid != queued.uid:
                return
        else:
            self._queue.refused(queued, newest, failure.rejectors)
        nomination = newest.pod.nominated_node if failure.nomination is None else failure.nomination
        self._nominator.nominate(newest.pod, nomination)
        self._record(newest, "FailedScheduling", failure.message)

        # What the scheduler has not heard of it does not clear: it patches the difference to what it knows.
        renominate = failure.nomination is not None and newest.pod.nominated_node != failure.nomination
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": failure.reason,
            "message": failure.message,
        }

        if not renominate and has_condition(newest.json, condition):
            return

        def patch(json: Json) -> None:
            set_condition(json, condition, self._clock)
            if renominate:
                if failure.nomination:
                    json["status"]["nominatedNodeName"] = failure.nomination
                else:
                    json["status"].pop("nominatedNodeName", None)

        try:
            self._cluster.update(WatchedKind.POD, (newest.key.namespace, newest.key.name), patch, newest.uid)
        except ApiError:
            return  # deleted since: nothing is left to say it on

    def _newest(self, pod: Pod) -> Pod | None:
        version = self._informers.find(pod)
        return None if version is None else version.pod

    def _record(self, about: Stored, reason: str, note: str) -> None:
        warning = reason == "FailedScheduling"
        note = note if len(note) <= _NOTE_LENGTH else f"{note[: _NOTE_LENGTH - 4]} ..."
        action = "Scheduling" if warning else "Binding"
        self._cluster.record(ClusterEvent(about.ref, warning=warning, reason=reason, message=note, action=action))


def _refused_by_claims(columns: NodeColumns, why: str) -> NodeStatuses:
    """Return that a pod's claims keep it from every node."""
    statuses = NodeStatuses(len(columns.names))
    every = np.arange(len(columns.names), dtype=np.intp)
    statuses.refuse(every, Code.UNRESOLVABLE, (why,), SchedulerPlugin.DYNAMIC_RESOURCES)
    return statuses


def _write_down(verdict: ExtenderAnswer, row: dict[str, int], statuses: NodeStatuses) -> None:
    """Take what the extender said of nodes that it refused into the statuses; unresolvable has the last word."""
    for said, code in ((verdict.failed, Code.UNSCHEDULABLE), (verdict.unresolvable, Code.UNRESOLVABLE)):
        by_text: dict[str, list[int]] = {}
        for name, text in said.items():
            if name in row:
                by_text.setdefault(text, []).append(row[name])
        for text, rows in by_text.items():
            statuses.refuse(np.array(rows, dtype=np.intp), code, (text,), SchedulerPlugin.EXTENDER)
