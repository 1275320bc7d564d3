"""A pod as the scheduler sees it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from sys import intern
from typing import Self

from extender.domain import keys
from extender.domain.integer import parse_integer
from extender.domain.membership import GroupRef, read_group
from extender.domain.reason import Problem
from extender.domain.requests import PODS, ResourceListError, effective_request
from extender.domain.selectors import Selector, read_selector
from extender.domain.taints import Toleration, read_tolerations
from extender.wire import kubernetes as wire

#: Where controllers write a member's rank, first match wins. Sources: Indexed Job, StatefulSet (k8s.io/api/batch/v1,
#: apps/v1).
_INDEX_LABELS = ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")
_INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"


class Phase(StrEnum):
    """Pod phase."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


#: Text -> phase; calling the enum for each pod takes ten times as long.
_PHASES = {phase.value: phase for phase in Phase}


@dataclass(frozen=True, slots=True)
class Shape:
    """All of a pod that decides where it fits: pods of one shape are interchangeable.

    `requests` are (resource, milli-CPU | bytes | count) in order of the resource's name.
    """

    requests: tuple[tuple[str, int], ...]
    selector: Selector = Selector()
    tolerations: tuple[Toleration, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        """Hash once: a shape is a key for every member of a gang, and its parts are deep."""
        object.__setattr__(self, "_hash", hash((self.requests, self.selector, self.tolerations)))

    def __hash__(self) -> int:
        """Return the precomputed hash."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Compare by content, equal objects first."""
        if self is other:
            return True
        if not isinstance(other, Shape) or self._hash != other._hash:
            return False
        return (self.requests, self.selector, self.tolerations) == (other.requests, other.selector, other.tolerations)

    def request(self, resource: str) -> int:
        """Return how much of `resource` a pod of this shape takes."""
        return next((value for name, value in self.requests if name == resource), 0)


@lru_cache(maxsize=65_536)
def _shared(shape: Shape) -> Shape:
    """Return one object for equal shapes: 50,000 pods have a few hundred shapes."""
    return shape


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the scheduler sees it.

    `created` is the API server's RFC 3339 text (UTC, so it sorts as text). `index` is the member's rank, or None.
    `refusal` is the message of a PodScheduled condition that is False: kube-scheduler's own reason.
    """

    uid: str
    namespace: str
    name: str
    shape: Shape
    created: str = ""
    group: GroupRef | None = None
    role: str = ""
    index: int | None = None
    priority: int = 0
    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    nominated_node: str = ""
    phase: Phase = Phase.PENDING
    gated: bool = False
    deleting: bool = False
    refusal: str = ""
    options: keys.Options = keys.Options()
    problem: Problem | None = None

    @property
    def key(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def done(self) -> bool:
        """Tell whether the pod has ended and holds nothing any more."""
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def bound(self) -> bool:
        """Tell whether the pod holds resources on a node."""
        return bool(self.node_name) and not self.done

    @property
    def placeable(self) -> bool:
        """Tell whether the pod could be given a node now."""
        return not (self.node_name or self.done or self.gated or self.deleting)

    def nominated_to(self, node: str) -> Self:
        """Return the pod with another nomination, itself if it has that one."""
        return self if node == self.nominated_node else replace(self, nominated_node=node)


def read_pod(pod: wire.Pod, default_priority: int = 0) -> Pod:
    """Turn a wire pod into a value.

    Args:
        pod: the pod as the API server or kube-scheduler wrote it.
        default_priority: the priority of a pod that names none (the global default PriorityClass).

    A request that cannot be read leaves the pod with an empty shape and a `problem`; it never raises. What many pods
    have in common (shape, namespace, node, scheduler) is one object for all of them.
    """
    meta = pod.metadata or wire.ObjectMeta()
    spec = pod.spec or wire.PodSpec()
    status = pod.status or wire.PodStatus()
    labels, annotations = meta.labels or {}, meta.annotations or {}
    namespace = intern(meta.namespace or "")
    problem: Problem | None = None
    try:
        requests = effective_request(pod)
    except ResourceListError as error:
        requests, problem = {PODS: 1}, error.problem
    shape = Shape(tuple(sorted(requests.items())), read_selector(spec), read_tolerations(spec.tolerations))
    return Pod(
        uid=meta.uid or "",
        namespace=namespace,
        name=meta.name or "",
        shape=_shared(shape),
        created=meta.creation_timestamp or "",
        group=read_group(spec, namespace, labels),
        role=labels.get(keys.ROLE, ""),
        index=_read_index(labels, annotations),
        priority=default_priority if spec.priority is None else spec.priority,
        scheduler_name=intern(spec.scheduler_name or "default-scheduler"),
        node_name=intern(spec.node_name or ""),
        nominated_node=intern(status.nominated_node_name or ""),
        phase=_read_phase(status.phase),
        gated=bool(spec.scheduling_gates),
        deleting=meta.deletion_timestamp is not None,
        refusal=_read_refusal(status),
        options=keys.read_options(labels, annotations),
        problem=problem,
    )


def _read_phase(text: str | None) -> Phase:
    if not text:
        return Phase.PENDING
    return _PHASES.get(text, Phase.UNKNOWN)


def _read_index(labels: dict[str, str], annotations: dict[str, str]) -> int | None:
    for label in _INDEX_LABELS:
        if (text := labels.get(label)) is not None:
            return parse_integer(text)
    return parse_integer(annotations.get(_INDEX_ANNOTATION, ""))


def _read_refusal(status: wire.PodStatus) -> str:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason or ""
    return ""
