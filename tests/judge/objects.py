"""What the judge reads in Kubernetes objects; written apart from Muster's own reading, so that errors do not agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from tests.judge.history import Json

_COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
_GANG_LABEL = "muster.dev/gang"
_MIN_MEMBER_ANNOTATION = "muster.dev/min-member"
_QUEUE_LABEL = "muster.dev/queue"
_JOBS = "batch"
_JOB_INDEX = "batch.kubernetes.io/job-completion-index"

_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

GroupKey: TypeAlias = tuple[str, str, str]
"""API group, namespace and name of a gang; the API group `muster.dev` is for gangs without an object."""

Amounts: TypeAlias = Mapping[str, int]
"""Resource name -> thousandths of a unit (milli-CPU, thousandths of bytes and counts), rounded up."""


@lru_cache(maxsize=4096)
def thousandths(quantity: str | float) -> int:
    """Read a quantity as thousandths of a unit, rounded up; raise ValueError for what is none."""
    text = str(quantity)
    if text[-2:] in _BINARY_SUFFIXES:
        return _scaled(text[:-2], 1000 << _BINARY_SUFFIXES[text[-2:]], 0)
    if text[-1:] in _SUFFIXES and text[-1:]:
        return _scaled(text[:-1], 1, _SUFFIXES[text[-1]] + 3)
    number, _, exponent = text.lower().partition("e")
    return _scaled(number, 1, int(exponent or 0) + 3)


def _scaled(number: str, factor: int, exponent: int) -> int:
    whole, _, fraction = number.partition(".")
    digits, exponent = int(whole + fraction) * factor, exponent - len(fraction)
    power: int = 10 ** abs(exponent)
    return digits * power if exponent >= 0 else -(-digits // power)


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that keeps pods off a node; `unschedulable` of a node's spec is one of these, too."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration; empty `key` or `effect` means any."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether the taint does not matter; an operator that is not known here tolerates."""
        if self.effect not in {"", taint.effect} or self.key not in {"", taint.key}:
            return False
        return self.operator != "Equal" or self.value == taint.value


@dataclass(frozen=True, slots=True)
class PodFact:
    """A pod as it stands.

    `picky` says that it restricts its nodes in ways that the judge does not read. `evicted` says that kube-scheduler
    has chosen it as a victim of preemption, `evicted_by_api` that somebody asked for its eviction. `queue` is what its
    label names.
    """

    uid: str
    namespace: str
    name: str
    scheduler: str
    group: GroupKey | None
    priority: int
    node: str
    nominated: str
    phase: str
    gated: bool
    deleting: bool
    evicted: bool
    evicted_by_api: bool
    queue: str
    min_member: int
    requests: Amounts
    tolerations: tuple[Toleration, ...]
    selector: Mapping[str, str]
    picky: bool

    @property
    def ended(self) -> bool:
        """Tell whether the pod holds nothing any more."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def secured(self) -> bool:
        """Tell whether minMember need not wait for the pod: it is bound to stay, or has succeeded."""
        return self.phase == "Succeeded" or (bool(self.node) and not (self.deleting or self.evicted or self.ended))

    @property
    def placeable(self) -> bool:
        """Tell whether the pod could be bound now."""
        return not (self.node or self.ended or self.deleting or self.gated)

    @property
    def contributes(self) -> bool:
        """Tell whether the pod counts towards minMember, or could."""
        return self.secured or self.placeable

    def admitted_by(self, node: NodeFact) -> bool:
        """Tell whether the node's taints and labels let the pod in."""
        if any(node.labels.get(key) != value for key, value in self.selector.items()):
            return False
        return all(any(t.tolerates(taint) for t in self.tolerations) for taint in node.taints)


@dataclass(frozen=True, slots=True)
class NodeFact:
    """A node as it stands; `taints` are those that keep pods off."""

    name: str
    uid: str
    allocatable: Amounts
    taints: tuple[Taint, ...]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupFact:
    """A PodGroup as it stands; `timeout` in seconds, None where it names none."""

    key: GroupKey
    uid: str
    min_member: int
    timeout: float | None


def read_pod(thing: Json) -> PodFact:
    """Read a Pod."""
    metadata, spec, status = thing["metadata"], thing["spec"], thing.get("status") or {}
    annotations = metadata.get("annotations") or {}
    affinity = spec.get("affinity") or {}
    return PodFact(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        scheduler=spec.get("schedulerName", "default-scheduler"),
        group=_group_of(metadata, spec),
        priority=spec.get("priority") or 0,
        node=spec.get("nodeName") or "",
        nominated=status.get("nominatedNodeName") or "",
        phase=status.get("phase") or "Pending",
        gated=bool(spec.get("schedulingGates")),
        deleting=bool(metadata.get("deletionTimestamp")),
        evicted=_is_target(status, "PreemptionByScheduler"),
        evicted_by_api=_is_target(status, "EvictionByEvictionAPI"),
        queue=(metadata.get("labels") or {}).get(_QUEUE_LABEL, ""),
        min_member=int(annotations.get(_MIN_MEMBER_ANNOTATION, 1)),
        requests=_requests(spec),
        tolerations=tuple(
            Toleration(
                entry.get("key", ""), entry.get("operator", "Equal"), entry.get("value", ""), entry.get("effect", "")
            )
            for entry in spec.get("tolerations") or ()
        ),
        selector=spec.get("nodeSelector") or {},
        picky=bool(affinity or spec.get("topologySpreadConstraints") or spec.get("volumes")),
    )


def read_node(thing: Json) -> NodeFact:
    """Read a Node."""
    metadata, spec = thing["metadata"], thing.get("spec") or {}
    taints = [
        Taint(taint["key"], taint.get("value", ""), taint["effect"])
        for taint in spec.get("taints") or ()
        if taint["effect"] != "PreferNoSchedule"
    ]
    if spec.get("unschedulable"):
        taints.append(Taint("node.kubernetes.io/unschedulable"))
    allocatable = (thing.get("status") or {}).get("allocatable") or {}
    return NodeFact(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        allocatable={resource: thousandths(amount) for resource, amount in allocatable.items()},
        taints=tuple(dict.fromkeys(taints)),
        labels=metadata.get("labels") or {},
    )


def read_group(thing: Json) -> GroupFact:
    """Read a PodGroup of either API."""
    metadata, spec = thing["metadata"], thing.get("spec") or {}
    api = thing["apiVersion"].partition("/")[0]
    if "schedulingPolicy" in spec:
        min_member = (spec["schedulingPolicy"].get("gang") or {}).get("minCount", 1)
    else:
        min_member = spec.get("minMember") or 1
    timeout = spec.get("scheduleTimeoutSeconds")
    key = (api, metadata.get("namespace", ""), metadata["name"])
    return GroupFact(key, metadata["uid"], min_member, None if timeout is None else float(timeout))


def read_job(thing: Json) -> GroupFact:
    """Read a Job that Muster manages as the group of its pods; those that have succeeded are not waited for."""
    metadata, spec = thing["metadata"], thing["spec"]
    at_once = min(spec.get("parallelism", 1), spec.get("completions", spec.get("parallelism", 1)))
    left = at_once - (thing.get("status") or {}).get("succeeded", 0)
    return GroupFact((_JOBS, metadata.get("namespace", ""), metadata["name"]), metadata["uid"], max(left, 0), None)


@dataclass(frozen=True, slots=True)
class Quota:
    """What a queue has of a resource (thousandths), what it may borrow and what it lends; None: without limit."""

    nominal: int
    borrowing: int | None
    lending: int | None


@dataclass(frozen=True, slots=True)
class QueueFact:
    """A Queue as it stands: quotas by flavor and resource, of flavors that are every node.

    `equals` says that its gangs may have gangs of equal priority evicted. `invalid` ones let nobody in.
    """

    name: str
    parent: str
    quotas: Mapping[tuple[str, str], Quota]
    equals: bool
    invalid: bool


def read_queue(thing: Json) -> QueueFact:
    """Read a Queue; raise ValueError for one whose flavors are some nodes only, which is not judged."""
    spec = thing.get("spec") or {}
    quotas: dict[tuple[str, str], Quota] = {}
    for flavor in spec.get("flavors") or ():
        if flavor.get("nodeSelector"):
            raise ValueError(f"Queue {thing['metadata']['name']}: flavors with a nodeSelector are not judged")
        for entry in flavor.get("resources") or ():
            limits = (entry.get(key) for key in ("borrowingLimit", "lendingLimit"))
            borrowing, lending = (None if limit is None else thousandths(limit) for limit in limits)
            quotas[flavor["name"], entry["name"]] = Quota(thousandths(entry["nominalQuota"]), borrowing, lending)
    equals = (spec.get("preemption") or {}).get("withinQueue") == "LowerOrNewerEqualPriority"
    invalid = any(quota.nominal < 0 for quota in quotas.values())
    return QueueFact(thing["metadata"]["name"], spec.get("parent") or "", quotas, equals, invalid)


def needs_object(key: GroupKey) -> bool:
    """Tell whether a gang of this API starts only with its object; pods of a Job that is not recorded stand alone."""
    return key[0] not in {"muster.dev", _JOBS}


def _group_of(metadata: Json, spec: Json) -> GroupKey | None:
    labels, namespace = metadata.get("labels") or {}, metadata.get("namespace", "")
    if name := labels.get(_COSCHEDULING_LABEL):
        return ("scheduling.x-k8s.io", namespace, name)
    if name := (spec.get("schedulingGroup") or {}).get("podGroupName"):
        return ("scheduling.k8s.io", namespace, name)
    if name := labels.get(_GANG_LABEL):
        return ("muster.dev", namespace, name)
    if _JOB_INDEX in (metadata.get("annotations") or {}) and labels.get(_QUEUE_LABEL):
        return (_JOBS, namespace, metadata["ownerReferences"][0]["name"])
    return None


def _is_target(status: Json, reason: str) -> bool:
    """Tell whether a pod is to be disrupted, for this reason."""
    return any(
        condition["type"] == "DisruptionTarget" and condition.get("reason") == reason
        for condition in status.get("conditions") or ()
    )


def _requests(spec: Json) -> Amounts:
    """Return what a pod takes: the larger of its containers' sum and its init containers' peak, and itself."""
    total: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        total.update(_asked(container))
    beside: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            beside.update(_asked(container))
            peak |= beside
        else:
            peak |= beside + Counter(_asked(container))
    total.update(beside)
    total |= peak
    total.update({name: thousandths(amount) for name, amount in (spec.get("overhead") or {}).items()})
    return {**{name: amount for name, amount in total.items() if amount > 0}, "pods": 1000}


def _asked(container: Json) -> dict[str, int]:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {name: thousandths(amount) for name, amount in requests.items()}
