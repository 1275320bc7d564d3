"""A PodGroup as the scheduler sees it, whichever API it was written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.domain import keys
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.objectref import ObjectRef
from extender.domain.peers import Reading, read_peer_queue, read_peers
from extender.domain.reason import Problem
from extender.domain.requests import ResourceListError, read_amounts
from extender.wire import kubernetes as wire


@dataclass(frozen=True, slots=True)
class Step:
    """Members that are made only when others run: once more than `after` of `role` exist, `least` are needed."""

    role: str
    after: int
    least: int


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The object that describes a gang.

    `min_member` counts pods, `role_minimums` those of single roles; `min_resources` is in milli-CPU, bytes and counts;
    `schedule_timeout` is in seconds, None for the default of the settings. `priority` is None where the members' own
    counts. `problem` says why the object cannot be used. `about` is the object where it is no PodGroup, `steps` what
    its controller makes later.
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
    options: keys.Options = keys.Options()
    problem: Problem | None = None
    about: ObjectRef | None = None
    steps: tuple[Step, ...] = ()

    @property
    def kind(self) -> str:
        """Return the kind of the object."""
        return "PodGroup" if self.about is None else self.about.kind


def read_coscheduling(group: wire.CoschedulingPodGroup) -> PodGroup:
    """Read a `scheduling.x-k8s.io/v1alpha1` PodGroup; a bad field becomes the `problem`."""
    meta = group.metadata or wire.ObjectMeta()
    spec = group.spec or wire.CoschedulingSpec()
    problem: Problem | None = None
    min_resources: dict[str, int] = {}
    try:
        min_resources = read_amounts(spec.min_resources, "spec.minResources")
    except ResourceListError as error:
        problem = error.problem
    # The coscheduling API leaves out a zero minMember, which asks for no gang at all; negative ones are mistakes.
    min_member = spec.min_member or 1
    if min_member < 0:
        problem = Problem("spec.minMember", f"{min_member} is negative")
        min_member = 1
    timeout = spec.schedule_timeout_seconds
    if timeout is not None and timeout <= 0:
        problem = problem or Problem("spec.scheduleTimeoutSeconds", f"{timeout} is not positive")
        timeout = None
    return PodGroup(
        ref=GroupRef(GroupApi.COSCHEDULING, meta.namespace or "", meta.name or ""),
        uid=meta.uid or "",
        min_member=min_member,
        min_resources=min_resources,
        schedule_timeout=None if timeout is None else float(timeout),
        created=meta.creation_timestamp or "",
        generation=meta.generation or 0,
        options=read_group_options(meta, Reading()),
        problem=problem,
    )


def read_native(group: wire.NativePodGroup) -> PodGroup:
    """Read a `scheduling.k8s.io/v1beta1` PodGroup; the `basic` policy is a gang of one."""
    meta = group.metadata or wire.ObjectMeta()
    spec = group.spec or wire.NativePodGroupSpec()
    policy = spec.scheduling_policy or wire.SchedulingPolicy()
    problem = None
    min_member = 1
    if policy.gang is not None:
        count = policy.gang.min_count
        if count is None or count < 1:
            problem = Problem("spec.schedulingPolicy.gang.minCount", f"{count} is not at least 1")
        else:
            min_member = count
    reading = Reading()
    constraints = (spec.scheduling_constraints and spec.scheduling_constraints.topology) or ()
    for index, constraint in enumerate(constraints):
        reading.level("required", constraint.key or "", f"spec.schedulingConstraints.topology[{index}].key")
    return PodGroup(
        ref=GroupRef(GroupApi.NATIVE, meta.namespace or "", meta.name or ""),
        uid=meta.uid or "",
        min_member=min_member,
        priority=spec.priority,
        created=meta.creation_timestamp or "",
        generation=meta.generation or 0,
        options=read_group_options(meta, reading),
        problem=problem,
    )


def read_group_options(meta: wire.ObjectMeta, reading: Reading) -> keys.Options:
    """Read labels and annotations of a PodGroup, whose own fields have been taken in by `reading`."""
    labels, annotations = meta.labels or {}, meta.annotations or {}
    options = keys.read_options(labels, annotations).with_peers(*read_peers(annotations, reading))
    return options.with_peer_queue(read_peer_queue(labels))
