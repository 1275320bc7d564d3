"""What the API server has, and what follows from that alone.

Pods that are done hold nothing; what a pod is promised, it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.explain.documents import MemberState
from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef, PodGroup

GPU = "nvidia.com/gpu"


class Objects:
    """What the API server has: the objects, and on which node Muster nominated which pod."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}  # by name
        self.devices: dict[str, int] = {}  # by node, GPUs that only a ResourceSlice tells of
        self.evicted: set[str] = set()  # names of pods that Muster evicted
        self.groups: dict[GroupRef, PodGroup] = {}
        self.promised: dict[str, str] = {}  # name of a pod without a node -> the node that it is nominated to

    @property
    def clearing(self) -> bool:
        """Tell whether evicted pods are still on nodes: others may be charged for what they leave, ahead of time."""
        return any(self.pods[name].bound for name in self.evicted if name in self.pods)

    def members(self, ref: GroupRef) -> list[Pod]:
        """Return the pods of a gang."""
        return [pod for pod in self.pods.values() if pod.group == ref]

    def holding(self, node: str, *, promised: bool | None = None) -> list[Pod]:
        """Return the pods that have room on a node: bound ones, or those that it is promised to, or both."""
        bound = [pod for pod in self.pods.values() if pod.node_name == node and not pod.done]
        nominated = [self.pods[name] for name, at in self.promised.items() if at == node]
        return {None: bound + nominated, False: bound, True: nominated}[promised]

    def free(self, node: str, resource: str) -> int:
        """Return what is left of a node."""
        return self.total(node, resource) - taken(self.holding(node), resource)

    def total(self, node: str, resource: str = GPU) -> int:
        """Return what a node has, GPUs that only a ResourceSlice tells of included."""
        return self.nodes[node].allocatable.get(resource, 0) + (self.devices.get(node, 0) if resource == GPU else 0)

    def suits(self, node: str, pod: Pod) -> bool:
        """Tell whether a node has GPUs in the way in which a pod asks for them: by claims, or by number."""
        return bool(pod.claims.claims) == (node in self.devices) or not taken([pod])

    def takes_pods(self, node: str) -> bool:
        """Tell whether a node is not cordoned."""
        return UNSCHEDULABLE_TAINT not in self.nodes[node].taints

    def placed(self, ref: GroupRef) -> dict[str, str]:
        """Return the node of each member that has one, or is promised one."""
        bound = {pod.name: pod.node_name for pod in self.members(ref) if pod.node_name and not pod.done}
        return bound | {pod.name: self.promised[pod.name] for pod in self.members(ref) if pod.name in self.promised}


def taken(pods: Iterable[Pod], resource: str = GPU) -> int:
    """Return what pods ask for of a resource, all together; GPUs by number, or by a claim that says how many."""
    return sum(pod.shape.request(resource) + (claimed(pod) if resource == GPU else 0) for pod in pods)


def claimed(pod: Pod) -> int:
    """Return how many GPUs the claim of a pod asks for: its name, or that of its template, ends with the number."""
    return sum(int((each.claim or each.template).rpartition("-")[2]) for each in pod.claims.claims)


def state_of(pod: Pod, promised: Mapping[str, str]) -> MemberState:
    """Return how far a member has come."""
    if pod.done:
        return MemberState.SUCCEEDED if pod.phase is Phase.SUCCEEDED else MemberState.FAILED
    if pod.deleting:
        return MemberState.LEAVING
    if pod.node_name:
        return MemberState.BOUND
    if pod.gated:
        return MemberState.GATED
    return MemberState.RESERVED if pod.name in promised else MemberState.WAITING


class Recomputed:
    """Every number of one moment, from the objects; `seen` are the fields that were compared."""

    def __init__(self, objects: Objects, seen: set[str]) -> None:
        self.objects, self.seen = objects, seen

    def same(self, field: str, shown: object, true: object) -> None:
        """Assert that a field shows what is true."""
        self.seen.add(field)
        assert shown == true, f"{field}: {shown} is shown, {true} is true"

    def within(self, field: str, shown: int, most: int) -> None:
        """Assert that a number of some of something is no more than there are."""
        self.seen.add(field)
        assert shown <= most, f"{field}: {shown} is shown of {most}"

    def next_members(self, ref: GroupRef) -> list[Pod]:
        """Return the members that wait for a node, else those with gates, in the order in which they get one."""
        states = {pod.name: state_of(pod, self.objects.promised) for pod in self.objects.members(ref)}
        for state in (MemberState.WAITING, MemberState.GATED):
            if found := sorted(name for name, each in states.items() if each is state):
                return [self.objects.pods[name] for name in found]
        return []
