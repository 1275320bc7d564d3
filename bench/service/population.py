"""What a replayed cluster holds: nodes, pods that run, and pods that wait for Muster in each of its ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final, Self

from bench.service.documents import NODE_CPUS, NODE_GPUS, JsonObject
from bench.service.objects import NodeRecord, PodRecord, node_name, pod_group, queue, uid

_NODE, _BOUND, _MEMBER, _SINGLE, _OWN, _GROUP, _FOREIGN, _QUEUE, _CROWD = range(1, 10)
#: The gangs, by what becomes of them; the others are called `gang-NUMBER`.
PINNED, WAITING = "pinned", "waiting"
#: Members of each gang that runs.
RUNNING_MEMBERS = 8
#: Queues of teams below each Queue of a department.
_TEAMS = 24
#: The Queue whose quota is used up, and the gang that has it.
_SPENT, _HOLDER = "spent", "holder"


@dataclass(frozen=True, slots=True)
class CrowdKind:
    """Gangs of two members that wait for one reason: what each asks for, how many must start, and where."""

    gpus: int = 1
    cpu: str = "500m"
    minimum: int = 2
    queue: str = ""
    level: str = ""


#: Gangs that wait, by why they do: with pods larger than a node, with pods that fill one while others are on each, with
#: such that one node cannot take together, in a queue that has nothing left, and with too few members.
CROWD: Final[Mapping[str, CrowdKind]] = MappingProxyType(
    {
        "oversized": CrowdKind(gpus=2 * NODE_GPUS),
        "crowded-out": CrowdKind(cpu=str(NODE_CPUS)),
        "split": CrowdKind(cpu=str(NODE_CPUS // 2), level="kubernetes.io/hostname"),
        "without-quota": CrowdKind(queue=_SPENT),
        "incomplete": CrowdKind(minimum=3),
    }
)


@dataclass(frozen=True, slots=True)
class Size:
    """How large the cluster is.

    Attributes:
        nodes: of eight GPUs each.
        bound: pods of another scheduler, spread over the nodes, none with a GPU.
        pinned: members of the gang that fits, one GPU each.
        waiting: members that the gang which waits for one more has.
        singles: pods without gang that wait; as many more of Muster's pods are bound.
        running: gangs of eight that run, one GPU for each member, evenly in the queues if there are any.
        queues: Queues in a tree of two levels.
        crowd: gangs that wait of each kind in `CROWD`.
        sliced: 1 if GPUs are in ResourceSlices, and no device plugin tells of any.
    """

    nodes: int
    bound: int
    pinned: int = 64
    waiting: int = 8
    singles: int = 8
    running: int = 0
    queues: int = 0
    crowd: int = 0
    sliced: int = 0

    @property
    def pods(self) -> int:
        """Return how many pods hold nodes from the beginning."""
        return self.bound + self.running * RUNNING_MEMBERS + self.singles

    def arguments(self) -> list[str]:
        """Return the size as a command line's words."""
        return [str(getattr(self, each.name)) for each in fields(self)]

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
    queue: str = ""
    level: str = ""
    version: int = 1
    status: JsonObject = field(default_factory=dict)

    def document(self) -> JsonObject:
        """Return the PodGroup as the API server sends it."""
        document = pod_group(self.name, self.uid, self.min_member, self.queue, self.version)
        if self.level:
            document["metadata"]["annotations"] = {"muster.dev/topology-required": self.level}
        return document | {"status": self.status} if self.status else document


@dataclass(frozen=True, slots=True)
class Population:
    """Every object of a replayed cluster, by name where Muster writes to it."""

    nodes: list[NodeRecord]
    pods: dict[str, PodRecord]
    groups: dict[str, GroupRecord]
    queues: list[JsonObject]

    @classmethod
    def of(cls, size: Size) -> Self:
        """Make a cluster of that size, the same every time."""
        zones, sliced = [f"us-central1-{each}" for each in "abc"], bool(size.sliced)
        nodes = [NodeRecord(node_name(n), uid(_NODE, n), zones[n % 3], sliced=sliced) for n in range(size.nodes)]
        pods = [
            *(bound_pod(number, nodes[number % size.nodes].name) for number in range(size.bound)),
            *(member(PINNED, number) for number in range(size.pinned)),
            *(member(WAITING, number) for number in range(size.waiting)),
            *(single(number) for number in range(size.singles)),
            *(own(number, nodes[number % size.nodes].name) for number in range(size.singles)),
            *(_running(number, nodes) for number in range(size.running * RUNNING_MEMBERS)),
        ]
        sizes = {PINNED: size.pinned, WAITING: size.waiting + 1}
        groups = [GroupRecord(name, uid(_GROUP, n), count) for n, (name, count) in enumerate(sizes.items())]
        queues = [_queue(number) for number in range(size.queues)]
        teams = [each["metadata"]["name"] for each in queues if "parent" in each["spec"]] or [""]
        groups += [
            GroupRecord(_running_gang(n), uid(_GROUP, len(sizes) + n), RUNNING_MEMBERS, teams[n % len(teams)])
            for n in range(size.running)
        ]
        if size.crowd:
            queues.append(queue(_SPENT, "", uid(_QUEUE, size.queues), gpus=1))
            pods += [PodRecord(_HOLDER, uid(_CROWD, 0), group=_HOLDER, node=node_name(0)), *_crowd_pods(size.crowd)]
            groups += [GroupRecord(_HOLDER, uid(_CROWD, 1), 1, _SPENT), *_crowd_groups(size.crowd)]
        return cls(nodes, {pod.name: pod for pod in pods}, {group.name: group for group in groups}, queues)


def bound_pod(number: int, node: str) -> PodRecord:
    """Return a pod of another scheduler that runs."""
    return PodRecord(
        f"service-6d4cf56db6-{number:08x}", uid(_BOUND, number), scheduler="default-scheduler", node=node, gpus=0
    )


def crowd_name(kind: str, number: int) -> str:
    """Return the name of a gang of the crowd."""
    return f"{kind}-{number:05}"


def _crowd_pods(count: int) -> list[PodRecord]:
    """Return the members of the gangs of the crowd, of which there are so many of each kind."""
    gangs = [(crowd_name(name, number), kind) for name, kind in CROWD.items() for number in range(count)]
    members = [(gang, kind, member) for gang, kind in gangs for member in range(2)]
    return [
        PodRecord(f"{gang}-{member}", uid(_CROWD, 2 + serial), group=gang, gpus=kind.gpus, cpu=kind.cpu)
        for serial, (gang, kind, member) in enumerate(members)
    ]


def _crowd_groups(count: int) -> list[GroupRecord]:
    """Return the PodGroups of the crowd."""
    gangs = [(crowd_name(name, number), kind) for name, kind in CROWD.items() for number in range(count)]
    taken = 2 + 2 * len(gangs)
    return [
        GroupRecord(gang, uid(_CROWD, taken + serial), kind.minimum, kind.queue, kind.level)
        for serial, (gang, kind) in enumerate(gangs)
    ]


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


def _running_gang(number: int) -> str:
    return f"pretrain-{number:05}"


def _running(number: int, nodes: list[NodeRecord]) -> PodRecord:
    """Return a member of a gang that runs; each gang fills a node."""
    gang, place = divmod(number, RUNNING_MEMBERS)
    name = f"{_running_gang(gang)}-worker-{place}"
    return PodRecord(name, uid(_MEMBER, number), group=_running_gang(gang), node=nodes[gang % len(nodes)].name)


def _queue(number: int) -> JsonObject:
    """Return the Queue of a department, or of one of the teams below the last one."""
    department, team = divmod(number, 1 + _TEAMS)
    name = f"department-{department}"
    return queue(f"{name}-team-{team}" if team else name, name if team else "", uid(_QUEUE, number))
