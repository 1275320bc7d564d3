"""The grammar of what a scenario takes over as a whole from other APIs: NodeResourceTopologies, HyperNodes, Devices.

Written as their CRDs have them, and stricter: a key that no version of the CRD knows is refused. What an API server
sets itself may stand there, and is left out.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from extender.simulation.scenario_document import Document, Name, Quantity, Resources, Whole, refuse


class MetadataDocument(Document):
    """Metadata of an object without namespace."""

    name: Name
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    uid: Annotated[Any, Field(exclude=True)] = None
    resource_version: Annotated[Any, Field(exclude=True)] = None
    generation: Annotated[Any, Field(exclude=True)] = None
    creation_timestamp: Annotated[Any, Field(exclude=True)] = None
    managed_fields: Annotated[Any, Field(exclude=True)] = None
    owner_references: Annotated[Any, Field(exclude=True)] = None
    finalizers: Annotated[Any, Field(exclude=True)] = None
    self_link: Annotated[Any, Field(exclude=True)] = None


class AttributeDocument(Document):
    """A named text."""

    name: str
    value: str


class CostDocument(Document):
    """The distance from one zone to another, as in the ACPI SLIT."""

    name: str
    value: Whole


class ZoneResourceDocument(Document):
    """What a zone has of a resource; what is not given is as much as `allocatable`, which is as much as `capacity`."""

    name: str
    capacity: Quantity | None = None
    allocatable: Quantity | None = None
    available: Quantity | None = None

    @model_validator(mode="after")
    def _sized(self) -> ZoneResourceDocument:
        if self.capacity is None and self.allocatable is None:
            raise refuse(f"resource '{self.name}' has neither capacity nor allocatable")
        return self


class ZoneDocument(Document):
    """A zone: a NUMA node where its type is Node."""

    name: str
    type: str = "Node"
    parent: str | None = None
    costs: list[CostDocument] = Field(default_factory=list)
    attributes: list[AttributeDocument] = Field(default_factory=list)
    resources: list[ZoneResourceDocument] = Field(default_factory=list)


class NodeTopologyDocument(Document):
    """A NodeResourceTopology without its head: what a scenario says of several nodes that are alike."""

    topology_policies: list[str] = Field(default_factory=list)
    attributes: list[AttributeDocument] = Field(default_factory=list)
    zones: list[ZoneDocument]


class NodeResourceTopologyDocument(NodeTopologyDocument):
    """A NodeResourceTopology; its name is that of the node."""

    api_version: Literal["topology.node.k8s.io/v1alpha2"] = "topology.node.k8s.io/v1alpha2"
    kind: Literal["NodeResourceTopology"] = "NodeResourceTopology"
    metadata: MetadataDocument


class ExactMatchDocument(Document):
    """One member by its name."""

    name: Name


class RegexMatchDocument(Document):
    """Members by their names."""

    pattern: str

    @model_validator(mode="after")
    def _readable(self) -> RegexMatchDocument:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise refuse(f"'{self.pattern}' is not a regular expression: {error}") from error
        return self


class LabelExpressionDocument(Document):
    """One requirement of a label selector."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = Field(default_factory=list)


class LabelMatchDocument(Document):
    """Members by their labels."""

    match_labels: dict[str, str] = Field(default_factory=dict)
    match_expressions: list[LabelExpressionDocument] = Field(default_factory=list)


class SelectorDocument(Document):
    """Which members: one way of saying so."""

    exact_match: ExactMatchDocument | None = None
    regex_match: RegexMatchDocument | None = None
    label_match: LabelMatchDocument | None = None

    @model_validator(mode="after")
    def _one(self) -> SelectorDocument:
        if sum(way is not None for way in (self.exact_match, self.regex_match, self.label_match)) != 1:
            raise refuse("exactly one of exactMatch, regexMatch and labelMatch is needed")
        return self


class HyperNodeMemberDocument(Document):
    """Nodes, or HyperNodes of the tier below, that belong to a HyperNode."""

    type: Literal["Node", "HyperNode"]
    selector: SelectorDocument


class HyperNodeSpecDocument(Document):
    """A domain of a network tier; 1 is the nearest."""

    tier: Whole
    tier_name: str | None = None
    members: list[HyperNodeMemberDocument] = Field(default_factory=list)


class HyperNodeDocument(Document):
    """A HyperNode of Volcano."""

    api_version: Literal["topology.volcano.sh/v1alpha1"] = "topology.volcano.sh/v1alpha1"
    kind: Literal["HyperNode"] = "HyperNode"
    metadata: MetadataDocument
    spec: HyperNodeSpecDocument
    status: Annotated[Any, Field(exclude=True)] = None


class DeviceTopologyDocument(Document):
    """Where a device is attached."""

    socket_id: Annotated[int, Field(alias="socketID")] = -1
    node_id: Annotated[int, Field(alias="nodeID")] = -1
    pcie_id: Annotated[str, Field(alias="pcieID")] = ""
    bus_id: Annotated[str, Field(alias="busID")] = ""


class DeviceInfoDocument(Document):
    """One device of a node."""

    type: Literal["gpu", "rdma", "fpga", "xpu"]
    id: str = ""
    minor: Whole
    module_id: Annotated[int | None, Field(alias="moduleID")] = None
    health: bool = True
    resources: Resources = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    topology: DeviceTopologyDocument | None = None
    vf_groups: Any = None
    conditions: Any = None


class DeviceSpecDocument(Document):
    """The devices of a node."""

    devices: list[DeviceInfoDocument]


class DeviceDocument(Document):
    """A Device of Koordinator; its name is that of the node."""

    api_version: Literal["scheduling.koordinator.sh/v1alpha1"] = "scheduling.koordinator.sh/v1alpha1"
    kind: Literal["Device"] = "Device"
    metadata: MetadataDocument
    spec: DeviceSpecDocument
    status: Annotated[Any, Field(exclude=True)] = None
