"""What people and programs read about gangs and Queues, as structs: the JSON of the API and its OpenAPI schema.

Each field stands here once. The service encodes these structs, OpenAPI is written from them, and the command line
decodes them again. What one has not worked out is null, never left out. A string whose values are an enumeration stays
a string: a command that is older than the service shows what it does not know.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

from extender.objects.reason import Reason
from extender.objects.topology import WeighedPlace


class GangPhase(StrEnum):
    """The phase of a gang; the value is the PodGroup's `status.phase` and the metric label."""

    PENDING = "Pending"
    SCHEDULING = "Scheduling"
    RUNNING = "Running"
    FINISHED = "Finished"
    FAILED = "Failed"


class MemberState(StrEnum):
    """How far one member has come."""

    WAITING = "waiting"
    GATED = "gated"
    RESERVED = "reserved"
    BOUND = "bound"
    LEAVING = "leaving"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class PartState(StrEnum):
    """How far a part of a gang has come; what too few of its members have, or of its parts."""

    MISSING = "missing"
    GATED = "gated"
    WAITING = "waiting"
    RESERVED = "reserved"
    BOUND = "bound"
    RUNNING = "running"
    SUCCEEDED = "succeeded"


class DecisionKind(StrEnum):
    """What a decision was."""

    RESERVED = "reserved"
    STARTED = "started"
    RELEASED = "released"
    EXPIRED = "expired"
    EVICTED = "evicted"
    NOTED = "noted"


def one_of(values: type[StrEnum]) -> Meta:
    """Return what a schema says of a string that is one of these values."""
    return Meta(extra_json_schema={"enum": [value.value for value in values]})


Time: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A moment in RFC 3339, UTC."""

Phase: TypeAlias = Annotated[str, one_of(GangPhase)]
ReasonCode: TypeAlias = Annotated[str, one_of(Reason)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Quantities: TypeAlias = dict[str, str]
"""Resource -> quantity as Kubernetes writes it."""


class ApiDocument(Struct, frozen=True, rename="camel", gc=False):
    """A JSON object of the API; the fields are in camelCase on the wire."""


class WaitReason(ApiDocument, frozen=True):
    """Why a gang waits; `numbers` are those of the message."""

    code: ReasonCode
    message: str
    numbers: dict[str, int]


class PredictedPlacement(ApiDocument, frozen=True):
    """Where a gang is, or is promised to be: the smallest domain around it, and what is predicted there (GB/s)."""

    bus_bandwidth: float | None = field(name="busBandwidthGBps")
    level: str
    domain: str
    fragmentation_cost: float | None
    gpus_per_node: dict[str, int]


class FasterPlacement(ApiDocument, frozen=True):
    """The next better placement (GB/s), and how many of the `needed` members fit into the roomiest such domain."""

    bus_bandwidth: float | None = field(name="busBandwidthGBps")
    level: str
    domain: str
    fits: int
    needed: int


class ExpectedStart(ApiDocument, frozen=True):
    """When a gang is expected to start; `waits_for` is the gang whose end it waits for.

    It goes by runtimes that are declared or learned, or is promised: then room is kept for it.
    """

    at: Time
    waits_for: str | None
    overdue: bool
    source: str = "promised"


class QueuePosition(ApiDocument, frozen=True):
    """The place of a gang in the order of evaluation: `position` of `of`, behind `ahead`; null if it does not wait.

    `name` is its own Queue; those who wait in all Queues are in one order. In the line of its own it is
    `position_in_queue` of `of_queue`.
    """

    name: str | None
    position: Count | None
    of: Count
    position_in_queue: Count | None
    of_queue: Count
    ahead: tuple[str, ...]


class WaterfallRow(ApiDocument, frozen=True):
    """How many nodes one constraint takes away, how many are `left`, and what it mostly was."""

    cause: str
    nodes: Count
    left: Count
    detail: str


class NodeWaterfall(ApiDocument, frozen=True):
    """What is left of the nodes for `pods` pods of one shape, constraint by constraint: sum(nodes) + usable = nodes."""

    pods: Count
    request: Quantities
    nodes: Count
    steps: tuple[WaterfallRow, ...]
    usable: Count
    fits: Count


class NearestDomain(ApiDocument, frozen=True):
    """The domain that comes closest to holding the members that have to be together, and what it lacks."""

    level: str
    domain: str
    fits: Count
    needed: Count
    lacks: Quantities


class HolderRow(ApiDocument, frozen=True):
    """A gang, or a pod without one, that holds what a waiting gang lacks, and until when."""

    gang: str
    gpus: Count
    nodes: Count
    priority: int
    queue: str | None
    ends_at: Time | None
    overdue: bool


class PlacementChoice(ApiDocument, frozen=True):
    """Why a gang is where it is: how many nodes would take a member, and in words what was to choose from.

    `weighed` is what its place costs and what was passed by, as of when it was chosen; null where that is not known.
    """

    considered: Count
    lines: tuple[str, ...]
    weighed: WeighedPlace | None = None


class SuggestedChange(ApiDocument, frozen=True):
    """One change with which a gang would be placed: now, or `later`.

    It is of minMember, topologyLevel, resources, gpus, queue, quota, priority or nodes; an `end` is that of the gangs
    `to`: with that it would be placed `later`, at `starts_at`. So it may be with a topologyLevel.
    """

    change: str
    before: int | str | Quantities | None = field(name="from")
    after: int | str | Quantities | None = field(name="to")
    message: str
    later: bool = False
    starts_at: Time | None = None


class QuotaGangRow(ApiDocument, frozen=True):
    """What one gang holds of what is short, and when it is expected to end."""

    gang: str
    amount: Count
    ends_at: Time | None
    overdue: bool


class QuotaHolderRow(ApiDocument, frozen=True):
    """What the gangs of one Queue hold of what is short: those that hold most, and how many others."""

    queue: str
    nominal: Count
    used: Count
    borrowed: Count
    gangs: tuple[QuotaGangRow, ...]
    others: Count


class QuotaStanding(ApiDocument, frozen=True):
    """How the Queue of a gang stands that waits for quota, of the resource that is short (milli-CPU, bytes, counts).

    `short_at` is where it is short: the Queue itself, or one above it. `returns_with` are the first gangs after whose
    ends there is enough, `returns_at` when the last of them is expected to end, null where that is not known. With
    `reclaims` others may be evicted for it now. `lines` say all of that in words.
    """

    queue: str
    flavor: str
    resource: str
    asked: Count
    nominal: Count
    used: Count
    available: Count
    borrowing_limit: Count | None
    lending_limit: Count | None
    short_at: str
    holders: tuple[QuotaHolderRow, ...]
    returns_with: tuple[str, ...]
    returns_at: Time | None
    reclaims: bool
    lines: tuple[str, ...] = ()


class LevelNames(ApiDocument, frozen=True):
    """The levels of the topology, outermost first, and where they are declared."""

    source: str
    names: tuple[str, ...]


class MemberRow(ApiDocument, frozen=True):
    """One pod of a gang: `gpus` and `zones` are what it holds of its node, `observed` if the node reported that."""

    name: str
    role: str | None
    state: Annotated[str, one_of(MemberState)]
    node: str | None
    gpus: tuple[int, ...] | None
    zones: tuple[int, ...] | None
    observed: bool


class PartCounts(ApiDocument, frozen=True):
    """How many of the outermost parts of a gang have their minimum bound, how many it needs, and has in all."""

    bound: Count
    minimum: Count
    total: Count


class PartRow(ApiDocument, frozen=True):
    """A part of a gang, or all of it, and the parts inside it; one without is the members of the role `name`.

    It holds with `minimum` of its parts, or members. `exist`, `placed`, `bound` and `running` say how many of them
    exist, have a node or one promised, are bound or have succeeded, run or have succeeded: a part, if its minimum does.
    The `state` is the first that fewer than `minimum` have left behind. The gang counts on parts that are `needed`, and
    does without the others. `lacks` is how many members more must get a node until the part holds. It is to be in one
    domain of the `required` level and should be in one of the `preferred`; its members with a place are in `domain`.
    """

    name: str
    state: Annotated[str, one_of(PartState)]
    needed: bool
    minimum: Count
    exist: Count
    placed: Count
    bound: Count
    running: Count
    lacks: Count
    required: str | None
    preferred: str | None
    level: str | None
    domain: str | None
    reason: ReasonCode | None
    parts: tuple[PartRow, ...]


class Explanation(ApiDocument, frozen=True):
    """How one gang stands; `parts` is null of one that has none.

    One that is `hypothetical` does not exist: it was only asked about.
    """

    namespace: str
    name: str
    api: str
    managed: bool
    hypothetical: bool
    phase: Phase
    min_member: int
    reason: WaitReason | None
    placement: PredictedPlacement | None
    headline: str
    next_better: FasterPlacement | None
    expected_start: ExpectedStart | None
    start_unknown: str | None
    starts_after: Time | None
    queue: QueuePosition | None
    waterfall: tuple[NodeWaterfall, ...]
    nearest_miss: NearestDomain | None
    holders: tuple[HolderRow, ...]
    quota: QuotaStanding | None
    choice: PlacementChoice | None
    suggestions: tuple[SuggestedChange, ...] | None
    remarks: tuple[str, ...]
    levels: LevelNames
    parts: PartRow | None
    pods: tuple[MemberRow, ...]


class WhatIfExplanation(Explanation, frozen=True):
    """What would become of a gang that is not submitted, and what was assumed about it."""

    would_start: bool
    assumptions: tuple[str, ...]


class WhatIfDocument(ApiDocument, frozen=True):
    """What would become of each gang of a question, evaluated by itself.

    `passed_over` names the objects that make no pods, of which nothing is said.
    """

    gangs: tuple[WhatIfExplanation, ...]
    passed_over: tuple[str, ...] = ()


class MoveRow(ApiDocument, frozen=True):
    """One gang that moves: how many of its pods leave which nodes, and where they would go."""

    gang: str
    pods: Count
    origins: tuple[str, ...] = field(name="from")
    targets: tuple[str, ...] = field(name="to")


class DefragmentationDocument(ApiDocument, frozen=True):
    """Which moves of preemptible gangs make a waiting gang fit, or why none do."""

    fits: bool
    moves: tuple[MoveRow, ...]
    reason: str


class QuotaUse(ApiDocument, frozen=True):
    """What a Queue has of one resource in one flavor, its children included (milli-CPU, bytes, counts).

    `borrowed` is what is used above `nominal`, `lent` what others use of it, `reserved` what is
    promised to pods that are not bound yet.
    """

    name: str
    resource: str
    nominal: Count
    used: Count
    borrowed: Count
    lent: Count
    reserved: Count = 0


class PayerUse(ApiDocument, frozen=True):
    """What a user or a group (`kind`) runs in a Queue that limits it, and in those below; null: any number."""

    kind: str
    name: str
    gpus: Count
    gangs: Count
    most_gpus: Count | None
    most_gangs: Count | None


class QueueRow(ApiDocument, frozen=True):
    """How a Queue stands.

    An inactive Queue starts nothing; `reason` (one word) and `message` say why. An active one has a message if
    something is wrong with it all the same. `share` is the largest of its resources' shares, weighed: the order of
    Queues goes by it. Gangs of children are not counted. `pending_since` is when the oldest that waits was created.
    `running` is what those run that use most, of users and of groups, where the Queue limits what one may run.
    """

    name: str
    parent: str
    active: bool
    reason: str
    message: str
    share: float
    pending_gangs: Count
    admitted_gangs: Count
    flavors: tuple[QuotaUse, ...]
    pending_since: Time | None = None
    running: tuple[PayerUse, ...] = ()


class QueuesDocument(ApiDocument, frozen=True):
    """How every Queue stands, in order of their names."""

    queues: tuple[QueueRow, ...]


class NodeRequirement(ApiDocument, frozen=True):
    """One requirement of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...]


class NodeTerm(ApiDocument, frozen=True):
    """One term of the required node affinity."""

    match_expressions: tuple[NodeRequirement, ...]
    match_fields: tuple[NodeRequirement, ...]


class PodSetDemand(ApiDocument, frozen=True):
    """Pods of one shape: how many, what each asks for, and which nodes it could go to.

    `node_selector_terms` is null without a required affinity; an empty list admits no node.
    """

    count: Count
    requests: Quantities
    node_selector: dict[str, str]
    node_selector_terms: tuple[NodeTerm, ...] | None
    tolerations: tuple[dict[str, str], ...]


class DemandRow(ApiDocument, frozen=True):
    """What one gang lacks to start: pods without a place that belong together, in one domain of `level` if named."""

    namespace: str
    name: str
    api: str
    uid: str
    reason: ReasonCode
    since: Time
    pods: Count
    level: str | None
    pod_sets: tuple[PodSetDemand, ...]


class DemandDocument(ApiDocument, frozen=True):
    """What waiting gangs lack that more nodes would give them, the oldest gang first."""

    gangs: tuple[DemandRow, ...]


class DecisionRow(ApiDocument, frozen=True):
    """One thing that was decided, or that people were told.

    `seq` grows by one from row to row, from 1 on. `gang` is namespace/name, "" where none is concerned; `about` the
    object that it is about: a pod's namespace/name, or the gang's. `decision` is the name that a reservation has in the
    log, `members` how many pods it concerns. `reason` is one word, `message` a sentence. `waited_seconds` is, for a
    start, the time since the gang was first seen.
    """

    seq: Count
    time: Time
    kind: Annotated[str, one_of(DecisionKind)]
    gang: str
    about: str
    decision: str = ""
    members: Count = 0
    reason: str = ""
    message: str = ""
    warning: bool = False
    waited_seconds: float | None = None
