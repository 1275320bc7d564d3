"""Slim structs of the objects by which a site describes its network and its hardware.

All of them belong to other projects, and none need be installed. Same rules as in `extender.wire.kubernetes`.
"""

from __future__ import annotations

from msgspec import Struct

from extender.wire.kubernetes import Int64, ObjectMeta, Requirement


class TopologyLevel(Struct, gc=False, frozen=True, rename="camel"):
    """One level of a Topology: the node label whose value names a node's domain."""

    node_label: str | None = None


class TopologySpec(Struct, gc=False, frozen=True):
    """Spec of a Topology; the outermost level first."""

    levels: list[TopologyLevel] | None = None


class Topology(Struct, gc=False, frozen=True):
    """A Topology of Kueue (`kueue.x-k8s.io`) or KAI (`kai.scheduler/v1alpha1`): both have the same form."""

    metadata: ObjectMeta | None = None
    spec: TopologySpec | None = None


class NetworkLayer(Struct, gc=False, frozen=True, rename="camel"):
    """One layer of a ClusterNetworkTopology."""

    topology_layer: str | None = None
    parent_topology_layer: str | None = None
    label_key: list[str] | None = None


class NetworkTopologySpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a ClusterNetworkTopology: layers in any order, each naming its parent."""

    network_topology_spec: list[NetworkLayer] | None = None


class NetworkTopology(Struct, gc=False, frozen=True):
    """A `scheduling.koordinator.sh/v1alpha1` ClusterNetworkTopology."""

    metadata: ObjectMeta | None = None
    spec: NetworkTopologySpec | None = None


class ExactMatch(Struct, gc=False, frozen=True):
    """A member of a HyperNode by its name."""

    name: str | None = None


class RegexMatch(Struct, gc=False, frozen=True):
    """Members of a HyperNode by a pattern, in Go's syntax, that is found anywhere in a node's name."""

    pattern: str | None = None


class LabelSelector(Struct, gc=False, frozen=True, rename="camel"):
    """A metav1.LabelSelector; all of it must hold."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class MemberSelector(Struct, gc=False, frozen=True, rename="camel"):
    """Which members: exactly one of the three."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Struct, gc=False, frozen=True):
    """Members of a HyperNode; `type` is Node or HyperNode."""

    type: str | None = None
    selector: MemberSelector | None = None


class HyperNodeSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a HyperNode; its first versions wrote `tier` as a string."""

    tier: Int64 | str | None = None
    tier_name: str | None = None
    members: list[HyperNodeMember] | None = None


class HyperNode(Struct, gc=False, frozen=True):
    """A `topology.volcano.sh/v1alpha1` HyperNode: a performance domain of the network."""

    metadata: ObjectMeta | None = None
    spec: HyperNodeSpec | None = None


class Device(Struct, gc=False, frozen=True):
    """A `scheduling.koordinator.sh/v1alpha1` Device: the devices of the node of that name.

    What Muster reads of it stands in an annotation.
    """

    metadata: ObjectMeta | None = None


class ConfigMap(Struct, gc=False, frozen=True):
    """A ConfigMap."""

    metadata: ObjectMeta | None = None
    data: dict[str, str] | None = None
