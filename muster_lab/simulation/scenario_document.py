"""The grammar of what a scenario file says in its own short form: keys, types and bounds.

Head, nodes and gangs have a short form; objects of Kubernetes' API are read by `scenario_objects`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from extender.objects.requests import QuantityError, amount
from extender.objects.resourceclaim import MOST_DEVICES
from extender.settings import TopologyLevel
from muster_lab.simulation.notation import DurationError, Template, TemplateError, parse_duration, parse_template
from muster_lab.simulation.scenario import GangSource, PlacedState, ProvisioningClass

#: The default of `until`: a day.
DEFAULT_UNTIL_SECONDS = 86_400.0

#: Upper bound of `count` and `replicas`: far above what one control plane carries, and still soon refused or created.
_MOST = 100_000
_INT32 = 2**31 - 1
_LONGEST_LABEL = 63
_LONGEST_NAME = 253
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NATIVE_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def _refuse(message: str) -> PydanticCustomError:
    """Return the error for a value that names itself in `message`."""
    return PydanticCustomError("scenario", "{message}", {"message": message})


def _name(longest: int) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not isinstance(value, str) or _NAME.fullmatch(value) is None:
            raise _refuse(f"'{value}' is not a name: lower-case letters, digits, '-' and '.', quoted if it is a number")
        if len(value) > longest:
            raise _refuse(f"'{value}' is longer than {longest} characters")
        return value

    return check


def _whole(least: int, most: int) -> Callable[[object], int]:
    """Return the check for whole numbers between two bounds."""

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _refuse(f"'{value}' is not a whole number")
        if value < 0 <= least:
            raise _refuse(f"'{value}' is negative")
        if not least <= value <= most:
            raise _refuse(f"'{value}' is not between {least} and {most}")
        return value

    return check


def _duration(value: object) -> float:
    try:
        return parse_duration(value)
    except DurationError as error:
        raise _refuse(str(error)) from error


def _price(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(f"'{value}' is not a number")
    if not 0 <= value < float("inf"):
        raise _refuse(f"'{value}' is {'negative' if value < 0 else 'not a finite number'}")
    return float(value)


def _quantity(value: object) -> str:
    """Check a quantity by itself; what only its resource's name tells is checked with the whole."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _refuse(f"'{value}' is not a quantity (examples: 8, 500m, 64Gi)")
    text = str(value)
    try:
        amount("", text)
    except QuantityError as error:
        message = str(error)
        if message.endswith("is negative"):
            message = f"'{text}' is negative"
        elif message.endswith("2^63 - 1"):
            message = f"'{text}' exceeds 2^63 - 1"
        raise _refuse(message) from error
    return text


def _resource(value: object) -> str:
    """Check the name of a resource."""
    if not isinstance(value, str) or not (
        value in _NATIVE_RESOURCES or value.startswith("hugepages-") or re.fullmatch(r"[^/\s]+/[^/\s]+", value)
    ):
        raise _refuse(f"'{value}' is no resource: cpu, memory, ephemeral-storage, pods, hugepages-SIZE or DOMAIN/NAME")
    return value


def _template(value: object) -> Template:
    if not isinstance(value, str):
        raise _refuse(f"'{value}' is not a text, such as \"rack-{{index//4}}\"")
    try:
        return parse_template(value)
    except TemplateError as error:
        raise _refuse(str(error)) from error


Name = Annotated[str, BeforeValidator(_name(_LONGEST_NAME))]
LabelName = Annotated[str, BeforeValidator(_name(_LONGEST_LABEL))]
Count = Annotated[int, BeforeValidator(_whole(1, _MOST))]
Whole = Annotated[int, BeforeValidator(_whole(0, _INT32))]
Duration = Annotated[float, BeforeValidator(_duration)]
Price = Annotated[float, BeforeValidator(_price)]
Priority = Annotated[int, BeforeValidator(_whole(-_INT32, _INT32))]
Quantity = Annotated[str, BeforeValidator(_quantity)]
Resources = dict[Annotated[str, BeforeValidator(_resource)], Quantity]
Templates = dict[str, Annotated[InstanceOf[Template], BeforeValidator(_template)]]


class Document(BaseModel):
    """A mapping whose keys are all known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)


class ObjectNameDocument(Document):
    """The name of an object of Kubernetes' API."""

    name: Name


class ResourceNameDocument(Document):
    """The name of a resource."""

    name: Annotated[str, BeforeValidator(_resource)]


class TaintDocument(Document):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class ClaimedDevicesDocument(Document):
    """Equal devices of a class that a pod claims, of any product or of one."""

    device_class: LabelName = Field(alias="class")
    count: Annotated[int, BeforeValidator(_whole(1, MOST_DEVICES))] = 1
    product: str = ""


class NodeDevicesDocument(Document):
    """Equal devices of a class that a node has; their driver is called as the class is."""

    device_class: LabelName = Field(alias="class")
    count: Count = 1
    product: str = ""
    memory: Quantity | None = None


class PodClaimDocument(Document):
    """A claim that pods need: one that they share, or one that is made for each from a template."""

    name: LabelName
    resource_claim_name: Name | None = None
    resource_claim_template_name: Name | None = None

    @model_validator(mode="after")
    def _one(self) -> PodClaimDocument:
        if (self.resource_claim_name is None) == (self.resource_claim_template_name is None):
            raise _refuse("exactly one of resourceClaimName and resourceClaimTemplateName is needed")
        return self


class NodeTemplateDocument(Document):
    """What equal nodes are."""

    name: Name
    allocatable: Resources
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    labels_from: Templates = Field(default_factory=dict)
    annotations_from: Templates = Field(default_factory=dict)
    taints: list[TaintDocument] = Field(default_factory=list)
    node_resource_topology: Any = None


class NodeDocument(NodeTemplateDocument):
    """A node, or `count` equal ones."""

    count: Count = 1
    unschedulable: bool = False
    devices: list[NodeDevicesDocument] = Field(default_factory=list)


class NodeGroupDocument(NodeTemplateDocument):
    """Nodes that an autoscaler makes and removes: `min` of them are there in any case."""

    max: Count
    min: Annotated[int, BeforeValidator(_whole(0, _MOST))] = 0
    ready_after: Duration = 0.0
    remove_after: Duration = 600.0
    consolidate: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> NodeGroupDocument:
        if self.min > self.max:
            raise _refuse(f"min {self.min} is above max {self.max}")
        return self


class NodeFailureDocument(Document):
    """A node that does not answer for some time, or is gone."""

    node: Name
    at: Duration
    back: Duration | None = None
    gone: bool = False

    @model_validator(mode="after")
    def _later(self) -> NodeFailureDocument:
        if self.back is not None and self.back <= self.at:
            raise _refuse(f"node '{self.node}' is back before it fails: back is to be later than at")
        return self


class RoleDocument(Document):
    """A role: members that differ from the others; without requests of its own it has the gang's."""

    name: LabelName
    replicas: Count = 1
    requests: Resources | None = None
    devices: list[ClaimedDevicesDocument] | None = None
    resource_claims: list[PodClaimDocument] | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class TolerationDocument(Document):
    """A toleration of a gang's pods."""

    key: str = ""
    operator: Literal["Equal", "Exists", "Lt", "Gt"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


#: The keys of a `StandingDocument`, in its order.
STANDING = ("node", "state", "runningFor", "terminating")


class StandingDocument(Document):
    """How a pod stands that is on a node already when it arrives."""

    node: Name
    state: Annotated[PlacedState, Field(strict=False)] = PlacedState.RUNNING
    running_for: Duration | None = None
    terminating: Duration | None = None

    @model_validator(mode="after")
    def _running(self) -> StandingDocument:
        said = {"runningFor": self.running_for, "terminating": self.terminating}
        key = next((key for key, value in said.items() if value is not None), None)
        if key is not None and self.state is not PlacedState.RUNNING:
            raise _refuse(f"{key} is said of a pod that is {self.state}: it is about one that is Running")
        if self.terminating == 0:
            raise _refuse("a pod that is gone after 0 seconds is not there: leave it out")
        return self


class PlacedDocument(StandingDocument):
    """A member that is on a node already when its gang arrives."""

    name: Name
    annotations: dict[str, str] = Field(default_factory=dict)


class DisruptionBudgetDocument(Document):
    """A gang's PodDisruptionBudget: one of its two bounds."""

    min_available: Whole | None = None
    max_unavailable: Whole | None = None

    @model_validator(mode="after")
    def _one(self) -> DisruptionBudgetDocument:
        if (self.min_available is None) == (self.max_unavailable is None):
            raise _refuse("exactly one of minAvailable and maxUnavailable is needed")
        return self


class WorkDocument(Document):
    """What is said of a gang and of a pod without one: what its pods ask for, and how long it works."""

    name: LabelName
    namespace: LabelName = "default"
    requests: Resources = Field(default_factory=dict)
    devices: list[ClaimedDevicesDocument] = Field(default_factory=list)
    resource_claims: list[PodClaimDocument] = Field(default_factory=list)
    queue: Name | None = None
    priority: Priority | None = None
    priority_class_name: Name | None = None
    preemptible: bool | None = None
    arrival: Duration = 0.0
    age: Duration = 0.0
    rendezvous: Duration = 0.0
    duration: Duration | None = None
    expected_duration: Duration | None = None
    declare_duration: bool | None = None
    checkpoint_interval: Duration | None = None
    termination_grace_period: Duration = 0.0
    annotations: dict[str, str] = Field(default_factory=dict)
    guaranteed: bool = False
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: list[TolerationDocument] = Field(default_factory=list)


class ScaleDocument(Document):
    """How many pods a gang has from a time on, or how many of a role."""

    at: Duration
    replicas: Annotated[int, BeforeValidator(_whole(0, _MOST))]
    role: LabelName | None = None


class GangDocument(WorkDocument):
    """A gang, its pods, and how long it works."""

    min_member: Count | None = None
    replicas: Count | None = None
    roles: list[RoleDocument] = Field(default_factory=list)
    source: Annotated[GangSource, Field(strict=False)] = GangSource.COSCHEDULING
    pod_group_spec: dict[str, Any] = Field(default_factory=dict)
    disruption_budget: DisruptionBudgetDocument | None = None
    below_minimum: Literal["evict", "repair", "ignore"] | None = None
    pod_annotations: dict[str, str] = Field(default_factory=dict)
    pods: list[PlacedDocument] = Field(default_factory=list)
    scale: list[ScaleDocument] = Field(default_factory=list)
    elastic: bool = False

    @model_validator(mode="after")
    def _grouped(self) -> GangDocument:
        if self.source is GangSource.POD:
            raise _refuse("'pod' is no source of a gang: pods without one are listed under pods of the scenario")
        return self


class SinglePodDocument(WorkDocument):
    """A pod without a gang, or `count` equal ones; with a `node` it is there already."""

    count: Count = 1
    node: Any = None
    state: Any = None
    running_for: Any = None
    terminating: Any = None

    @property
    def standing(self) -> dict[str, Any]:
        """Return what a `StandingDocument` is read of."""
        said = (self.node, self.state, self.running_for, self.terminating)
        return {key: value for key, value in zip(STANDING, said, strict=True) if value is not None}


class TopologyDocument(Document):
    """The tiers of the network, outermost first."""

    levels: list[TopologyLevel]


class NamespaceDocument(Document):
    """A namespace that has labels."""

    name: LabelName
    labels: dict[str, str] = Field(default_factory=dict)


class ScenarioDocument(Document):
    """A scenario file. The items of its lists are read one by one, so that a mistake in one hides none in another."""

    nodes: list[Any]
    gangs: list[Any]
    pods: list[Any] = Field(default_factory=list)
    node_failures: list[Any] = Field(default_factory=list)
    node_groups: list[Any] = Field(default_factory=list)
    provisioning_class: Annotated[ProvisioningClass | None, Field(strict=False)] = None
    provisioning_parameters: dict[str, str] = Field(default_factory=dict)
    topology: TopologyDocument | None = None
    node_resource_topology: list[Any] = Field(default_factory=list)
    hyper_nodes: list[Any] = Field(default_factory=list)
    devices: list[Any] = Field(default_factory=list)
    device_classes: list[Any] = Field(default_factory=list)
    resource_slices: list[Any] = Field(default_factory=list)
    resource_claim_templates: list[Any] = Field(default_factory=list)
    resource_claims: list[Any] = Field(default_factory=list)
    calibration: list[Any] = Field(default_factory=list)
    queues: list[Any] = Field(default_factory=list)
    namespaces: list[Any] = Field(default_factory=list)
    priority_classes: dict[Name, Priority] = Field(default_factory=dict)
    declare_duration: bool = False
    until: Duration = DEFAULT_UNTIL_SECONDS
    gpu_hour_price: Price = 0.0
