"""A PodGroup as the scheduler sees it, whichever API it was written in, and the sets of like pods in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from extender.objects.branches import Branch, LabelParts, of_roles
from extender.objects.keys import ADMISSION_GATE, MOST_ROLES, NO_OPTIONS, Options, read_options
from extender.objects.manifest import Manifest
from extender.objects.meta import NO_LABELS, ObjectMeta, ObjectRef
from extender.objects.peers import Reading, read_peer_queue, read_peers
from extender.objects.podspec import Container, PodObject, PodSpec, PodTemplate, Resources
from extender.objects.reason import Problem

#: Most pods of one question: what is asked about far more is a mistake in a number.
MOST_PODS = 10_000

#: How the UIDs begin of pods that exist nowhere: the API server's are hexadecimal.
HYPOTHETICAL = "hypothetical:"


@dataclass(frozen=True, slots=True)
class SubmittedPodSet:
    """Pods that a controller makes of one template.

    `where` is the path of the template in its object. `names` are those of the pods, in their order. The controller
    adds `labels` and `annotations` to all of them, and both as labels and as annotations the keys `numbered` with each
    pod's number, which is `first` for the first.
    """

    template: PodTemplate | None
    where: str
    names: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    numbered: tuple[str, ...] = ()
    first: int = 0

    def pods(self, of: Manifest) -> Iterator[PodObject]:
        """Yield the pods; raise SubmissionError if the template says nothing that could run."""
        if not self.names:
            return
        template = self.template or PodTemplate()
        if template.spec is None or not template.spec.containers:
            raise of.refuse(f"{self.where}.spec.containers", "there is none; nothing can be said of such a pod")
        meta = template.metadata or ObjectMeta()
        labels = {**(meta.labels or {}), **self.labels}
        annotations = {**(meta.annotations or {}), **self.annotations}
        for number, name in enumerate(self.names, start=self.first):
            keyed = dict.fromkeys(self.numbered, str(number))
            yield bare_pod(of.namespace, name, labels | keyed, annotations | keyed, template.spec)


def bare_pod(
    namespace: str, name: str, labels: Mapping[str, str], annotations: Mapping[str, str], spec: PodSpec
) -> PodObject:
    """Return a pod as it is when it has just been created, whatever became of the one that it was copied from.

    Where a container has a limit and no request, the limit is the request, as the API server has it. Muster's own
    scheduling gate is left out: Muster takes it off as soon as there is quota.
    """
    gates = [gate for gate in spec.scheduling_gates or () if gate.name != ADMISSION_GATE]
    meta = ObjectMeta(name, namespace, f"{HYPOTHETICAL}{namespace}/{name}", labels=dict(labels))
    meta = msgspec.structs.replace(meta, annotations=dict(annotations))
    created = msgspec.structs.replace(
        spec,
        containers=[_defaulted(container) for container in spec.containers or ()],
        init_containers=[_defaulted(container) for container in spec.init_containers or ()],
        resources=_requested(spec.resources),
        node_name=None,
        scheduling_gates=gates or None,
    )
    return PodObject(meta, created)


def _defaulted(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=_requested(container.resources))


def _requested(resources: Resources | None) -> Resources | None:
    """Return resources with a request for whatever has a limit.

    Source: k8s.io/kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_Pod.
    """
    if resources is None or not resources.limits:
        return resources
    return Resources({**resources.limits, **(resources.requests or {})}, resources.limits)


def numbered(name: str, count: int, of: Manifest, where: str) -> tuple[str, ...]:
    """Return so many names `NAME-0`, `NAME-1`, ...; raise SubmissionError for a negative or absurd number."""
    if count < 0:
        raise of.refuse(where, f"{count} is negative")
    if count > MOST_PODS:
        raise of.refuse(where, f"{count} pods are more than a question may be about, {MOST_PODS}")
    return tuple(f"{name}-{index}" for index in range(count))


#: `GroupRef.api` of a pod that names no group: a gang of one.
POD: Final = "pod"


class GroupRef(msgspec.Struct, frozen=True, order=True, gc=False):
    """The name of a gang: unique in the cluster at any instant, but reusable over time.

    A pod that names no group is a gang of one under its own name, and `uid` is its UID: so a pod that is created again
    under that name is another gang, and inherits nothing. For all other gangs `uid` is "".
    """

    api: str
    namespace: str
    name: str
    uid: str = ""

    @property
    def is_pod(self) -> bool:
        """Tell whether this is a gang of one: a pod that names no group."""
        return self.api == POD

    def __str__(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


#: How the name of a gang ends that stands for all whose names differ from its own in what follows the last `-`.
ANY_NAME: Final = "*"

#: What a pod is given for the group that it does not name; the pod puts its own name in its place.
NO_GROUP: Final = GroupRef(POD, "", "")


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """Members that are made only when others run: once more than `after` of `role` exist, `least` are needed."""

    role: str
    after: int
    least: int


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The object that describes a gang.

    `min_member` counts pods, `role_minimums` those of single roles, a `tree` those of parts. `min_resources` is in
    milli-CPU, bytes and counts; `schedule_timeout` is in seconds, None for the default of the settings. `priority` is
    None where the members' own counts, and so is `never_preempts`. `problem` says why the object cannot be used.
    `about` is the object where it is no PodGroup, `steps` what its controller makes later. One that `goes_whole` loses
    no member by eviction but with all others. It is part of its `parent`, if it has one; one that consists of groups
    needs `parts_needed` of them. `label_parts` are those that members name by labels. `told` is the phase that Muster
    last wrote to its status, "" for none; it decides nothing, nor do the `labels` and the `owner`, the object that made
    this one.
    """

    ref: GroupRef
    uid: str
    min_member: int = 1
    role_minimums: tuple[tuple[str, int], ...] = ()
    min_resources: Mapping[str, int] = field(default_factory=dict)
    schedule_timeout: float | None = None
    priority: int | None = None
    created: str = ""
    generation: int = 0
    options: Options = NO_OPTIONS
    problem: Problem | None = None
    about: ObjectRef | None = None
    steps: tuple[GroupProgress, ...] = ()
    goes_whole: bool = False
    never_preempts: bool | None = None
    tree: Branch | None = None
    parent: GroupRef | None = None
    parts_needed: int = 0
    label_parts: tuple[LabelParts, ...] = ()
    told: str = field(default="", compare=False)
    owner: ObjectRef | None = field(default=None, compare=False)
    labels: Mapping[str, str] = field(default=NO_LABELS, compare=False)

    def __post_init__(self) -> None:
        """Make a PodGroup with too many roles one that cannot be used: each of its pods would be compared with each.

        Where the parts of its tree are to be together is what other schedulers' words ask for. What it says of its
        greatest number of members does not count where that is below its minimum.
        """
        roles = max(len(self.role_minimums), len(self.steps))
        if roles > MOST_ROLES:
            message = f"{roles} roles have a minimum of their own; a gang may have {MOST_ROLES} such roles"
            object.__setattr__(self, "problem", self.problem or Problem("spec", message))
            object.__setattr__(self, "role_minimums", ())
            object.__setattr__(self, "steps", ())
        if self.tree is not None:
            problem = self.tree.problem("spec")
            peers = self.options.peers.or_else(self.tree.terms)
            object.__setattr__(self, "options", replace(self.options, peers=peers))
            object.__setattr__(self, "problem", self.problem or problem)
            object.__setattr__(self, "tree", None if problem else self.tree)
        if self.options.max_member is not None:
            least = max(self.min_member, sum(count for _, count in self.role_minimums))
            object.__setattr__(self, "options", self.options.with_maximum(self.options.max_member, least))

    @property
    def root(self) -> Branch | None:
        """Return the tree of its parts, None if it has none."""
        return self.tree or (of_roles(self.role_minimums) if self.role_minimums else None)

    def role_of(self, role: str, labels: Mapping[str, str]) -> str:
        """Return the role of a member: the part that its labels name, else what it says itself."""
        return next(filter(None, (part.role_of(labels) for part in self.label_parts)), role)

    @property
    def told_finished(self) -> bool:
        """Tell whether its status says that it has finished."""
        return self.told == "Finished"

    @property
    def kind(self) -> str:
        """Return the kind of the object."""
        return "PodGroup" if self.about is None else self.about.kind


def read_group_options(meta: ObjectMeta, reading: Reading) -> Options:
    """Read labels and annotations of a PodGroup, whose own fields have been taken in by `reading`."""
    labels, annotations = meta.labels or {}, meta.annotations or {}
    options = read_options(labels, annotations).with_peers(*read_peers(annotations, reading))
    return options.with_peer_queue(read_peer_queue(labels))
