"""Pods and pod templates as the API has them, taints and tolerations. Same rules as in `extender.objects.meta`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import Struct

from extender.objects.meta import Affinity, Decoder, Int32, Int64, ObjectMeta, ResourceList
from extender.objects.text import parse_integer


class TolerationObject(Struct, gc=False, frozen=True, rename="camel"):
    """A toleration as written in the pod."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: Int64 | None = None


class TaintObject(Struct, gc=False, frozen=True):
    """A node taint."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


#: Taints by which a node is announced to go, and what that means. A pod that tolerates one may stay; a gang that comes
#: now would be gone again before it has done anything. Sources: kubernetes/autoscaler cluster-autoscaler/utils/taints;
#: kubernetes-sigs/karpenter pkg/apis/v1/taints.go, v1beta1 before; k8s.io/api/core/v1 TaintNodeOutOfService;
#: k8s.io/cloud-provider/api TaintNodeShutdown; aws/aws-node-termination-handler pkg/node/node.go; GKE's
#: maintenance-handler of accelerator nodes; Azure's documentation of node auto-drain, and its release notes for the
#: taint's former name.
DOOM = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler removes it",
    "karpenter.sh/disrupted": "Karpenter removes it",
    "karpenter.sh/disruption": "Karpenter removes it",
    "node.kubernetes.io/out-of-service": "it is out of service",
    "node.cloudprovider.kubernetes.io/shutdown": "its machine is shut down",
    "aws-node-termination-handler/spot-itn": "its spot instance is taken back",
    "aws-node-termination-handler/scheduled-maintenance": "its instance is due for maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination": "its instance is terminated",
    "aws-node-termination-handler/rebalance-recommendation": "its spot instance is likely to be taken back",
    "cloud.google.com/impending-node-termination": "its machine is terminated",
    "remediator.kubernetes.azure.com/unschedulable": "the cloud drains its machine",
    "remediator.aks.microsoft.com/unschedulable": "the cloud drains its machine",  # codespell:ignore aks
}

#: What a node is taken to be tainted with that counts as lost, and why in the taint's value; no API server has it.
#: Source: extender/cluster/nodehealth.py.
LOST = "muster.dev/lost"

#: Key of the taint by which people have a node drained: `muster drain node/NAME` sets it.
DRAIN = "muster.dev/drain"

#: Effects that keep a new pod away; PreferNoSchedule only lowers a score. Source: TaintToleration's Filter.
_HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that keeps pods off a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's permission to run on tainted nodes.

    An empty key stands for every key, an empty effect for every effect, an empty operator for `Equal`; `Lt` and `Gt`
    compare integers (KEP-5471). One that is `bounded` ends some time after the taint was added (`tolerationSeconds`).
    Source: k8s.io/api/core/v1 Toleration.ToleratesTaint.
    """

    key: str
    operator: str
    value: str
    effect: str
    bounded: bool = False

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether this toleration covers `taint`."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case "Lt" | "Gt":
                return self._compares(taint.value)
            case _:
                return False

    def _compares(self, value: str) -> bool:
        """Compare as integers; what is no integer is not tolerated."""
        taint, bound = parse_integer(value), parse_integer(self.value)
        if taint is None or bound is None:
            return False
        return taint < bound if self.operator == "Lt" else taint > bound


def read_taints(taints: list[TaintObject] | None) -> tuple[Taint, ...]:
    """Read the taints that keep pods away; the others are left out."""
    return tuple(
        Taint(key=t.key or "", value=t.value or "", effect=t.effect or "")
        for t in taints or ()
        if t.effect in _HARD_EFFECTS
    )


def read_soft_taints(taints: list[TaintObject] | None) -> tuple[Taint, ...]:
    """Read the taints that only make a node the last to be used."""
    return tuple(Taint(t.key or "", t.value or "", t.effect) for t in taints or () if t.effect == "PreferNoSchedule")


def read_tolerations(tolerations: list[TolerationObject] | None) -> tuple[Toleration, ...]:
    """Read a pod's tolerations."""
    return tuple(
        Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "", t.toleration_seconds is not None)
        for t in tolerations or ()
    )


def announcement(taints: Iterable[Taint]) -> str:
    """Return what the first of the taints that announce a node's end says of it, "" if none does."""
    for taint in taints:
        if taint.key == LOST:
            return f"it counts as lost: {taint.value}"
        if taint.key in DOOM:
            return f"{DOOM[taint.key]} (taint {taint.key})"
    return ""


def first_untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first taint that no toleration covers, or None if the pod may go there."""
    for taint in taints:
        if not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None


class ContainerClaimObject(Struct, gc=False, frozen=True):
    """A claim that a container uses, by its name in the pod."""

    name: str | None = None
    request: str | None = None


class Resources(Struct, gc=False, frozen=True):
    """Resource requests and limits of a container or a pod, and the claims that a container uses."""

    requests: ResourceList | None = None
    limits: ResourceList | None = None
    claims: list[ContainerClaimObject] | None = None


class Container(Struct, gc=False, frozen=True, rename="camel"):
    """A container or init container; `restart_policy` Always on an init container makes it a sidecar."""

    name: str | None = None
    resources: Resources | None = None
    restart_policy: str | None = None


class SchedulingGate(Struct, gc=False, frozen=True):
    """A scheduling gate; any gate keeps the pod from being scheduled."""

    name: str | None = None


class SchedulingGroup(Struct, gc=False, frozen=True, rename="camel"):
    """The native reference from a pod to its PodGroup (Kubernetes 1.36 and later)."""

    pod_group_name: str | None = None


class PodClaimObject(Struct, gc=False, frozen=True, rename="camel"):
    """A ResourceClaim that a pod needs: by its name, or to be made from a template."""

    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpecFields(Struct, gc=False, frozen=True, rename="camel"):
    """What each pod is asked for, whichever others are like it."""

    node_name: str | None = None
    scheduler_name: str | None = None
    priority: Int32 | None = None
    preemption_policy: str | None = None
    active_deadline_seconds: Int64 | None = None


class PodSpec(PodSpecFields, gc=False, frozen=True, rename="camel"):
    """The part of a pod's spec that decides where it may run."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    resources: Resources | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[TolerationObject] | None = None
    priority_class_name: str | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: SchedulingGroup | None = None
    resource_claims: list[PodClaimObject] | None = None


class PodCondition(Struct, gc=False, frozen=True, rename="camel"):
    """A pod condition; PodScheduled carries kube-scheduler's own reason."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class ContainerStatus(Struct, gc=False, frozen=True, rename="camel"):
    """What the kubelet granted and configured, which can exceed the spec while a resize is under way."""

    name: str | None = None
    allocated_resources: ResourceList | None = None
    resources: Resources | None = None


class PodClaimStatusObject(Struct, gc=False, frozen=True, rename="camel"):
    """The name of a ResourceClaim that was made for the pod, None where none is needed."""

    name: str | None = None
    resource_claim_name: str | None = None


class ExtendedRequestObject(Struct, gc=False, frozen=True, rename="camel"):
    """A request of the claim for extended resources, and what it stands for."""

    container_name: str | None = None
    resource_name: str | None = None
    request_name: str | None = None


class ExtendedClaimStatusObject(Struct, gc=False, frozen=True, rename="camel"):
    """The ResourceClaim that kube-scheduler made for a pod's extended resources."""

    request_mappings: list[ExtendedRequestObject] | None = None
    resource_claim_name: str | None = None


class PodStatusFields(Struct, gc=False, frozen=True, rename="camel"):
    """How far a pod has come."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[PodCondition] | None = None
    resource_claim_statuses: list[PodClaimStatusObject] | None = None
    extended_resource_claim_status: ExtendedClaimStatusObject | None = None


class PodStatus(PodStatusFields, gc=False, frozen=True, rename="camel"):
    """The part of a pod's status that decides what it holds; `resources` are those of the pod as a whole."""

    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: ResourceList | None = None
    resources: Resources | None = None


class PodObject(Struct, gc=False, frozen=True):
    """A pod."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


decode_pod = Decoder(PodObject)


class PodTemplate(Struct, gc=False, frozen=True):
    """A PodTemplateSpec."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
