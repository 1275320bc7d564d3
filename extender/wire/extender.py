"""Structs of the kube-scheduler HTTP extender protocol (k8s.io/kube-scheduler/extender/v1).

The Go types have no JSON tags, so the wire names are Go field names. An absent pointer arrives as `null`; so can every
slice and map. Answers follow the same names; failures that Muster knows of are HTTP 200 with `Error`, because
kube-scheduler throws the body of any other status away.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from extender.wire.kubernetes import Int64, Pod

#: Highest score an extender may give. Source: extender/v1 MaxExtenderPriority.
MAX_EXTENDER_PRIORITY = 10


class NodeList(Struct, gc=False, frozen=True):
    """A NodeList whose items are echoed back byte for byte."""

    items: list[Raw] | None = None


class ExtenderArgs(Struct, gc=False, frozen=True, rename="pascal"):
    """What filter and prioritize are asked; `node_names` with nodeCacheCapable, else `nodes`."""

    pod: Pod | None = None
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class PodInQuestionMeta(Struct, gc=False, frozen=True):
    """Which pod is asked about."""

    uid: str | None = None


class PodInQuestionStatus(Struct, gc=False, frozen=True, rename="camel"):
    """What kube-scheduler itself does to a pod that it asks about."""

    nominated_node_name: str | None = None


class PodInQuestion(Struct, gc=False, frozen=True):
    """What of a pod is news to one who watches pods: which it is, and its nomination as kube-scheduler sees it."""

    metadata: PodInQuestionMeta | None = None
    status: PodInQuestionStatus | None = None


class ExtenderQuestion(Struct, gc=False, frozen=True, rename="pascal"):
    """ExtenderArgs without what a watch has told of the pod before: what is to be read where the pod is known."""

    pod: PodInQuestion | None = None
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class FilterResult(Struct, gc=False, frozen=True, rename="pascal"):
    """What filter answers."""

    node_names: list[str] | None = None
    nodes: NodeList | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(Struct, gc=False, frozen=True, rename="pascal"):
    """One node's score, 0 to MAX_EXTENDER_PRIORITY."""

    host: str
    score: Int64


class BindingArgs(
    Struct,
    gc=False,
    frozen=True,
    rename={"pod_name": "PodName", "pod_namespace": "PodNamespace", "pod_uid": "PodUID", "node": "Node"},
):
    """What bind is asked."""

    pod_name: str | None = None
    pod_namespace: str | None = None
    pod_uid: str | None = None
    node: str | None = None


class BindingResult(Struct, gc=False, frozen=True, rename="pascal"):
    """What bind answers; an empty error means bound."""

    error: str = ""


class MetaPod(Struct, gc=False, frozen=True, rename={"uid": "UID"}):
    """A victim, by UID alone."""

    uid: str | None = None


class MetaVictims(Struct, gc=False, frozen=True, rename={"pods": "Pods", "num_pdb_violations": "NumPDBViolations"}):
    """The victims of one candidate node, by UID."""

    pods: list[MetaPod | None] | None = None
    num_pdb_violations: Int64 | None = None


class Victims(Struct, gc=False, frozen=True, rename={"pods": "Pods", "num_pdb_violations": "NumPDBViolations"}):
    """The victims of one candidate node, as whole pods (nodeCacheCapable false)."""

    pods: list[Pod | None] | None = None
    num_pdb_violations: Int64 | None = None


class PreemptionArgs(Struct, gc=False, frozen=True, rename="pascal"):
    """What preempt is asked."""

    pod: Pod | None = None
    node_name_to_victims: dict[str, Victims | None] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims | None] | None = None


class PreemptionResult(Struct, gc=False, frozen=True, rename="pascal"):
    """What preempt answers; nodes left out are no candidates any more."""

    node_name_to_meta_victims: dict[str, MetaVictims]
