"""What a replayed cluster holds: nodes, pods that run, and pods that wait for Muster in each of its ways."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from bench.service.documents import JsonObject
from bench.service.objects import NodeRecord, PodRecord, node_name, pod_group, uid

_NODE, _BOUND, _MEMBER, _SINGLE, _OWN, _GROUP, _FOREIGN = range(1, 8)
#: The gangs, by what becomes of them; the others are called `gang-NUMBER`.
PINNED, WAITING = "pinned", "waiting"


@dataclass(frozen=True, slots=True)
class Size:
    """How large the cluster is.

    Attributes:
        nodes: of eight GPUs each.
        bound: pods of another scheduler, spread over the nodes, none with a GPU.
        pinned: members of the gang that fits, one GPU each.
        waiting: members that the gang which waits for one more has.
        singles: pods without gang that wait; as many more of Muster's pods are bound.
    """

    nodes: int
    bound: int
    pinned: int = 64
    waiting: int = 8
    singles: int = 8

    def arguments(self) -> list[str]:
        """Return the size as a command line's words."""
        return [str(number) for number in (self.nodes, self.bound, self.pinned, self.waiting, self.singles)]

    @classmethod
    def parse(cls, words: list[str]) -> Self:
        """Read what `arguments` wrote."""
        return cls(*map(int, words))


@dataclass(slots=True)
class GroupRecord:
    """A coscheduling PodGroup; `status` is what Muster has written."""

    name: str
    uid: str
    min_member: int
    version: int = 1
    status: JsonObject = field(default_factory=dict)

    def document(self) -> JsonObject:
        """Return the PodGroup as the API server sends it."""
        document = pod_group(self.name, self.uid, self.min_member, self.version)
        return document | {"status": self.status} if self.status else document


@dataclass(frozen=True, slots=True)
class Population:
    """Every object of a replayed cluster, by name where Muster writes to it."""

    nodes: list[NodeRecord]
    pods: dict[str, PodRecord]
    groups: dict[str, GroupRecord]

    @classmethod
    def of(cls, size: Size) -> Self:
        """Make a cluster of that size, the same every time."""
        nodes = [NodeRecord(node_name(n), uid(_NODE, n), f"us-central1-{'abc'[n % 3]}") for n in range(size.nodes)]
        pods = [
            *(bound_pod(number, nodes[number % size.nodes].name) for number in range(size.bound)),
            *(member(PINNED, number) for number in range(size.pinned)),
            *(member(WAITING, number) for number in range(size.waiting)),
            *(single(number) for number in range(size.singles)),
            *(own(number, nodes[number % size.nodes].name) for number in range(size.singles)),
        ]
        sizes = {PINNED: size.pinned, WAITING: size.waiting + 1}
        groups = [GroupRecord(name, uid(_GROUP, n), count) for n, (name, count) in enumerate(sizes.items())]
        return cls(nodes, {pod.name: pod for pod in pods}, {group.name: group for group in groups})


def bound_pod(number: int, node: str) -> PodRecord:
    """Return a pod of another scheduler that runs."""
    return PodRecord(
        f"service-6d4cf56db6-{number:08x}", uid(_BOUND, number), scheduler="default-scheduler", node=node, gpus=0
    )


def foreign(number: int) -> PodRecord:
    """Return a pod of another scheduler that waits; nothing but a call of that scheduler's mentions it."""
    return PodRecord(f"batch-{number:05}", uid(_FOREIGN, number), scheduler="default-scheduler")


def member(gang: str, number: int) -> PodRecord:
    """Return a member of a gang that waits."""
    serial = sum(gang.encode()) * 100_000 + number
    return PodRecord(f"trainer-{gang}-{number:05}", uid(_MEMBER, serial), group=gang)


def single(number: int) -> PodRecord:
    """Return a pod of Muster's without gang that waits, and needs no GPU."""
    return PodRecord(f"notebook-{number:05}", uid(_SINGLE, number), gpus=0)


def own(number: int, node: str) -> PodRecord:
    """Return a pod of Muster's without gang that runs, without a GPU."""
    return PodRecord(f"inference-{number:05}", uid(_OWN, number), node=node, gpus=0)
