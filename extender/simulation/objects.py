"""Kubernetes objects as the simulated API server keeps them: JSON for the wire, a domain value for whoever decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from extender.control.ports import Kind, ObjectRef
from extender.domain.node import Node, read_node
from extender.domain.pod import Pod, read_pod
from extender.domain.podgroup import PodGroup, read_coscheduling, read_native
from extender.wire.codec import (
    decode_coscheduling_pod_group,
    decode_native_pod_group,
    decode_node,
    decode_pod,
    decode_priority_class,
    encode,
)
from extender.wire.kubernetes import PriorityClass

Json: TypeAlias = dict[str, Any]
"""A Kubernetes object as plain JSON."""

Value: TypeAlias = Pod | Node | PodGroup | PriorityClass
"""What an object amounts to."""

#: apiVersion and kind of what each watch delivers.
API_VERSIONS = {
    Kind.NODE: ("v1", "Node"),
    Kind.POD: ("v1", "Pod"),
    Kind.PRIORITY_CLASS: ("scheduling.k8s.io/v1", "PriorityClass"),
    Kind.COSCHEDULING_POD_GROUP: ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    Kind.NATIVE_POD_GROUP: ("scheduling.k8s.io/v1beta1", "PodGroup"),
}
_CLUSTER_SCOPED = frozenset({Kind.NODE, Kind.PRIORITY_CLASS})

_READ: dict[Kind, Callable[[bytes], Value]] = {
    Kind.NODE: lambda body: read_node(decode_node(body)),
    Kind.POD: lambda body: read_pod(decode_pod(body)),
    Kind.PRIORITY_CLASS: decode_priority_class,
    Kind.COSCHEDULING_POD_GROUP: lambda body: read_coscheduling(decode_coscheduling_pod_group(body)),
    Kind.NATIVE_POD_GROUP: lambda body: read_native(decode_native_pod_group(body)),
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
    return Key(kind, "" if kind in _CLUSTER_SCOPED else namespace, name)
