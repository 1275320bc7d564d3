"""What people and programs read about the whole cluster, as structs: rows of gangs and nodes, capacity, status, events.

The same rules as in `extender.explain.documents`. The whole board and its changes go to pages that stay open.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType, field

from extender.explain.documents import (
    ApiDocument,
    Count,
    DecisionRow,
    ExpectedStart,
    PartCounts,
    Phase,
    QueueRow,
    Time,
    WaitReason,
)


class MemberCounts(ApiDocument, frozen=True):
    """Members of a gang, counted by how far they have come."""

    exist: Count
    gated: Count
    waiting: Count
    reserved: Count
    bound: Count
    running: Count
    succeeded: Count
    failed: Count


class GangRow(ApiDocument, frozen=True):
    """How one gang stands, in a list.

    `gpus` are what its members ask for that have not ended; of these, `gpusHeld` are on the `nodes` that members are
    bound to, or that are reserved for them. `level` and `domain` are the smallest that its GPUs share. `position` is
    its place among those that wait (1 is evaluated first). `parts` is null of a gang that has none.
    `startUnknown` says why it is not known when it will start; `startsAfter` is a bound: not before, if all goes as
    expected.
    """

    namespace: str
    name: str
    api: str
    phase: Phase
    queue: str | None
    priority: int
    min_member: int
    members: MemberCounts
    gpus: Count
    gpus_held: Count
    reason: WaitReason | None
    since: Time | None
    started_at: Time | None
    expected_start: ExpectedStart | None
    bus_bandwidth: float | None = field(name="busBandwidthGBps")
    level: str | None
    domain: str | None
    nodes: Count
    evicted: str | None
    parts: PartCounts | None = None
    position: Count | UnsetType | None = UNSET
    start_unknown: str | None = None
    starts_after: Time | None = None

    @property
    def key(self) -> str:
        """Return the gang's name with its namespace."""
        return f"{self.namespace}/{self.name}"


class GangsDocument(ApiDocument, frozen=True):
    """The gangs: those that wait in the order in which they are evaluated, then the others by age.

    Of those that were asked for, `hidden` are of namespaces that the caller may not list.
    """

    gangs: tuple[GangRow, ...]
    hidden: Count = 0


class GpuCounts(ApiDocument, frozen=True):
    """GPUs: all that can be had, and of those how many are used, reserved and free."""

    allocatable: Count
    used: int
    reserved: Count
    free: Count


class ResourceRoom(ApiDocument, frozen=True):
    """What a node has of a resource, and what of it is free (milli-CPU, bytes)."""

    allocatable: Count
    free: int


class NodeItem(ApiDocument, frozen=True):
    """One node: its domains, outermost first, and for each GPU who holds it and whether that is only reserved."""

    name: str
    schedulable: bool
    domains: tuple[str, ...]
    product: str | None
    gpus: GpuCounts
    holders: tuple[str, ...]
    reserved: tuple[bool, ...]
    resources: dict[str, ResourceRoom]


class NodesDocument(ApiDocument, frozen=True):
    """The nodes, and the names of the levels that they have domains of."""

    levels: tuple[str, ...]
    nodes: tuple[NodeItem, ...]


class Island(ApiDocument, frozen=True):
    """So many domains with so many free GPUs each."""

    free_gpus: Count
    domains: Count


class LargestIsland(ApiDocument, frozen=True):
    """The domain with the most free GPUs."""

    domain: str
    free_gpus: Count


class LevelCapacity(ApiDocument, frozen=True):
    """The free GPUs of one product at one level, in islands."""

    level: str
    product: str | None
    domains: Count
    islands: tuple[Island, ...]
    largest: LargestIsland


class FittingPods(ApiDocument, frozen=True):
    """How many pods with so many GPUs each there is room for, by GPUs alone."""

    gpus_per_pod: Count
    pods: Count


class CapacityDocument(ApiDocument, frozen=True):
    """How many GPUs are free, and in pieces of what size."""

    levels: tuple[LevelCapacity, ...]
    gangs: tuple[FittingPods, ...]


class NodeCounts(ApiDocument, frozen=True):
    """Nodes: all, those that take pods, those with GPUs."""

    total: Count
    schedulable: Count
    with_gpus: Count


class LongestWait(ApiDocument, frozen=True):
    """The gang that has waited for longest, and since when."""

    gang: str
    since: Time


class CallLatency(ApiDocument, frozen=True):
    """How long calls took within the last minute (milliseconds); null without any."""

    calls: Count
    p50: float | None = field(name="p50Ms")
    p99: float | None = field(name="p99Ms")


class VerbCalls(CallLatency, frozen=True):
    """How long the calls of one verb took within the last minute (milliseconds)."""

    verb: str


class RecordingState(ApiDocument, frozen=True):
    """Whether all that happens is recorded, how much was, and why it has ended."""

    on: bool
    inputs: Count
    size: Count = field(name="bytes")
    since: Time | None
    ended: str | None


class StatusDocument(ApiDocument, frozen=True):
    """How Muster and the cluster are, in numbers; `gangs` by phase, `waiting` by reason.

    Of what is `hidden` (namespaces, nodes, queues) the caller may not list all: only what it may is counted, and
    `hidden_gangs` are the gangs that are not.
    """

    version: str
    time: Time
    ready: bool
    leading: bool
    unready: tuple[str, ...]
    nodes: NodeCounts
    gpus: GpuCounts
    gangs: dict[str, int]
    waiting: dict[str, int]
    queues: Count
    oldest_wait: LongestWait | None
    verbs: tuple[VerbCalls, ...]
    passes: CallLatency = field(name="pass")
    recording: RecordingState
    hidden: tuple[str, ...] = ()
    hidden_gangs: Count = 0


class EventsDocument(ApiDocument, frozen=True):
    """What was decided lately, oldest first; `next` is the `after` of the next question."""

    last: Count = field(name="next")
    events: tuple[DecisionRow, ...]


class BoardNodes(ApiDocument, frozen=True):
    """All nodes in columns: at 5,000 nodes lists of objects would be four times as long.

    `domains` and `products` are numbers of names of the board, -1 for none.
    """

    names: tuple[str, ...]
    domains: tuple[tuple[int, ...], ...]
    gpus: tuple[int, ...]
    schedulable: tuple[int, ...]
    cells: tuple[tuple[int, ...], ...]
    products: tuple[int, ...] = ()


class BoardDocument(ApiDocument, frozen=True):
    """Everything that the dashboard shows."""

    seq: Count
    status: StatusDocument
    levels: tuple[str, ...]
    gangs: tuple[GangRow, ...]
    queues: tuple[QueueRow, ...]
    events: tuple[DecisionRow, ...]
    domains: tuple[tuple[str, ...], ...]
    nodes: BoardNodes
    holders: tuple[str, ...]
    products: tuple[str, ...] = ()


class GangChanges(ApiDocument, frozen=True):
    """The gangs that changed, those that are gone, and the order of those that wait if it is another."""

    put: tuple[GangRow, ...]
    gone: tuple[str, ...]
    order: tuple[str, ...] | UnsetType = UNSET


class NodeChange(ApiDocument, frozen=True):
    """A node that changed; `cells` has who holds each GPU, `reserved` 1 for those that are only reserved."""

    name: str
    domains: tuple[str, ...]
    gpus: Count
    schedulable: int
    cells: tuple[str, ...]
    reserved: tuple[int, ...]
    product: str = ""


class NodeChanges(ApiDocument, frozen=True):
    """The nodes that changed, and those that are gone."""

    put: tuple[NodeChange, ...]
    gone: tuple[str, ...]


class ChangeDocument(ApiDocument, frozen=True):
    """What has changed on the board; `queues` are left out if they have not."""

    seq: Count
    status: StatusDocument
    gangs: GangChanges
    events: tuple[DecisionRow, ...]
    nodes: NodeChanges
    queues: tuple[QueueRow, ...] | UnsetType = UNSET
