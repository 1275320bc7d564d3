"""Kubernetes objects as the simulated API server keeps them: JSON for the wire, a domain value for decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from extender.control.ports import WatchedKind
from extender.control.watched import LEASE, PROVISIONING, WATCHED, Watched
from extender.objects.budget import DisruptionBudget, read_budget
from extender.objects.deviceclass import DeviceClass, read_device_class
from extender.objects.devicetaintrule import DeviceTaintRule, read_device_taint_rule
from extender.objects.meta import ObjectRef, decode_metadata, encode
from extender.objects.node import Node, read_node
from extender.objects.nodetopology import NodeTopology, read_node_topology
from extender.objects.pod import Pod
from extender.objects.queue import Queue, read_queue
from extender.objects.resourceclaim import (
    ResourceClaim,
    ResourceClaimTemplate,
    read_resource_claim,
    read_resource_claim_template,
)
from extender.objects.resourceslice import ResourceSlice, read_resource_slice
from extender.objects.seenpod import SeenPod

Json: TypeAlias = dict[str, Any]
"""A Kubernetes object as plain JSON."""

Value: TypeAlias = (
    Pod
    | Node
    | NodeTopology
    | Queue
    | DisruptionBudget
    | DeviceClass
    | ResourceSlice
    | DeviceTaintRule
    | ResourceClaim
    | ResourceClaimTemplate
    | None
)
"""What an object amounts to, of the kinds that the simulation itself goes by."""

#: The kind of the pods that a ProvisioningRequest is about. Muster writes them, and hears nothing of them.
POD_TEMPLATES: Final = Watched(
    "podtemplates",
    "PodTemplate",
    ("/api/v1/podtemplates",),
    decode_metadata,
    lambda _item, _known: iter(()),
    lambda _who, _known: iter(()),
    namespaced=True,
)

#: All that is kept, by its name.
ROWS: Final[Mapping[str, Watched[Any]]] = {row.name: row for row in (*WATCHED, LEASE, PROVISIONING, POD_TEMPLATES)}

_VALUES: Final[Mapping[str, Callable[[Any], Value]]] = {
    WatchedKind.POD: SeenPod.pod,
    WatchedKind.NODE: read_node,
    WatchedKind.NODE_TOPOLOGY: read_node_topology,
    WatchedKind.QUEUE: read_queue,
    WatchedKind.DISRUPTION_BUDGET: read_budget,
    WatchedKind.DEVICE_CLASS: read_device_class,
    WatchedKind.RESOURCE_SLICE: read_resource_slice,
    WatchedKind.DEVICE_TAINT_RULE: read_device_taint_rule,
    WatchedKind.RESOURCE_CLAIM: read_resource_claim,
    WatchedKind.RESOURCE_CLAIM_TEMPLATE: read_resource_claim_template,
}


@dataclass(frozen=True, slots=True)
class Key:
    """The name of an object; `namespace` is empty for kinds that have none."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of one object. It never changes: a write makes another version.

    `json` must not be mutated; `body` is the same as bytes, `item` the struct of its kind, `value` what that
    amounts to.
    """

    key: Key
    uid: str
    json: Json
    body: bytes
    item: Any
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
    def claim(self) -> ResourceClaim:
        """Return the value of a ResourceClaim; raise TypeError for another kind."""
        if not isinstance(self.value, ResourceClaim):
            raise TypeError(self.key)
        return self.value

    @property
    def ref(self) -> ObjectRef:
        """Return how an event names the object."""
        row = ROWS[self.key.kind]
        return ObjectRef(row.api_version, row.kind, self.key.namespace, self.key.name, self.uid)


class ChangeType(StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class ObjectChange:
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


def stored(kind: str, json: Json) -> Stored:
    """Make a version from JSON; raise DecodeError if it does not have the kind's form."""
    metadata = json["metadata"]
    body = encode(json)
    key = key_of(kind, metadata.get("namespace", ""), metadata["name"])
    item = ROWS[kind].decode(body)
    return Stored(key, metadata["uid"], json, body, item, value_of(kind, item))


def value_of(kind: str, item: object) -> Value:
    """Return what an object that was decoded amounts to, None for a kind that the simulation does not go by."""
    return _VALUES[kind](item) if kind in _VALUES else None


def kind_of(about: ObjectRef) -> str:
    """Return of which kind a referred object is, in any version of its API; raise KeyError for no known one."""
    for name, row in ROWS.items():
        if (row.kind, row.api_version.rpartition("/")[0]) == (about.kind, about.group):
            return name
    raise KeyError(about)


def key_of(kind: str, namespace: str, name: str) -> Key:
    """Return the key of an object; cluster-scoped kinds have no namespace, whatever it says."""
    return Key(kind, namespace if ROWS[kind].namespaced else "", name)
