"""A pod as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from sys import intern
from typing import Final, NamedTuple, Self

from extender.caches import Shared
from extender.objects.holdings import DeviceHolding, Holdings, read_holdings
from extender.objects.jobsigns import NO_SIGNS, SIGN_KEYS, JobSigns, read_signs
from extender.objects.keys import NO_OPTIONS, Options
from extender.objects.meta import NO_LABELS, BareMeta, ObjectMeta, ObjectRef, Selector, read_selector, read_timestamp
from extender.objects.podclaims import NO_CLAIMS, PodClaims, read_pod_claims, resolve
from extender.objects.podgroup import NO_GROUP, POD, GroupRef
from extender.objects.podoptions import UNRANKED, PodWords, RoleRank, read_words
from extender.objects.podspec import (
    PodObject,
    PodSpec,
    PodSpecFields,
    PodStatus,
    PodStatusFields,
    Toleration,
    read_tolerations,
)
from extender.objects.reason import Problem
from extender.objects.requests import (
    GPU_RESOURCES,
    PODS,
    ContainerRequest,
    ResourceListError,
    count_gpus,
    effective_request,
    excess,
    is_guaranteed,
    most_of,
    read_containers,
)

#: How the UIDs begin of pods that do not exist yet, and are expected of an object that is suspended, or just resumed.
EXPECTED: Final = "expected:"


class Phase(StrEnum):
    """Pod phase."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


#: Text -> phase; calling the enum for each pod takes ten times as long.
_PHASES = {phase.value: phase for phase in Phase}


_ENDS = frozenset({Phase.SUCCEEDED.value, Phase.FAILED.value})

#: What tells when a pod was bound, and when a kubelet saw it end. Source: k8s.io/kubernetes registry/core/pod/storage
#: and pkg/kubelet/status/generate.go, by which a pod that has ended is not ready (PodCompleted, PodFailed).
_BOUND = frozenset({("PodScheduled", "True")})
_ENDED = frozenset({("ContainersReady", "False"), ("Ready", "False")})


class RejectionReason(StrEnum):
    """Why a kubelet rejected a pod that has room on its node by all counts; the value is the metric label.

    Source: k8s.io/kubernetes pkg/kubelet/cm: topologymanager, admission, cpumanager; release 1.37.
    """

    TOPOLOGY_AFFINITY = "TopologyAffinityError"
    UNEXPECTED_ADMISSION = "UnexpectedAdmissionError"
    SMT_ALIGNMENT = "SMTAlignmentError"


_REJECTION_REASONS = {reason.value: reason for reason in RejectionReason}


@dataclass(frozen=True, slots=True)
class Rejection:
    """A kubelet's refusal to run a pod; the pod has failed, and its owner makes a new one."""

    reason: RejectionReason
    message: str


#: How the names end of what a pod takes of the quota of its Queue alone, and of no node.
CHARGED = "  charged"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Shape:
    """All of a pod that decides where it fits: pods of one shape are interchangeable.

    `requests` are (resource, milli-CPU | bytes | count) in order of the resource's name. `containers` are those that
    ask for anything, in order of admission; empty stands for one container that asks for all of `requests`.
    `guaranteed` says that the kubelet gives them CPUs and memory of their own where its managers do that.
    """

    requests: tuple[tuple[str, int], ...]
    selector: Selector = Selector()
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[ContainerRequest, ...] = ()
    guaranteed: bool = False
    _gpus: int = field(init=False, repr=False, compare=False, default=0)
    _whole_gpus: int = field(init=False, repr=False, compare=False, default=0)
    _is_excessive: bool = field(init=False, repr=False, compare=False, default=False)
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        """Hash and count once: a shape is a key for every member of a gang, and its parts are deep."""
        object.__setattr__(self, "_hash", hash(self._content))
        object.__setattr__(self, "_gpus", count_gpus(self.requests))
        object.__setattr__(
            self, "_whole_gpus", next((n for name, n in self.requests if n and name in GPU_RESOURCES), 0)
        )
        object.__setattr__(self, "_is_excessive", any(value >= most_of(name) for name, value in self.requests))

    def __hash__(self) -> int:
        """Return the precomputed hash."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Compare by content, equal objects first."""
        if self is other:
            return True
        if not isinstance(other, Shape) or self._hash != other._hash:
            return False
        return self._content == other._content

    @property
    def gpus(self) -> int:
        """Return how many GPUs, of any make, one pod asks for."""
        return self._gpus

    @property
    def whole_gpus(self) -> int:
        """Return how many whole GPUs one pod asks for, of whichever of `GPU_RESOURCES`."""
        return self._whole_gpus

    @property
    def is_excessive(self) -> bool:
        """Tell whether a pod asks for more of anything than any node has."""
        return self._is_excessive

    @property
    def _content(self) -> tuple[object, ...]:
        return (self.requests, self.selector, self.tolerations, self.containers, self.guaranteed)

    def request(self, resource: str) -> int:
        """Return how much of `resource` a pod of this shape takes."""
        return next((value for name, value in self.requests if name == resource), 0)

    def is_covered_by(self, other: Shape) -> bool:
        """Tell whether a pod takes no more of a node than one of `other`, whatever its Queue is charged."""
        return not any(amount > other.request(name) for name, amount in self.requests if not name.endswith(CHARGED))

    def within(self, allocatable: Mapping[str, int]) -> Shape:
        """Return the shape with all that a node has in place of what no node has; 0 of it is left out."""
        if not self._is_excessive:
            return self
        amounts = (
            (name, value if value < most_of(name) else allocatable.get(name, 0)) for name, value in self.requests
        )
        requests = tuple((name, value) for name, value in amounts if value)
        return Shape(requests, self.selector, self.tolerations, guaranteed=self.guaranteed)


#: Returns one object for equal shapes: 50,000 pods have a few hundred shapes.
_shared = Shared[Shape]()


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the scheduler sees it.

    `created` is the API server's RFC 3339 text (UTC, so it sorts as text). `group` is its gang; a pod that names none
    is a gang of one, under its own name and UID. `rank` is the member's place in its gang.
    `refusal` is the message of a PodScheduled condition that is False: kube-scheduler's own reason. `rejection` is the
    kubelet's, of a pod that it did not admit. `observed` and `predicted` are which GPUs and zones the pod holds, as
    annotations say. `gates` are the names of its scheduling gates. `started_at` is when the kubelet took it on
    (epoch seconds), `active_deadline` how long after that it is ended (seconds). `controller` is the UID of the object
    that makes another pod when this one is gone, "" for none, and `owner` is that object where it is named in full.
    `claims` are the ResourceClaims that it needs; `keeps_devices` says that some have devices, and no user of those has
    a node. `signs` are what its job and Muster tell each other. `scheduled_at` is when the pod was bound and
    `finished_at` when it ended, as its conditions say in whole seconds (epoch), None where they do not: both are for
    people, and decide nothing.
    """

    uid: str
    namespace: str
    name: str
    shape: Shape
    created: str = ""
    group: GroupRef = NO_GROUP
    role: str = ""
    rank: RoleRank = UNRANKED
    priority: int = 0
    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    nominated_node: str = ""
    phase: Phase = Phase.PENDING
    gated: bool = False
    deleting: bool = False
    refusal: str = ""
    options: Options = NO_OPTIONS
    problem: Problem | None = None
    observed: DeviceHolding | None = None
    predicted: DeviceHolding | None = None
    rejection: Rejection | None = None
    labels: Mapping[str, str] = NO_LABELS
    never_preempts: bool = False
    active_deadline: float | None = None
    started_at: float | None = None
    gates: tuple[str, ...] = ()
    controller: str = ""
    owner: ObjectRef | None = field(default=None, compare=False)
    claims: PodClaims = NO_CLAIMS
    keeps_devices: bool = False
    signs: JobSigns = NO_SIGNS
    scheduled_at: float | None = field(default=None, compare=False)
    finished_at: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Make a pod that names no group a gang of one."""
        if self.group.api == POD:
            object.__setattr__(self, "group", GroupRef(POD, self.namespace, self.name, self.uid))

    @property
    def key(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_expected(self) -> bool:
        """Tell whether the pod does not exist yet."""
        return self.uid.startswith(EXPECTED)

    @property
    def done(self) -> bool:
        """Tell whether the pod has ended and holds nothing any more."""
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def bound(self) -> bool:
        """Tell whether the pod holds resources on a node."""
        return bool(self.node_name) and not self.done

    @property
    def stays(self) -> bool:
        """Tell whether the pod holds resources on a node, and is not being deleted."""
        return self.bound and not self.deleting

    @property
    def placeable(self) -> bool:
        """Tell whether the pod could be given a node now."""
        return not (self.node_name or self.done or self.gated or self.deleting)

    def nominated_to(self, node: str) -> Self:
        """Return the pod with another nomination, itself if it has that one."""
        return self if node == self.nominated_node else replace(self, nominated_node=node)


def read_pod(pod: PodObject, default_priority: int = 0) -> Pod:
    """Read a pod.

    Args:
        pod: the pod as the API server or kube-scheduler wrote it.
        default_priority: the priority of a pod that names none (the global default PriorityClass).

    A request that cannot be read leaves the pod with an empty shape and a `problem`; it never raises. What many pods
    have in common (shape, namespace, node, scheduler) is one object for all of them.
    """
    meta, spec, status = pod.metadata or ObjectMeta(), pod.spec or PodSpec(), pod.status or PodStatus()
    told = read_told(meta.annotations or {})
    return assemble(meta, spec, status, read_form(pod), read_words(meta, spec), told, default_priority)


class PodTold(NamedTuple):
    """What annotations tell of a pod: what it holds, and what its job and Muster tell each other."""

    holdings: Holdings
    signs: JobSigns


def read_told(annotations: Mapping[str, str]) -> PodTold:
    """Read what annotations tell of a pod; of most it is nothing."""
    signs = NO_SIGNS if SIGN_KEYS.isdisjoint(annotations) else read_signs(annotations)
    return PodTold(read_holdings(annotations), signs)


class PodForm(NamedTuple):
    """The shape of a pod, the claims that its spec names, and what is wrong with its requests."""

    shape: Shape
    problem: Problem | None
    claims: PodClaims = NO_CLAIMS


def assemble(  # noqa: PLR0913, PLR0917 - the parts that a pod is read in
    meta: BareMeta,
    spec: PodSpecFields,
    status: PodStatusFields,
    form: PodForm,
    words: PodWords,
    told: PodTold,
    default_priority: int,
) -> Pod:
    """Put a pod together from what is its own and what it may have in common with others."""
    options, (holdings, signs) = words.options, told
    if words.group is None and options.packings:
        options = options.alone({resource for resource, _ in form.shape.requests})
    return Pod(
        uid=meta.uid or "",
        namespace=intern(meta.namespace or ""),
        name=meta.name or "",
        shape=form.shape,
        created=meta.creation_timestamp or "",
        group=words.group or NO_GROUP,
        role=words.role,
        rank=words.rank,
        priority=default_priority if spec.priority is None else spec.priority,
        scheduler_name=intern(spec.scheduler_name or "default-scheduler"),
        node_name=intern(spec.node_name or ""),
        nominated_node=intern(status.nominated_node_name or ""),
        phase=_read_phase(status.phase),
        gated=bool(words.gates),
        deleting=meta.deletion_timestamp is not None,
        refusal=_read_refusal(status),
        options=options.with_problems(holdings.problems + signs.problems),
        problem=form.problem,
        observed=holdings.observed,
        predicted=holdings.predicted,
        rejection=_read_rejection(status),
        labels=words.labels,
        never_preempts=spec.preemption_policy == "Never",
        active_deadline=None if spec.active_deadline_seconds is None else float(spec.active_deadline_seconds),
        started_at=None if status.start_time is None else read_timestamp(status.start_time),
        gates=words.gates,
        controller=words.controller,
        owner=words.owner,
        claims=resolve(form.claims, status),
        signs=signs,
        scheduled_at=_read_transition(status, _BOUND) if spec.node_name else None,
        finished_at=_read_transition(status, _ENDED) if status.phase in _ENDS else None,
    )


_ANY_NODE = Selector()

#: Requirements on nodes, and tolerations, that one pod may have: each is evaluated for every node, while others wait.
#: A requirement may have any number of values.
MOST_CONSTRAINTS = 64
#: Containers with requests that one pod may have: each is fitted into the NUMA zones of every node.
MOST_CONTAINERS = 256


def _too_many(selector: Selector, tolerations: tuple[Toleration, ...], containers: int) -> Problem | None:
    """Return what is wrong with a pod of which more is to be evaluated than others can wait for."""
    for field_name, what, count, most in (
        ("spec.affinity", "requirements on nodes", selector.size, MOST_CONSTRAINTS),
        ("spec.tolerations", "tolerations", len(tolerations), MOST_CONSTRAINTS),
        ("spec.containers", "containers", containers, MOST_CONTAINERS),
    ):
        if count > most:
            return Problem(field_name, f"has {count} {what}; Muster evaluates {most} at most")
    return None


def read_form(pod: PodObject) -> PodForm:
    """Read what a pod asks for; requests that cannot be read leave it with an empty shape and a problem."""
    spec = pod.spec or PodSpec()
    selector = read_selector(spec.node_selector, spec.affinity) if spec.node_selector or spec.affinity else _ANY_NODE
    tolerations = read_tolerations(spec.tolerations) if spec.tolerations else ()
    claims, problem = read_pod_claims(spec)
    containers = len(spec.containers or ()) + len(spec.init_containers or ())
    if (overlong := _too_many(selector, tolerations, containers)) is not None:
        selector, tolerations, problem = _ANY_NODE, (), overlong
    try:
        request = effective_request(pod)
        each = read_containers(pod) if containers <= MOST_CONTAINERS else ()
        shape = Shape(tuple(sorted(request.items())), selector, tolerations, each, is_guaranteed(pod))
        return PodForm(_shared(shape), problem or excess(pod, request), claims)
    except ResourceListError as error:
        return PodForm(_shared(Shape(((PODS, 1),), selector, tolerations)), error.problem, claims)


def _read_phase(text: str | None) -> Phase:
    if not text:
        return Phase.PENDING
    return _PHASES.get(text, Phase.UNKNOWN)


def _read_rejection(status: PodStatusFields) -> Rejection | None:
    if status.phase != Phase.FAILED or status.reason not in _REJECTION_REASONS:
        return None
    return Rejection(_REJECTION_REASONS[status.reason], status.message or "")


def _read_transition(status: PodStatusFields, wanted: frozenset[tuple[str | None, str | None]]) -> float | None:
    """Return when the first condition of such a type and status came to it (epoch seconds)."""
    for condition in status.conditions or ():
        if condition.last_transition_time and (condition.type, condition.status) in wanted:
            return read_timestamp(condition.last_transition_time)
    return None


def _read_refusal(status: PodStatusFields) -> str:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason or ""
    return ""
