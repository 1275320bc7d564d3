"""What can happen, and what can be asked: one frozen value for each. `Engine.apply` is the only way in for all of them.

An event holds all that a decision may depend on besides the clock, so that equal events at equal times give equal
decisions. The journal writes events by their fields: a field that is added here is recorded.

What the questions among them are answered with are values too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from extender.admission.defragment import Defragmentation
from extender.objects.budget import DisruptionBudget
from extender.objects.computedomain import ComputeDomain
from extender.objects.deviceclass import DeviceClass
from extender.objects.devices import DeviceReport
from extender.objects.devicetaintrule import DeviceTaintRule
from extender.objects.hypernodes import HyperNode
from extender.objects.levelobjects import LevelList
from extender.objects.meta import ObjectRef
from extender.objects.node import Node
from extender.objects.noderequest import NodeRequest
from extender.objects.nodetopology import NodeTopology
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.queue import Queue
from extender.objects.reason import Wait
from extender.objects.resourceclaim import ResourceClaim, ResourceClaimTemplate
from extender.objects.resourceslice import ResourceSlice
from extender.objects.workload import Suspendable


class Outcome(StrEnum):
    """How a verb call ended; the value is the metric label."""

    PASSED = "passed"  # a pod that Muster does not manage
    PINNED = "pinned"  # a member, to its planned node
    REFUSED = "refused"
    RANKED = "ranked"
    BOUND = "bound"
    VETOED = "vetoed"
    ALLOWED = "allowed"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Offered nodes that a pod may not go to, for one reason.

    `resolvable` tells kube-scheduler whether evicting others could help.
    """

    names: Sequence[str]
    text: str
    resolvable: bool = False


@dataclass(frozen=True, slots=True)
class Filtered:
    """The answer to filter: the offered nodes that the pod may go to, and why not to the others.

    Names in neither were left out without a word.
    """

    outcome: Outcome
    accepted: list[str]
    refusals: tuple[Refusal, ...] = ()
    decision: str = ""

    @property
    def text(self) -> str:
        """Return why nodes were refused, for people."""
        return "; ".join(refusal.text for refusal in self.refusals)


class BindVerdict(StrEnum):
    """What is to become of a bind call."""

    WRITE = "write"
    HOLD = "hold"
    ALREADY = "already"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Arrival:
    """The answer to bind: what to do now, why not, and the decision that this belongs to."""

    verdict: BindVerdict
    message: str = ""
    decision: str = ""


A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Event(Generic[A_co]):
    """One thing that happened or is asked; `A_co` is the type of the answer, None where nothing is asked."""

    __slots__ = ()


# What the watches tell of the cluster.


@dataclass(frozen=True, slots=True)
class PodSeen(Event[None]):
    """A pod was added or changed."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone(Event[None]):
    """A pod was deleted."""

    uid: str


@dataclass(frozen=True, slots=True)
class GroupSeen(Event[None]):
    """A PodGroup, or an object that stands for one, was added or changed."""

    group: PodGroup


@dataclass(frozen=True, slots=True)
class GroupGone(Event[None]):
    """A PodGroup was deleted."""

    ref: GroupRef
    uid: str


@dataclass(frozen=True, slots=True)
class QueueSeen(Event[None]):
    """A Queue was added or changed."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueGone(Event[None]):
    """A Queue was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class NamespaceSeen(Event[None]):
    """A namespace was added or changed."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NamespaceGone(Event[None]):
    """A namespace was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class BudgetSeen(Event[None]):
    """A PodDisruptionBudget was added or changed."""

    budget: DisruptionBudget


@dataclass(frozen=True, slots=True)
class BudgetGone(Event[None]):
    """A PodDisruptionBudget was deleted."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class PriorityClassSeen(Event[None]):
    """A PriorityClass was added or changed. It counts for pods that are read later."""

    name: str
    value: int
    global_default: bool = False


@dataclass(frozen=True, slots=True)
class PriorityClassGone(Event[None]):
    """A PriorityClass was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeSeen(Event[None]):
    """A node was added or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone(Event[None]):
    """A node was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeTopologySeen(Event[None]):
    """The NUMA zones of a node were added or changed."""

    topology: NodeTopology


@dataclass(frozen=True, slots=True)
class NodeTopologyGone(Event[None]):
    """The NUMA zones of the node called `name` were deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class HyperNodeSeen(Event[None]):
    """A HyperNode was added or changed."""

    hyper_node: HyperNode


@dataclass(frozen=True, slots=True)
class HyperNodeGone(Event[None]):
    """A HyperNode was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class LevelsSeen(Event[None]):
    """An object that lists network tiers was added or changed."""

    levels: LevelList


@dataclass(frozen=True, slots=True)
class LevelsGone(Event[None]):
    """The object of an API group that listed network tiers was deleted."""

    group: str
    name: str


@dataclass(frozen=True, slots=True)
class DeviceSeen(Event[None]):
    """A report of a node's GPUs was added or changed."""

    report: DeviceReport


@dataclass(frozen=True, slots=True)
class DeviceGone(Event[None]):
    """The report of the GPUs of the node called `name` was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class DeviceClassSeen(Event[None]):
    """A DeviceClass was added or changed."""

    device_class: DeviceClass


@dataclass(frozen=True, slots=True)
class DeviceClassGone(Event[None]):
    """The DeviceClass called `name` was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class SliceSeen(Event[None]):
    """A ResourceSlice was added or changed."""

    item: ResourceSlice


@dataclass(frozen=True, slots=True)
class SliceGone(Event[None]):
    """The ResourceSlice called `name` was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class TaintRuleSeen(Event[None]):
    """A DeviceTaintRule was added or changed."""

    rule: DeviceTaintRule


@dataclass(frozen=True, slots=True)
class TaintRuleGone(Event[None]):
    """The DeviceTaintRule called `name` was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class ClaimSeen(Event[None]):
    """A ResourceClaim was added or changed."""

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class ClaimGone(Event[None]):
    """A ResourceClaim was deleted."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ClaimTemplateSeen(Event[None]):
    """A ResourceClaimTemplate was added or changed."""

    template: ResourceClaimTemplate


@dataclass(frozen=True, slots=True)
class ClaimTemplateGone(Event[None]):
    """A ResourceClaimTemplate was deleted."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ComputeDomainSeen(Event[None]):
    """A ComputeDomain was added or changed."""

    domain: ComputeDomain


@dataclass(frozen=True, slots=True)
class ComputeDomainGone(Event[None]):
    """A ComputeDomain was deleted."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class CalibrationSeen(Event[None]):
    """The ConfigMap with measured bandwidths was added or changed."""

    about: ObjectRef
    data: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CalibrationGone(Event[None]):
    """The ConfigMap with measured bandwidths was deleted."""


@dataclass(frozen=True, slots=True)
class WorkloadSeen(Event[None]):
    """An object that names a queue, and that can be suspended, was added or changed."""

    workload: Suspendable


@dataclass(frozen=True, slots=True)
class WorkloadGone(Event[None]):
    """Such an object was deleted, or names no queue any more."""

    uid: str


@dataclass(frozen=True, slots=True)
class PartSeen(Event[None]):
    """An object that describes a gang, and that `owner` has made, was added or changed."""

    uid: str
    ref: GroupRef
    owner: str


@dataclass(frozen=True, slots=True)
class PartGone(Event[None]):
    """Such an object was deleted; pods of it may still be there."""

    uid: str


@dataclass(frozen=True, slots=True)
class NodeRequestSeen(Event[None]):
    """A request for nodes that Muster has made was added or changed."""

    request: NodeRequest


@dataclass(frozen=True, slots=True)
class NodeRequestGone(Event[None]):
    """A request for nodes was deleted."""

    uid: str


# What the controller tells: who decides, and when.


@dataclass(frozen=True, slots=True)
class EvictionSent(Event[None]):
    """The eviction of a pod is written to the API server: it cannot be taken back any more."""

    uid: str


@dataclass(frozen=True, slots=True)
class EvictionDelayed(Event[None]):
    """The API server has not evicted a pod; it is asked again, unless the eviction was withdrawn."""

    uid: str


@dataclass(frozen=True, slots=True)
class EvictionRefused(Event[None]):
    """The API server refuses to evict a pod."""

    uid: str
    why: str


#: How a wish that a pod leaves stands with the API server.
EvictionNews: TypeAlias = EvictionSent | EvictionDelayed | EvictionRefused


@dataclass(frozen=True, slots=True)
class Rebuild(Event[None]):
    """This replica decides from now on: the ledger is read back from the cluster."""


@dataclass(frozen=True, slots=True)
class StandDown(Event[None]):
    """Another replica decides from now on."""


@dataclass(frozen=True, slots=True)
class HoldOff(Event[None]):
    """No gang is placed from now on, for the reason `obstacle`; None lifts it."""

    obstacle: Wait | None


@dataclass(frozen=True, slots=True)
class Tick(Event[None]):
    """Time has passed: deadlines, pauses and vetoes may have ended."""


@dataclass(frozen=True, slots=True)
class Decide(Event[bool]):
    """Run a step of the pass, if one is under way or anything asks for one. The answer tells whether it ran."""


@dataclass(frozen=True, slots=True)
class Defragment(Event[Defragmentation]):
    """Which moves of others would make a gang fit? With `apply` they are made. Raises KeyError for an unknown gang."""

    ref: GroupRef
    apply: bool = False


# What kube-scheduler asks.


@dataclass(frozen=True, slots=True)
class Filter(Event[Filtered]):
    """Which of the offered nodes may a pod go to?"""

    pod: Pod
    names: list[str]


@dataclass(frozen=True, slots=True)
class Prioritize(Event[list[int]]):
    """How good is each offered node, from 0 to 10?"""

    pod: Pod
    names: list[str]


@dataclass(frozen=True, slots=True)
class Preempt(Event[list[str]]):
    """On which candidate nodes may victims be evicted? `victims` has the UIDs of those of each node."""

    pod: Pod
    victims: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Arrive(Event[Arrival]):
    """A bind call has come: may the Binding be written?"""

    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Leave(Event[None]):
    """A held bind call was answered without a Binding."""

    uid: str


@dataclass(frozen=True, slots=True)
class BindingFailed(Event[None]):
    """A Binding was not made. With `final` it will not be; otherwise it may yet turn out to have been made.

    `refused` tells a final answer that is not about the pod, which may be gone or another one: that of a policy, say.
    """

    uid: str
    why: str
    final: bool
    refused: bool = False
