"""What a simulation starts from: nodes, and gangs that arrive over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from extender.settings import TopologyLevel
from muster_lab.simulation.objects import Json


class PlacedState(StrEnum):
    """The phase of a member that is on a node already when its gang arrives."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class GangSource(StrEnum):
    """By what pods are a gang: a PodGroup in one of three APIs, or nothing; then each pod is one of its own."""

    COSCHEDULING = "coscheduling"
    VOLCANO = "volcano"
    NATIVE = "native"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class ScenarioNode:
    """A node. `allocatable` and `taints` are as Kubernetes writes them: quantities as text, taints as JSON."""

    name: str
    allocatable: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class ScenarioMember:
    """A pod of a gang; `role` is empty in a gang without roles. `requests` are quantities as text.

    `claims` are what the pod's spec says under `resourceClaims`.
    """

    name: str
    requests: Mapping[str, str]
    role: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class ScenarioPlacement:
    """Where a member is already when its gang arrives, and what its pod is annotated with then.

    It has been running for `running_for` seconds. `terminating` is in how many seconds it will be gone, None for a pod
    that is not being deleted.
    """

    node: str
    state: PlacedState
    annotations: Mapping[str, str] = field(default_factory=dict)
    running_for: float = 0.0
    terminating: float | None = None


@dataclass(frozen=True, slots=True)
class DisruptionLimit:
    """What a PodDisruptionBudget says: how many pods must stay, or how many may be missing; the other one is None."""

    min_available: int | None = None
    max_unavailable: int | None = None


@dataclass(frozen=True, slots=True)
class GangScaling:
    """The owner of a gang wants other members from `at` on (seconds since the start): those with these names."""

    at: float
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class ScenarioGang:
    """A gang: what is created when, and how long it works.

    Times are in seconds: `arrival` since the start, `rendezvous` from minMember members running to the first step of
    training, `duration` of the training itself, None for one that goes on to the end, `checkpoint_interval` from one
    checkpoint to the next, None for training that is lost as a whole when it is interrupted, `grace_period` from the
    eviction of a pod to its end; `age` is how long before its arrival its objects were created. With `guaranteed` the
    limits of its pods are their requests. `priority` is the value of `priority_class` where that is not empty; `queue`
    is empty for the default one. `group_spec` is what the spec of its PodGroup says beside the minimum, as in the API
    that is its `source`. `members` are all that it ever has; `scaling` says which of them there are when. One that is
    `elastic` trains the faster the more of them run: its duration is that with minMember. A pod without a gang is a
    gang of one whose `source` is itself, and whose member has its name.
    """

    name: str
    namespace: str
    min_member: int
    members: tuple[ScenarioMember, ...]
    priority: int = 0
    arrival: float = 0.0
    rendezvous: float = 0.0
    duration: float | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    placed: Mapping[str, ScenarioPlacement] = field(default_factory=dict)
    guaranteed: bool = False
    queue: str = ""
    priority_class: str = ""
    disruption_budget: DisruptionLimit | None = None
    checkpoint_interval: float | None = None
    grace_period: int = 0
    source: GangSource = GangSource.COSCHEDULING
    group_spec: Mapping[str, Any] = field(default_factory=dict)
    age: float = 0.0
    scaling: tuple[GangScaling, ...] = ()
    elastic: bool = False

    @property
    def key(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def head_start(self) -> float:
        """Return how long minMember members have been running when it arrives (seconds)."""
        staying = [place for place in self.placed.values() if place.terminating is None]
        ended = sum(place.state is PlacedState.SUCCEEDED for place in staying)
        running = sorted((p.running_for for p in staying if p.state is PlacedState.RUNNING), reverse=True)
        needed = max(self.min_member - ended, 1)
        return running[needed - 1] if len(running) >= needed else 0.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What a scenario says of the hardware beside its nodes.

    `levels` are the network's tiers, outermost first; None leaves it to Muster to find out. The objects are JSON as an
    API server has it, each with its name: NodeResourceTopologies, HyperNodes, Devices. `calibration` holds measurements
    as the calibration's ConfigMap does.
    """

    levels: tuple[TopologyLevel, ...] | None = None
    node_topologies: tuple[Json, ...] = ()
    hyper_nodes: tuple[Json, ...] = ()
    devices: tuple[Json, ...] = ()
    calibration: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class ScenarioSharing:
    """How a scenario's gangs share its nodes.

    `queues` and `namespaces` are objects as an API server has them, a namespace being there for every gang;
    `priority_classes` are values by name. `warnings` say what is wrong among the queues, each in a line: Muster has to
    cope with it.
    """

    queues: tuple[Json, ...] = ()
    priority_classes: Mapping[str, int] = field(default_factory=dict)
    namespaces: tuple[Json, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """A node that fails `at` a time and is `back` at another, None for never (seconds since the start).

    It does not answer meanwhile, or is `gone` from the cluster.
    """

    node: str
    at: float
    back: float | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that an autoscaler makes and removes: `nodes` are all that there may be at a time.

    The first `least` are there from the start, and stay. Another one is there `ready_after` seconds after it was asked
    for, and is removed when it has been empty for `remove_after` seconds. Of a group that `consolidates` also nodes go
    whose pods have room elsewhere.
    """

    name: str
    nodes: tuple[ScenarioNode, ...]
    least: int = 0
    ready_after: float = 0.0
    remove_after: float = 600.0
    consolidates: bool = False


class ProvisioningClass(StrEnum):
    """A class of ProvisioningRequests, for which cluster-autoscaler looks for room, or makes nodes too."""

    CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
    ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


@dataclass(frozen=True, slots=True)
class Autoscaling:
    """What an autoscaler may do: the `groups` of nodes that it makes and removes.

    With a `provisioning_class` it is cluster-autoscaler, and Muster asks for nodes by ProvisioningRequests of it, with
    these `parameters`; without one it goes by pods that wait, as Karpenter does.
    """

    groups: tuple[NodeGroup, ...] = ()
    provisioning_class: ProvisioningClass | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole scenario. `until` is when it ends (seconds), `gpu_hour_price` what an hour of one GPU costs (dollars).

    `nodes` are those that are there from the start. `claimable` are the objects of Dynamic Resource Allocation that are
    there from the start, each with its kind.
    """

    nodes: tuple[ScenarioNode, ...]
    gangs: tuple[ScenarioGang, ...]
    until: float
    gpu_hour_price: float
    facts: Facts = field(default_factory=Facts)
    sharing: ScenarioSharing = field(default_factory=ScenarioSharing)
    failures: tuple[NodeFailure, ...] = ()
    claimable: tuple[tuple[str, Json], ...] = ()
    autoscaling: Autoscaling = field(default_factory=Autoscaling)
