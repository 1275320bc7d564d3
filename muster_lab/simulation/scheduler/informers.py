"""What the scheduler hears of the cluster, and what follows for its queue and cache."""

from __future__ import annotations

from collections.abc import Collection

from extender.control.ports import WatchedKind
from extender.objects.pod import Pod
from muster_lab.simulation.objects import ObjectChange, Stored
from muster_lab.simulation.scheduler.claims import ClaimCache
from muster_lab.simulation.scheduler.events import EventKind, SchedulerEvent, node_events
from muster_lab.simulation.scheduler.nodes import NodeCache
from muster_lab.simulation.scheduler.nominator import Nominator
from muster_lab.simulation.scheduler.queue import SchedulingQueue, target_event


class Informers:
    """Hear of nodes and of pods that have not ended: one that ends is deleted as far as the scheduler can tell.

    Source: pkg/scheduler/eventhandlers.go, and the field selector of the scheduler's pod informer.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        cache: NodeCache,
        claims: ClaimCache,
        nominator: Nominator,
        names: Collection[str],
    ) -> None:
        """Queue the pods whose `spec.schedulerName` is one of `names`."""
        self._queue = queue
        self._cache = cache
        self._claims = claims
        self._nominator = nominator
        self._names = frozenset(names)
        self._pods: dict[tuple[str, str], Stored] = {}

    def find(self, pod: Pod) -> Stored | None:
        """Return the newest version of the pod of that name, or None; it may be a namesake with another UID."""
        return self._pods.get((pod.namespace, pod.name))

    def take_in(self, change: ObjectChange) -> None:
        """Hear of a change."""
        match change.object.key.kind:
            case WatchedKind.NODE:
                self._node(change)
            case WatchedKind.POD:
                before, after = _alive(change.before), _alive(change.after)
                if before is None and after is not None:
                    self._pod_added(after)
                elif before is not None and after is None:
                    self._pod_deleted(before)
                elif before is not None and after is not None:
                    self._pod_updated(before, after)
            case _:  # gangs are no concern of a scheduler without the GenericWorkload feature
                event = self._claims.take_in(change)
                if event is not None:
                    self._queue.move(event)
                    self._queue.look_again()

    def _node(self, change: ObjectChange) -> None:
        if change.after is None:
            node = change.object.node
            self._queue.move(SchedulerEvent(EventKind.NODE_DELETED, before=node))
            self._cache.drop_node(node.name)
            return
        node = change.after.node
        before = self._cache.put_node(node)
        events = [SchedulerEvent(EventKind.NODE_ADDED, after=node)] if before is None else node_events(before, node)
        for event in events:
            self._queue.move(event)

    def _pod_added(self, version: Stored) -> None:
        pod = version.pod
        self._pods[pod.namespace, pod.name] = version
        if pod.node_name:
            self._assigned(pod)
        elif pod.scheduler_name in self._names:
            self._nominator.nominate(pod, pod.nominated_node)
            self._queue.add(version)

    def _pod_updated(self, before: Stored, after: Stored) -> None:
        old, new = before.pod, after.pod
        self._pods[new.namespace, new.name] = after
        if old.node_name:
            self._cache.put_pod(new)
            self._queue.move(SchedulerEvent(EventKind.ASSIGNED_POD_UPDATED, pod=new))
        elif new.node_name:
            self._assigned(new)
            self._queue.delete(new.uid)
            self._nominator.forget(new.uid)
        elif new.scheduler_name in self._names:
            self._unscheduled_updated(old, after)

    def _unscheduled_updated(self, old: Pod, after: Stored) -> None:
        new = after.pod
        if self._cache.assumes(new.uid):
            if new.deleting and not old.deleting:
                self._forget_assumed(new)
            return
        if not self._queue.in_flight(new.uid):
            self._nominator.update(old, new)
        self._queue.update(after, target_event(old, new))
        if old.nominated_node and old.nominated_node != new.nominated_node:
            self._released(old)

    def _pod_deleted(self, version: Stored) -> None:
        pod = version.pod
        self._pods.pop((pod.namespace, pod.name), None)
        if pod.node_name:
            self._cache.drop_pod(pod.uid)
            self._queue.move(SchedulerEvent(EventKind.ASSIGNED_POD_DELETED, pod=pod))
            return
        self._queue.delete(pod.uid)
        self._nominator.forget(pod.uid)
        if self._cache.assumes(pod.uid):
            self._forget_assumed(pod)
        elif pod.nominated_node:
            self._released(pod)

    def _assigned(self, pod: Pod) -> None:
        """Count a pod on its node, in place of the assumption if there was one."""
        self._cache.put_pod(pod)
        self._queue.move(SchedulerEvent(EventKind.ASSIGNED_POD_ADDED, pod=pod))

    def _forget_assumed(self, pod: Pod) -> None:
        """Give back what a pod that is going away was assumed to take; its binding will fail by itself."""
        self._cache.drop_pod(pod.uid)
        self._queue.move(SchedulerEvent(EventKind.ASSIGNED_POD_DELETED, pod=pod))

    def _released(self, pod: Pod) -> None:
        """Wake the pods that had to leave room for a nomination that is gone."""
        event = SchedulerEvent(EventKind.ASSIGNED_POD_DELETED, pod=pod)
        self._queue.move(event, concerns=lambda other: other.priority <= pod.priority)


def _alive(version: Stored | None) -> Stored | None:
    return None if version is None or version.pod.done else version
