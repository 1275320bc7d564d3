"""Objects that Muster resumes and suspends, their stage, and the pods that are expected of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType

from extender.objects.pod import EXPECTED, Phase, Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.workload import MANAGE_JOBS, Suspendable


class StartStage(Enum):
    """How far an object has come: it waits suspended; it was resumed and lacks pods; or its pods say everything."""

    HELD = auto()
    STARTING = auto()
    RUNNING = auto()


@dataclass(slots=True)
class ManagedWorkload:
    """An object in a namespace that has opted in, and the pods that are still expected of it, by UID.

    `_made` are all pods that it has when it is resumed, and what they were made of.
    """

    workload: Suspendable
    stage: StartStage
    expected: dict[str, Pod] = field(default_factory=dict)
    _made: tuple[object, Mapping[str, Pod]] = (None, MappingProxyType({}))

    def all_expected(self, priorities: Mapping[str, int], default: int) -> dict[str, Pod]:
        """Return all pods that it has when it is resumed, by UID; the same ones for as long as its template stays."""
        workload = self.workload
        priority = [priorities.get(each.priority_class, default) for each in workload.pods]
        made_of = (workload.pods, workload.group.created, priority)
        if self._made[0] != made_of:
            self._made = (made_of, workload.expected(priorities, default))
        return dict(self._made[1])

    def is_played(self, pod: Pod) -> bool:
        """Tell whether a pod plays its part: it is to stay, and has not ended.

        One that has succeeded has played it for good, where the object does not say itself how many have.
        """
        done = pod.phase is Phase.FAILED if self.workload.described else pod.done
        return not (done or pod.deleting)

    @property
    def can_be_suspended(self) -> bool:
        """Tell whether it runs, as far as is known."""
        return not (self.workload.suspended or self.workload.ended)


class Workloads:
    """Keep the objects that the watch tells of, which namespaces have opted in, and whose pods are whose.

    Pods of a part, which an object has made, are the object's.

    Attributes:
        known: those in any namespace, by UID; in most clusters there are none, and nothing is kept of pods.
        managed: those that Muster manages, by UID.
        outdated: UIDs of those whose expected pods may be others than they are.
    """

    def __init__(self) -> None:
        self.known: dict[str, Suspendable] = {}
        self._namespaces: set[str] = set()
        self._children: dict[str, dict[str, None]] = {}  # UID of a controller -> UIDs of its pods
        self._owners: dict[str, str] = {}  # UID of a part -> UID of its object
        self._parts: dict[str, dict[str, GroupRef]] = {}  # UID of an object -> its parts, else these gangs
        self._left: set[str] = set()  # parts that are gone, and have pods
        self.managed: dict[str, ManagedWorkload] = {}
        self._named: dict[GroupRef, str] = {}  # gang -> UID of the managed object whose pods name it
        self.outdated: dict[str, None] = {}

    def put(self, workload: Suspendable) -> None:
        """Take in an object that was added or changed."""
        self.known[workload.uid] = workload

    def drop(self, uid: str) -> None:
        """Forget an object that was deleted, or names no queue any more."""
        self.known.pop(uid, None)

    def put_part(self, uid: str, ref: GroupRef, owner: str) -> None:
        """Take in a part, which would be the gang `ref` by itself."""
        self._owners[uid] = owner
        self._parts.setdefault(owner, {})[uid] = ref

    def drop_part(self, uid: str) -> None:
        """Forget a part that is gone, as soon as it has no pods."""
        if uid in self._children:
            self._left.add(uid)
            return
        self._left.discard(uid)
        owner = self._owners.pop(uid, "")
        parts = self._parts.get(owner, {})
        parts.pop(uid, None)
        if not parts:
            self._parts.pop(owner, None)

    def is_part(self, uid: str) -> bool:
        """Tell whether an object is a part of a managed one."""
        return self._owners.get(uid) in self.managed

    def parts(self, uid: str) -> dict[str, GroupRef]:
        """Return the parts of an object by UID, and the gangs that they would be."""
        return dict(self._parts.get(uid, {}))

    def manage(self, managed: ManagedWorkload) -> None:
        """Manage an object from now on."""
        workload = managed.workload
        self.managed[workload.uid] = managed
        if workload.named:
            self._named[workload.ref] = workload.uid

    def release(self, managed: ManagedWorkload) -> None:
        """Manage an object no more."""
        workload = managed.workload
        del self.managed[workload.uid]
        if self._named.get(workload.ref) == workload.uid:
            del self._named[workload.ref]

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> list[Suspendable]:
        """Take in a namespace's labels; return the objects there if that has opted in or out."""
        opted = labels.get(MANAGE_JOBS) == "true"
        if opted == (name in self._namespaces):
            return []
        (self._namespaces.add if opted else self._namespaces.discard)(name)
        return [each for each in self.known.values() if each.about.namespace == name]

    @property
    def namespaces(self) -> frozenset[str]:
        """Return the namespaces that have opted in."""
        return frozenset(self._namespaces)

    def manages(self, namespace: str) -> bool:
        """Tell whether a namespace has opted in."""
        return namespace in self._namespaces

    def put_pod(self, pod: Pod) -> Pod:
        """Take in whose pod this is; return it as a member of the gang of its object, if it is of a managed one."""
        if not pod.controller:
            return pod
        self._children.setdefault(pod.controller, {})[pod.uid] = None
        managed = self.managed.get(self._owners.get(pod.controller, pod.controller))
        return pod if managed is None else replace(pod, group=managed.workload.ref)  # one that is named is as it is

    def drop_pod(self, pod: Pod) -> None:
        """Forget a pod."""
        children = self._children.get(pod.controller)
        if children is not None:
            children.pop(pod.uid, None)
            if not children:
                del self._children[pod.controller]
                if pod.controller in self._left:
                    self.drop_part(pod.controller)

    def children(self, uid: str) -> list[str]:
        """Return the UIDs of the pods of an object, and of its parts."""
        return [pod for each in (uid, *self._parts.get(uid, ())) for pod in self._children.get(each, ())]

    def of(self, pod: Pod) -> ManagedWorkload | None:
        """Return the managed object that a pod is, or is expected, of."""
        if not self.managed:
            return None
        controller = self._owners.get(pod.controller, pod.controller)
        uid = pod.uid.removeprefix(EXPECTED).partition("/")[0] if pod.is_expected else controller
        managed = self.managed.get(uid)
        if managed is None and pod.controller and self._named:
            return self.managed.get(self._named.get(pod.group, ""))
        return managed

    def of_pods(self, pods: Mapping[str, Pod]) -> Iterator[ManagedWorkload]:
        """Iterate over the managed objects that expect any of these pods, each once."""
        found = {managed.workload.uid: managed for pod in pods.values() if (managed := self.of(pod)) is not None}
        return iter(found.values())


def taken_by(pod: Pod, of: ManagedWorkload) -> Pod | None:
    """Return the expected pod whose part a pod plays that has come: of its number, else of its role, else the first.

    Of those without numbers one counts that is planned where the pod is.
    """
    expected = of.expected
    for place, each in enumerate(of.workload.pods if pod.rank.indices else ()):
        same = expected.get(f"{EXPECTED}{of.workload.uid}/{place}/{pod.rank.indices[-1]}") if each.indexed else None
        if same is not None and same.rank == pod.rank and same.role == pod.role:
            return same
    node = pod.node_name or pod.nominated_node
    there = (each for each in expected.values() if node and each.nominated_node == node and each.role == pod.role)
    alike = (each for each in expected.values() if each.role == pod.role)
    return next(there, None) or next(alike, None) or next(iter(expected.values()), None)


def with_minimum(managed: ManagedWorkload, succeeded: int) -> PodGroup:
    """Return the gang of an object: it needs the pods that are left of those that it has at a time, and `succeeded`.

    Once it runs, no more than it has at a time. What its annotation says counts before that.
    """
    group = managed.workload.group
    if group.options.min_member is not None or group.options.role_minimums or group.problem is not None:
        return group
    needed = max(managed.workload.left + succeeded, 1)
    return replace(group, min_member=min(needed, group.min_member) if managed.stage is StartStage.RUNNING else needed)
