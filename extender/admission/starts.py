"""Gangs without pods: which pods are expected of suspended objects, and which pods that come take their part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from extender.admission.admission import Admission
from extender.cluster.workloads import ManagedWorkload, StartStage, taken_by, with_minimum
from extender.ledger.effects import CollectedEffects
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import MOST_PODS, GroupRef, PodGroup
from extender.objects.reason import Problem
from extender.objects.workload import Suspendable, read_place

#: Pods that become expected before others have the event loop: 5 ms.
_PODS_PER_TURN = 250


class Starts:
    """Keep the expected pods of managed objects in step with the objects, and with the pods that come.

    An expected pod stands in model, gang and ledger like one that has just been created.
    """

    def __init__(
        self,
        admission: Admission,
        effects: CollectedEffects,
        group_seen: Callable[[PodGroup], None],
        group_gone: Callable[[GroupRef, str], None],
        pod_seen: Callable[[Pod], None],
    ) -> None:
        """Start without any object; tell of gangs by `group_seen` and `group_gone`, read pods again by `pod_seen`."""
        self._admission = admission
        self._model = admission.model
        self._workloads = admission.model.workloads
        self._effects = effects
        self._group_seen = group_seen
        self._group_gone = group_gone
        self._pod_seen = pod_seen

    def seen(self, workload: Suspendable) -> None:
        """Take in an object that was added or changed."""
        if not self._workloads.known:
            self._track()
        self._workloads.put(workload)
        self._follow(workload)

    def _track(self) -> None:
        """Take in whose pods there are already, before the first object is known."""
        for pod in self._model.pods.values():
            if pod.controller and self._model.manages(pod):
                self._workloads.put_pod(pod)

    def gone(self, uid: str) -> None:
        """Forget an object that was deleted, or names no queue any more; pods that it has stay in its gang."""
        self._workloads.drop(uid)
        self._release(uid)

    def part_seen(self, uid: str, ref: GroupRef, owner: str) -> None:
        """Take in an object that another one has made: where that is managed it is the gang, and its pods are of it."""
        self._workloads.put_part(uid, ref, owner)
        if owner in self._workloads.managed:
            self._group_gone(ref, uid)
            self._read_again(self._workloads.children(owner))

    def part_gone(self, uid: str) -> None:
        """Forget an object that another one has made."""
        self._workloads.drop_part(uid)

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> None:
        """Take in whether a namespace has opted in."""
        for workload in self._workloads.put_namespace(name, labels):
            self._follow(workload)

    def priorities_seen(self) -> None:
        """Take in that PriorityClasses have changed."""
        for uid in self._workloads.managed:
            self._look_again(uid)

    def pod_seen(self, pod: Pod, before: Pod | None) -> None:
        """Take in a pod of a managed object: one that has come takes the part of one that was expected."""
        managed = self._workloads.of(pod)
        if managed is None:
            return
        if before is not None and before.group == pod.group:
            if managed.stage is StartStage.HELD and managed.is_played(before) != managed.is_played(pod):
                self._look_again(managed.workload.uid)
            return
        if managed.expected and managed.is_played(pod):
            self._take(managed, pod)

    def pod_gone(self, pod: Pod) -> None:
        """Take in that a pod is gone: one that is suspended makes another in its place when it is resumed.

        One that has succeeded is not made again, and is no longer there to count.
        """
        managed = self._workloads.of(pod)
        if managed is not None and (managed.stage is StartStage.HELD or pod.phase is Phase.SUCCEEDED):
            self._look_again(managed.workload.uid)

    def sync(self) -> None:
        """Bring up to date what is expected, before a pass; of very much that has changed, some."""
        left = _PODS_PER_TURN
        while self._workloads.outdated and left > 0:
            uid = next(iter(self._workloads.outdated))
            del self._workloads.outdated[uid]
            managed = self._workloads.managed.get(uid)
            if managed is not None:
                left -= 1 + self._sync(managed, left)

    def take_up(self) -> None:
        """Read back from the cluster which objects are being started, and where: this replica decides from now on."""
        for managed in self._workloads.managed.values():
            workload, there = managed.workload, self._children(managed)
            begun = any(pod.node_name or pod.done for pod in there)
            managed.stage = StartStage.RUNNING
            if workload.suspended:
                managed.stage = StartStage.HELD
                self._sync(managed)
            elif workload.place and not (workload.ended or begun):
                managed.stage = StartStage.STARTING
                self._describe(managed)
                expected = self._expected(managed)
                places = read_place(workload.place, workload.uids)
                for uid, pod in expected.items():
                    self._put(managed, pod.nominated_to(places.get(uid, "")))
                for pod in filter(managed.is_played, there):
                    self._take(managed, pod)
            self._workloads.outdated.pop(workload.uid, None)

    def stand_down(self) -> None:
        """Expect nothing: another replica decides."""
        for managed in self._workloads.managed.values():
            for uid in list(managed.expected):
                self._drop(managed, uid)

    def _follow(self, workload: Suspendable) -> None:
        """Take in how an object stands, in a namespace that may have opted in or out."""
        uid, opted = workload.uid, self._workloads.manages(workload.about.namespace)
        managed = self._workloads.managed.get(uid)
        if managed is not None and not (opted and managed.workload.ref == workload.ref):
            self._release(uid)
            managed = None
        if not opted:
            return
        if managed is None:
            stage = StartStage.HELD if workload.suspended else StartStage.RUNNING
            managed = ManagedWorkload(workload, stage)
            self._workloads.manage(managed)
            for part, ref in self._workloads.parts(uid).items():
                self._group_gone(ref, part)
            self._read_again(self._workloads.children(uid))
        managed.workload = workload
        if workload.suspended:
            managed.stage = StartStage.HELD
        elif workload.ended or not workload.place:
            managed.stage = StartStage.RUNNING
        elif managed.stage is StartStage.HELD:
            managed.stage = StartStage.STARTING
        self._describe(managed)
        self._look_again(uid)

    def _read_again(self, pods: list[str]) -> None:
        """Read pods again that may be of another gang now."""
        for uid in pods:
            self._pod_seen(self._model.pods[uid])

    def _describe(self, managed: ManagedWorkload) -> None:
        """Tell what the gang of an object is, unless its pods name another one."""
        workload = managed.workload
        if workload.ref != workload.group.ref:
            return
        group = workload.group
        if not workload.described:
            group = with_minimum(managed, sum(1 for pod in self._children(managed) if pod.phase is Phase.SUCCEEDED))
        strange = [each for each in workload.pods if not self._model.manages(each.template)]
        if strange and workload.suspended and not workload.ended and group.problem is None:
            message = f"{strange[0].template.scheduler_name} is none of Muster's schedulers"
            group = replace(group, problem=Problem("spec.template.spec.schedulerName", message))
        if not workload.described or group.problem is not None:
            self._group_seen(group)

    def _look_again(self, uid: str) -> None:
        self._workloads.outdated[uid] = None
        self._admission.reconsider()

    def _release(self, uid: str) -> None:
        """Manage an object no more."""
        managed = self._workloads.managed.get(uid)
        if managed is None:
            return
        for expected in list(managed.expected):
            self._drop(managed, expected)
        self._workloads.release(managed)
        if managed.workload.ref == managed.workload.group.ref and not managed.workload.described:
            self._group_gone(managed.workload.ref, uid)

    def _expected(self, managed: ManagedWorkload) -> dict[str, Pod]:
        """Return the pods that an object makes when it is resumed, if they are for Muster to place."""
        priorities, workload = self._admission.priorities, managed.workload
        if workload.ended or not all(self._model.manages(each.template) for each in workload.pods):
            return {}
        return managed.all_expected(priorities.values, priorities.default)

    def _children(self, managed: ManagedWorkload) -> list[Pod]:
        pods, workload = self._model.pods, managed.workload
        if workload.named:
            gang = self._model.gangs.get(workload.ref)
            return [] if gang is None else [pod for pod in gang.members.values() if not pod.is_expected]
        return [pods[uid] for uid in self._workloads.children(workload.uid) if uid in pods]

    def _sync(self, managed: ManagedWorkload, most: int = MOST_PODS) -> int:
        """Expect the pods that an object would make now, besides those that are there; return how many are new.

        If there are more than `most` that are new, those are to be looked at again.
        """
        wanted, new = self._wanted(managed), 0
        for uid, pod in list(managed.expected.items()):
            if wanted.get(uid) != pod:
                self._drop(managed, uid)
        for uid, pod in wanted.items():
            if uid not in managed.expected:
                if new == most:
                    self._look_again(managed.workload.uid)
                    break
                self._put(managed, pod)
                new += 1
        gang, reservations = self._model.gangs.get(managed.workload.ref), self._admission.reservations
        reservation = None if gang is None else reservations.ledger.of_gang(gang.uid)
        if reservation is not None:  # it is another version now that is to be resumed
            reservations.resume(reservation)
        self._settle(managed)
        return new

    def _wanted(self, managed: ManagedWorkload) -> dict[str, Pod]:
        """Return the pods that are to be expected of an object."""
        self._describe(managed)
        if managed.stage is StartStage.HELD:
            wanted = self._expected(managed)
            left = ManagedWorkload(managed.workload, managed.stage, wanted)
            for pod in filter(managed.is_played, self._children(managed)):
                if (taken := taken_by(pod, left)) is not None:
                    del wanted[taken.uid]
            return wanted
        if managed.stage is StartStage.RUNNING:
            return {}
        if not self._has_minimum(managed.workload):
            return managed.expected
        ledger = self._admission.reservations.ledger
        return {uid: pod for uid, pod in managed.expected.items() if ledger.of_pod(uid) is not None}

    def _has_minimum(self, workload: Suspendable) -> bool:
        gang = self._model.gangs.get(workload.ref)
        return gang is not None and gang.has_minimum

    def _take(self, managed: ManagedWorkload, pod: Pod) -> None:
        """Let a pod that has come take the part of one that was expected."""
        expected = taken_by(pod, managed)
        if expected is not None:
            self._admission.reservations.hand_over(expected, pod)
            self._drop(managed, expected.uid)
            self._settle(managed)

    def _settle(self, managed: ManagedWorkload) -> None:
        if managed.stage is StartStage.STARTING and not managed.expected:
            managed.stage = StartStage.RUNNING

    def _put(self, managed: ManagedWorkload, pod: Pod) -> None:
        """Expect a pod from now on."""
        managed.expected[pod.uid] = pod
        self._model.put_pod(self._model.as_asked(pod), self._admission.clock.monotonic())
        self._effects.changed[pod.group] = None
        self._admission.reconsider(pod.group)

    def _drop(self, managed: ManagedWorkload, uid: str) -> None:
        """Expect a pod no more."""
        pod = managed.expected.pop(uid)
        reservations = self._admission.reservations
        reservations.drop(uid, "the pod is not expected any more")
        gang = self._model.drop_pod(uid).gang
        self._effects.changed[pod.group] = None
        self._admission.reconsider(pod.group)
        if gang is not None and self._model.gangs.get(gang.ref) is None:
            reservations.end_life(gang.uid, "the gang is gone")
