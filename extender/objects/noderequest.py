"""Requests for nodes: ProvisioningRequests of cluster-autoscaler's API, as Muster makes them for gangs.

Source: kubernetes/autoscaler cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1 types.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec import Struct

from extender.objects.meta import ConditionObject, Decoder, Int32, ObjectMeta, read_timestamp
from extender.objects.podgroup import GroupRef
from extender.objects.text import parse_integer

#: Label of a request that Muster has made: of no other anything is read.
ASKED_BY_MUSTER: Final = "muster.dev/asks-for-nodes"
#: Annotations of a request: the gang that it is for, as API/NAME or API/NAME/UID, and the how manieth it is.
ASKED_FOR: Final = "muster.dev/asked-for"
ATTEMPT: Final = "muster.dev/attempt"

#: Annotations of pods that use what a request provides, with its name and its class; autoscalers make no other nodes
#: for them. Under the prefix of today, and the one that older autoscalers read.
_CONSUME, _CLASS = "consume-provisioning-request", "provisioning-class-name"
_PREFIXES: Final = ("autoscaling.x-k8s.io/", "cluster-autoscaler.kubernetes.io/")

#: Kinds of pods that one request may ask for.
MOST_POD_SETS: Final = 32

#: How much of what an autoscaler says is repeated (characters).
_LONGEST_DETAIL: Final = 200


class NodeRequestPhase(StrEnum):
    """How far a request has come."""

    PENDING = "pending"
    PROVISIONED = "provisioned"
    """All nodes are there, or on their way."""
    FAILED = "failed"
    """It will provide no nodes any more."""


#: Conditions that say how far a request has come, what counts first in front: one that is revoked was provisioned.
_PHASES: Final = {
    "CapacityRevoked": NodeRequestPhase.FAILED,
    "BookingExpired": NodeRequestPhase.FAILED,
    "Failed": NodeRequestPhase.FAILED,
    "Provisioned": NodeRequestPhase.PROVISIONED,
    "Accepted": NodeRequestPhase.PENDING,
}


class AskedPodSet(Struct, gc=False, frozen=True):
    """So many pods of one template."""

    count: Int32 | None = None


class ProvisioningSpec(Struct, gc=False, frozen=True, rename="camel"):
    """What is asked for."""

    pod_sets: list[AskedPodSet] | None = None
    provisioning_class_name: str | None = None


class ProvisioningStatus(Struct, gc=False, frozen=True):
    """What has come of it."""

    conditions: list[ConditionObject] | None = None


class ProvisioningRequest(Struct, gc=False, frozen=True):
    """A ProvisioningRequest."""

    metadata: ObjectMeta | None = None
    spec: ProvisioningSpec | None = None
    status: ProvisioningStatus | None = None


decode_provisioning_request = Decoder(ProvisioningRequest)


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A request for the nodes that a gang lacks, in the gang's namespace.

    `counts` are how many pods it asks for of each kind, in ascending order; `attempt` counts from 1. It came into its
    `phase` at `since` (epoch seconds); `detail` is what the autoscaler says of it, "" for nothing.
    """

    ref: GroupRef
    name: str
    uid: str
    provisioning_class: str
    counts: tuple[int, ...]
    attempt: int = 1
    phase: NodeRequestPhase = NodeRequestPhase.PENDING
    since: float = 0.0
    detail: str = ""
    deleting: bool = False

    @property
    def key(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.ref.namespace}/{self.name}"


def read_node_request(request: ProvisioningRequest) -> NodeRequest | None:
    """Read a request that Muster has made; None where it does not say for which gang."""
    meta, spec = request.metadata or ObjectMeta(), request.spec or ProvisioningSpec()
    annotations = meta.annotations or {}
    ref = _read_ref(meta.namespace or "", annotations.get(ASKED_FOR, ""))
    if ref is None:
        return None
    conditions = (request.status or ProvisioningStatus()).conditions or ()
    phase, told = _phase({each.type or "": each for each in conditions})
    since = None if told is None else read_timestamp(told.last_transition_time or "")
    return NodeRequest(
        ref,
        meta.name or "",
        meta.uid or "",
        spec.provisioning_class_name or "",
        tuple(sorted(each.count or 0 for each in spec.pod_sets or ())),
        max(parse_integer(annotations.get(ATTEMPT, "")) or 1, 1),
        phase,
        since if since is not None else read_timestamp(meta.creation_timestamp or "") or 0.0,
        "" if told is None else _in_words(told),
        deleting=meta.deletion_timestamp is not None,
    )


def _phase(conditions: dict[str, ConditionObject]) -> tuple[NodeRequestPhase, ConditionObject | None]:
    for kind, phase in _PHASES.items():
        found = conditions.get(kind)
        if found is not None and found.status == "True":
            # One that is accepted says more by why it is not provisioned yet.
            return phase, conditions.get("Provisioned", found) if phase is NodeRequestPhase.PENDING else found
    return NodeRequestPhase.PENDING, conditions.get("Provisioned")


def _in_words(told: ConditionObject) -> str:
    """Render what a condition says: `Failed (CapacityIsNotFound): no node group is large enough`."""
    negation = "" if told.status == "True" else "not "
    said = f"{negation}{told.type}"
    if told.reason and told.reason != told.type:
        said += f" ({told.reason})"
    message = " ".join((told.message or "").split())
    return f"{said}: {message}"[:_LONGEST_DETAIL] if message else said


def write_ref(ref: GroupRef) -> str:
    """Return what a request says of its gang, besides the namespace."""
    return "/".join(filter(None, (ref.api, ref.name, ref.uid)))


def _read_ref(namespace: str, text: str) -> GroupRef | None:
    parts = text.split("/")
    if not (namespace and all(parts) and len(parts) in {2, 3}):
        return None
    return GroupRef(parts[0], namespace, parts[1], *parts[2:])


def consuming(name: str, provisioning_class: str) -> dict[str, str]:
    """Return the annotations of pods that use what the request called `name` provides."""
    said = {_CONSUME: name, _CLASS: provisioning_class}
    return {f"{prefix}{key}": text for prefix in _PREFIXES for key, text in said.items()}
