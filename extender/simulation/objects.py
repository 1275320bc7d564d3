"""Kubernetes objects as the simulated API server keeps them: JSON for the wire, a domain value for whoever decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from extender.control.ports import Kind
from extender.domain.budget import DisruptionBudget, read_budget
from extender.domain.devices import DeviceReport, read_device
from extender.domain.hypernodes import HyperNode, read_hyper_node
from extender.domain.levelobjects import LevelList, read_network_topology, read_topology
from extender.domain.node import Node, read_node
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Pod, read_pod
from extender.domain.podgroup import PodGroup, read_coscheduling, read_native
from extender.domain.queue import Queue, read_queue
from extender.domain.volcano import read_volcano
from extender.numa.nodetopology import NodeTopology, read_node_topology
from extender.wire.api import MetadataOnly
from extender.wire.codec import (
    decode_config_map,
    decode_coscheduling_pod_group,
    decode_device,
    decode_disruption_budget,
    decode_hyper_node,
    decode_metadata,
    decode_native_pod_group,
    decode_network_topology,
    decode_node,
    decode_node_resource_topology,
    decode_pod,
    decode_priority_class,
    decode_queue,
    decode_topology,
    decode_volcano_pod_group,
    encode,
)
from extender.wire.kubernetes import PriorityClass
from extender.wire.topology import ConfigMap

Json: TypeAlias = dict[str, Any]
"""A Kubernetes object as plain JSON."""

Value: TypeAlias = (
    Pod
    | Node
    | PodGroup
    | PriorityClass
    | NodeTopology
    | HyperNode
    | LevelList
    | DeviceReport
    | ConfigMap
    | Queue
    | MetadataOnly
    | DisruptionBudget
)
"""What an object amounts to."""

#: apiVersion and kind of what each watch delivers.
API_VERSIONS = {
    Kind.NODE: ("v1", "Node"),
    Kind.POD: ("v1", "Pod"),
    Kind.PRIORITY_CLASS: ("scheduling.k8s.io/v1", "PriorityClass"),
    Kind.COSCHEDULING_POD_GROUP: ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    Kind.NATIVE_POD_GROUP: ("scheduling.k8s.io/v1beta1", "PodGroup"),
    Kind.VOLCANO_POD_GROUP: ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    Kind.NODE_TOPOLOGY: ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology"),
    Kind.HYPER_NODE: ("topology.volcano.sh/v1alpha1", "HyperNode"),
    Kind.KUEUE_TOPOLOGY: ("kueue.x-k8s.io/v1beta2", "Topology"),
    Kind.KAI_TOPOLOGY: ("kai.scheduler/v1alpha1", "Topology"),
    Kind.NETWORK_TOPOLOGY: ("scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology"),
    Kind.DEVICE: ("scheduling.koordinator.sh/v1alpha1", "Device"),
    Kind.CALIBRATION: ("v1", "ConfigMap"),
    Kind.QUEUE: ("muster.dev/v1alpha1", "Queue"),
    Kind.NAMESPACE: ("v1", "Namespace"),
    Kind.DISRUPTION_BUDGET: ("policy/v1", "PodDisruptionBudget"),
}
_NAMESPACED = frozenset(
    {
        Kind.POD,
        Kind.COSCHEDULING_POD_GROUP,
        Kind.NATIVE_POD_GROUP,
        Kind.VOLCANO_POD_GROUP,
        Kind.CALIBRATION,
        Kind.DISRUPTION_BUDGET,
    }
)

_READ: dict[Kind, Callable[[bytes], Value]] = {
    Kind.NODE: lambda body: read_node(decode_node(body)),
    Kind.POD: lambda body: read_pod(decode_pod(body)),
    Kind.PRIORITY_CLASS: decode_priority_class,
    Kind.COSCHEDULING_POD_GROUP: lambda body: read_coscheduling(decode_coscheduling_pod_group(body)),
    Kind.NATIVE_POD_GROUP: lambda body: read_native(decode_native_pod_group(body)),
    Kind.VOLCANO_POD_GROUP: lambda body: read_volcano(decode_volcano_pod_group(body)),
    Kind.NODE_TOPOLOGY: lambda body: read_node_topology(decode_node_resource_topology(body)),
    Kind.HYPER_NODE: lambda body: read_hyper_node(decode_hyper_node(body)),
    Kind.KUEUE_TOPOLOGY: lambda body: read_topology(decode_topology(body), API_VERSIONS[Kind.KUEUE_TOPOLOGY][0]),
    Kind.KAI_TOPOLOGY: lambda body: read_topology(decode_topology(body), API_VERSIONS[Kind.KAI_TOPOLOGY][0]),
    Kind.NETWORK_TOPOLOGY: lambda body: read_network_topology(decode_network_topology(body)),
    Kind.DEVICE: lambda body: read_device(decode_device(body)),
    Kind.CALIBRATION: decode_config_map,
    Kind.QUEUE: lambda body: read_queue(decode_queue(body)),
    Kind.NAMESPACE: decode_metadata,
    Kind.DISRUPTION_BUDGET: lambda body: read_budget(decode_disruption_budget(body)),
}


@dataclass(frozen=True, slots=True)
class Key:
    """The name of an object; `namespace` is empty for kinds that have none."""

    kind: Kind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of one object. It never changes: a write makes another version.

    `json` must not be mutated; `body` is the same as bytes, `value` what the domain reads from it.
    """

    key: Key
    uid: str
    json: Json
    body: bytes
    value: Value

    @property
    def pod(self) -> Pod:
        """Return the value of a pod; raise TypeError for another kind."""
        if not isinstance(self.value, Pod):
            raise TypeError(self.key)
        return self.value

    @property
    def node(self) -> Node:
        """Return the value of a node; raise TypeError for another kind."""
        if not isinstance(self.value, Node):
            raise TypeError(self.key)
        return self.value

    @property
    def ref(self) -> ObjectRef:
        """Return how an event names the object."""
        version, kind = API_VERSIONS[self.key.kind]
        return ObjectRef(version, kind, self.key.namespace, self.key.name, self.uid)


class ChangeType(StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change:
    """What one write did to one object: its version before (None: new) and after (None: gone).

    `version` is the cluster's resource version after the write.
    """

    before: Stored | None
    after: Stored | None
    version: int = 0

    @property
    def type(self) -> ChangeType:
        """Return the type of the watch event."""
        if self.before is None:
            return ChangeType.ADDED
        return ChangeType.DELETED if self.after is None else ChangeType.MODIFIED

    @property
    def object(self) -> Stored:
        """Return the newest version there is."""
        newest = self.after or self.before
        if newest is None:
            msg = "a change has a version before or after it"
            raise ValueError(msg)
        return newest


def stored(kind: Kind, json: Json) -> Stored:
    """Make a version from JSON; raise DecodeError if it does not have the kind's form."""
    metadata = json["metadata"]
    body = encode(json)
    key = key_of(kind, metadata.get("namespace", ""), metadata["name"])
    return Stored(key, metadata["uid"], json, body, _READ[kind](body))


def key_of(kind: Kind, namespace: str, name: str) -> Key:
    """Return the key of an object; cluster-scoped kinds have no namespace, whatever it says."""
    return Key(kind, namespace if kind in _NAMESPACED else "", name)
