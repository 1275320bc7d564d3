"""Volcano's PodGroup in Muster's terms.

Source: volcano-sh/volcano staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/{types,labels}.go,
pkg/apis/batch/v1alpha1/labels.go and pkg/scheduler/api/job_info.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from msgspec import Struct

from extender.objects import keys
from extender.objects.branches import MOST_LEAVES, LabelParts
from extender.objects.keys import is_level
from extender.objects.levels import up_to_tier
from extender.objects.meta import (
    Decoder,
    Int32,
    Int64,
    LabelSelectorObject,
    ObjectMeta,
    Requirement,
    ResourceList,
    read_label_selector,
    share_labels,
)
from extender.objects.peers import Reading
from extender.objects.podgroup import GroupRef, PodGroup, read_group_options
from extender.objects.podspec import PodSpec
from extender.objects.reason import Problem, quoted
from extender.objects.requests import ResourceListError, read_amounts
from extender.objects.sources.jobset import JOBSET_JOB, JOBSET_ROLE
from extender.objects.sources.kubeflow import KUBEFLOW_ROLES
from extender.objects.sources.leaderworkerset import LWS_GROUP
from extender.objects.sources.ray import RAY_GROUP
from extender.objects.sources.source import Keyed, PriorityValues, Source, WorkloadKind
from extender.objects.topology import LabelGroup, RoleGroup, Slice

VOLCANO: Final = "scheduling.volcano.sh"
#: The older annotation first: Volcano's controllers and other operators write that one.
VOLCANO_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
VOLCANO_TASK: Final = "volcano.sh/task-spec"

#: Labels that stand for a member's role in one framework or another, by which subgroups are selected.
ROLE_LABELS: Final = frozenset({keys.ROLE, JOBSET_ROLE, *KUBEFLOW_ROLES, RAY_GROUP, VOLCANO_TASK})


class TierLimit(Struct, gc=False, frozen=True, rename="camel"):
    """A NetworkTopologySpec: how far apart pods may be; `mode` is hard or soft."""

    mode: str | None = None
    highest_tier_allowed: Int64 | None = None
    highest_tier_name: str | None = None


class LabelKey(Struct, gc=False, frozen=True, rename="camel"):
    """One `matchPolicy` of Volcano 1.14, which later versions write as `matchLabelKeys`."""

    label_key: str | None = None


class SubGroupPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """Pods of a PodGroup that form subgroups: of those selected, those that agree on some labels."""

    name: str | None = None
    network_topology: TierLimit | None = None
    sub_group_size: Int32 | None = None
    min_sub_groups: Int32 | None = None
    label_selector: LabelSelectorObject | None = None
    match_label_keys: list[str] | None = None
    match_policy: list[LabelKey] | None = None


class VolcanoSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a `scheduling.volcano.sh/v1beta1` PodGroup; `min_task_member` is by task."""

    min_member: Int32 | None = None
    min_task_member: dict[str, Int32] | None = None
    min_resources: ResourceList | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    network_topology: TierLimit | None = None
    sub_group_policy: list[SubGroupPolicy] | None = None


class VolcanoPodGroup(Struct, gc=False, frozen=True):
    """A `scheduling.volcano.sh/v1beta1` PodGroup."""

    metadata: ObjectMeta | None = None
    spec: VolcanoSpec | None = None


decode_volcano_pod_group = Decoder(VolcanoPodGroup)

#: Labels that number the subgroups in member order, so that counting members off comes to the same.
_NUMBERING = frozenset({"volcano.sh/partition-id", LWS_GROUP, JOBSET_JOB})


@dataclass(frozen=True, slots=True)
class _Limit:
    """The level within which some pods must stay, or should if it is not `hard`."""

    level: str
    hard: bool


@dataclass(slots=True)
class _Subgroups:
    """What all policies of subgroups ask for; `minimums` are by role, those of all roles together under "".

    With `by_labels` members are told apart by labels alone, and some subgroups are `parts` of the gang.
    """

    by_labels: bool

    slices: list[Slice] = field(default_factory=list)
    groups: list[RoleGroup] = field(default_factory=list)
    labelled: list[LabelGroup] = field(default_factory=list)
    minimums: dict[str, int] = field(default_factory=dict)
    parts: list[LabelParts] = field(default_factory=list)

    def at_least(self, role: str, pods: int) -> None:
        """Take in how many pods of a role there are to be at least, of all roles together for ""."""
        self.minimums[role] = max(self.minimums.get(role, 0), pods)


def read_volcano(group: VolcanoPodGroup, priority: int | None = None) -> PodGroup:
    """Read a `scheduling.volcano.sh/v1beta1` PodGroup.

    Args:
        group: the object.
        priority: the value of its PriorityClass; None where the members' own priority counts.

    A bad minimum, and what is required and cannot be kept, becomes the `problem`, so that the gang waits; what cannot
    be kept of the rest becomes a problem of the options.
    """
    meta = group.metadata or ObjectMeta()
    spec = group.spec or VolcanoSpec()
    reading, policies = Reading(), spec.sub_group_policy or ()
    subgroups = _Subgroups(any(map(_needs_labels, policies)))
    _state(_read_limit(spec.network_topology, "spec.networkTopology", reading), "spec.networkTopology", reading)
    for index, policy in enumerate(policies):
        _read_policy(policy, f"spec.subGroupPolicy[{index}]", subgroups, reading)
    reading.slices(tuple(subgroups.slices), "spec.subGroupPolicy")
    options = read_group_options(meta, reading).with_peer_queue(spec.queue or "")
    if subgroups.groups or subgroups.labelled:
        groups, labelled = tuple(subgroups.groups), tuple(subgroups.labelled)
        options = replace(options, peers=replace(options.peers, role_groups=groups, label_groups=labelled))
    problem = _negative(spec)
    try:
        min_resources = read_amounts(spec.min_resources, "spec.minResources")
    except ResourceListError as error:
        min_resources, problem = {}, problem or error.problem
    minimums = {} if problem else _task_minimums(spec)
    if minimums and subgroups.parts:
        reading.refuse("spec.minTaskMember", "cannot be kept beside subgroups of which so many are needed by labels")
    for role, least in subgroups.minimums.items():
        minimums[role] = max(minimums.get(role, 0), least)
    return PodGroup(
        ref=GroupRef(VOLCANO, meta.namespace or "", meta.name or ""),
        uid=meta.uid or "",
        min_member=max(spec.min_member or 0, minimums.pop("", 0), 1),
        role_minimums=tuple(sorted(minimums.items())),
        min_resources=min_resources,
        priority=priority,
        created=meta.creation_timestamp or "",
        generation=meta.generation or 0,
        labels=share_labels(meta.labels),
        options=options,
        problem=problem or reading.refused,
        label_parts=() if options.says_parts else tuple(subgroups.parts),
    )


def _negative(spec: VolcanoSpec) -> Problem | None:
    """Return the first minimum that is negative as a problem."""
    minimums = {"spec.minMember": spec.min_member or 0}
    minimums |= {f"spec.minTaskMember[{task}]": count for task, count in sorted((spec.min_task_member or {}).items())}
    return next((Problem(where, f"{count} is negative") for where, count in minimums.items() if count < 0), None)


def _task_minimums(spec: VolcanoSpec) -> dict[str, int]:
    """Return the least number of pods of each task.

    They count only if minMember covers them all: a Volcano Job that may start with less states its tasks' replicas
    here, and Volcano disregards them. Source: JobInfo.CheckTaskValid.
    """
    minimums = {task: count for task, count in (spec.min_task_member or {}).items() if count > 0}
    return minimums if (spec.min_member or 0) >= sum(minimums.values()) else {}


# Example. Pods of the task `worker` with the label ring; {a, b, c} are its values:
#
#   matchLabelKeys                       subgroups
#   none                                 one: all workers
#   [ring]                               three: those of a, of b and of c
#   [volcano.sh/partition-id], size 4    every four in member order, which is how Volcano numbers them
def _read_policy(policy: SubGroupPolicy, where: str, subgroups: _Subgroups, reading: Reading) -> None:
    """Take in one policy of subgroups, or say why it cannot be kept.

    Each policy counts for all that it selects; in Volcano a pod is in the first only that selects it. Source:
    volcano-sh/volcano pkg/scheduler/api/sub_job_info.go, getSubJobMatchValues and NewSubJobInfo.
    """
    limit = _read_limit(policy.network_topology, f"{where}.networkTopology", reading)
    picked = _read_picked(policy, f"{where}.labelSelector", reading, by_labels=subgroups.by_labels)
    if picked is None:
        return
    _read_minimum(policy, picked, where, subgroups, reading)
    if limit is None:
        return
    size, roles, keys = policy.sub_group_size or 0, picked.roles, picked.keys
    if picked.is_numbered and size > 0 and limit.hard:
        subgroups.slices.append(Slice(size, limit.level, roles))
    elif picked.selector or not ROLE_LABELS.issuperset(keys) or (keys and subgroups.by_labels):
        subgroups.labelled.append(LabelGroup(keys, limit.level, roles, picked.selector, limit.hard))
    elif roles or keys:
        each = [frozenset({role}) for role in sorted(roles)] if keys and roles else [roles]
        subgroups.groups += (RoleGroup(members, limit.level, required=limit.hard) for members in each)
    else:
        _state(limit, f"{where}.networkTopology", reading)


class _Picked(NamedTuple):
    """Whom a policy is about, by role and labels, and the labels whose values tell subgroups apart."""

    roles: frozenset[str]
    selector: tuple[Requirement, ...]
    keys: tuple[str, ...]

    @property
    def is_numbered(self) -> bool:
        """Tell whether the subgroups are those that pods are counted off in by member order."""
        return bool(self.keys) and _NUMBERING.issuperset(self.keys) and not self.selector

    @property
    def is_by_role(self) -> bool:
        """Tell whether each role is a subgroup of its own."""
        return bool(self.keys and self.roles) and ROLE_LABELS.issuperset(self.keys)

    def is_counted(self, size: int | None) -> bool:
        """Tell whether so many subgroups of a size are so many pods: of one role, or of all."""
        one = not (self.keys or self.selector)
        return len(self.roles) <= 1 and (one or (self.is_numbered and bool(size)))


def _needs_labels(policy: SubGroupPolicy) -> bool:
    """Tell whether so many subgroups are needed of which only the members' labels tell which there are."""
    count, picked = policy.min_sub_groups or 0, _read_picked(policy, "", Reading())
    if count <= 0 or picked is None or picked.is_counted(policy.sub_group_size):
        return False
    return bool(picked.keys or count == 1) and not (picked.is_by_role and count == len(picked.roles))


def _read_picked(policy: SubGroupPolicy, where: str, reading: Reading, *, by_labels: bool = False) -> _Picked | None:
    """Return whom a policy is about; None if its selector cannot be read."""
    keys = tuple(policy.match_label_keys or [match.label_key or "" for match in policy.match_policy or ()])
    roles = _selected_roles(policy.label_selector)
    if roles is not None and not (by_labels and roles):
        return _Picked(roles, (), keys)
    read = read_label_selector(policy.label_selector or LabelSelectorObject(), where)
    if isinstance(read, Problem):
        reading.refuse(read.field, read.message)
        return None
    return _Picked(frozenset(), read.requirements, keys)


def _read_minimum(policy: SubGroupPolicy, picked: _Picked, where: str, subgroups: _Subgroups, reading: Reading) -> None:
    """Take in how many whole subgroups there are to be at least, or say why that cannot be kept.

    Where pods are counted off, so many subgroups are so many pods; where each role is a subgroup of its own and all are
    needed, so many pods of each; where labels tell them apart, they are parts.
    """
    size, count, roles = max(policy.sub_group_size or 1, 1), policy.min_sub_groups or 0, picked.roles
    if count <= 0:
        return
    if picked.is_by_role and count == len(roles):
        for role in roles:
            subgroups.at_least(role, size)
    elif not picked.keys and count > 1:
        reading.refuse(f"{where}.minSubGroups", f"{count} can never be: without matchLabelKeys there is one subgroup")
    elif picked.is_counted(policy.sub_group_size):
        subgroups.at_least("".join(roles), size * count)
    elif count > MOST_LEAVES:
        reading.refuse(f"{where}.minSubGroups", f"{count} are more parts than a gang may have, {MOST_LEAVES}")
    else:
        name = (policy.name or "subgroup").replace(",", "-")
        name += f"-{len(subgroups.parts)}" if any(each.name == name for each in subgroups.parts) else ""
        members = LabelGroup(picked.keys, "", selector=picked.selector)
        subgroups.parts.append(LabelParts(name, members, count, size))


def _selected_roles(selector: LabelSelectorObject | None) -> frozenset[str] | None:
    """Return the roles that a selector picks, none for all of them, or None if it asks for anything else."""
    if selector is None:
        return frozenset()
    picked = [(key, [value]) for key, value in (selector.match_labels or {}).items()]
    for requirement in selector.match_expressions or ():
        if requirement.operator != "In":
            return None
        picked.append((requirement.key or "", requirement.values or []))
    if not picked:
        return frozenset()
    (key, roles), *others = picked
    return frozenset(roles) if roles and key in ROLE_LABELS and not others else None


def _read_limit(limit: TierLimit | None, where: str, reading: Reading) -> _Limit | None:
    """Return the level that a network topology names, None if it names none."""
    if limit is None:
        return None
    mode, tier, name = limit.mode or "hard", limit.highest_tier_allowed, limit.highest_tier_name or ""
    if mode not in {"hard", "soft"}:
        reading.refuse(f"{where}.mode", f"{quoted(mode)} is not hard or soft")
        return None
    if name and tier is not None:
        reading.problem(f"{where}.highestTierAllowed", f"contradicts {where}.highestTierName, which counts")
    level = name or ("" if tier is None else up_to_tier(tier))
    if not level and mode == "hard":
        reading.problem(where, "says nothing without highestTierAllowed or highestTierName")
    elif name and not is_level(name):
        complain = reading.refuse if mode == "hard" else reading.problem
        complain(f"{where}.highestTierName", f"{quoted(name)} is not the name of a level")
        return None
    return _Limit(level, mode == "hard") if level else None


def _state(limit: _Limit | None, where: str, reading: Reading) -> None:
    """Take in a level that is about the whole gang."""
    if limit is not None:
        reading.level("required" if limit.hard else "preferred", limit.level, where)


def _read(group: VolcanoPodGroup, priorities: PriorityValues) -> tuple[PodGroup]:
    """Read the gang with its priority; that of a class that is not known yet is the pods' own.

    Volcano's own controllers and webhooks leave the class as a name.
    """
    name = (group.spec.priority_class_name if group.spec else None) or ""
    return (read_volcano(group, priorities.get(name)),)


def _gang(_spec: PodSpec, _labels: Keyed, annotations: Keyed) -> str:
    return next((annotations[key] for key in VOLCANO_ANNOTATIONS if annotations.get(key)), "")


def _role(labels: Keyed, annotations: Keyed) -> str:
    return labels.get(VOLCANO_TASK) or annotations.get(VOLCANO_TASK) or ""


SOURCE = Source(
    api=VOLCANO,
    noun="PodGroup",
    gang=_gang,
    gang_keys=VOLCANO_ANNOTATIONS,
    explicit=True,
    kinds=(WorkloadKind(VOLCANO, "PodGroup", "podgroups", ("v1beta1",), decode_volcano_pod_group, _read, vital=True),),
    role=_role,
    role_keys=(VOLCANO_TASK,),
    index_keys=("volcano.sh/task-index",),
)

#: What the API calls the collection of its PodGroups in full.
VOLCANO_POD_GROUPS: Final = SOURCE.kinds[0].name
