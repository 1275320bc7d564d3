"""Volcano's PodGroup in Muster's terms.

Source: volcano-sh/volcano staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/types.go and
pkg/scheduler/api/job_info.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from extender.domain.keys import is_level
from extender.domain.membership import LWS_GROUP, GroupApi, GroupRef
from extender.domain.peers import Reading
from extender.domain.podgroup import PodGroup, read_group_options
from extender.domain.reason import Problem, quoted
from extender.domain.requests import ResourceListError, read_amounts
from extender.domain.roles import JOBSET_JOB, ROLE_LABELS
from extender.domain.topology import RoleGroup, Slice
from extender.wire.kubernetes import ObjectMeta
from extender.wire.topology import LabelSelector
from extender.wire.volcano import SubGroupPolicy, TierLimit, VolcanoPodGroup, VolcanoSpec

#: Labels that number the subgroups in member order, so that counting members off comes to the same.
_NUMBERING = frozenset({"volcano.sh/partition-id", LWS_GROUP, JOBSET_JOB})


@dataclass(frozen=True, slots=True)
class _Limit:
    """The level within which some pods must stay, or should if it is not `hard`."""

    level: str
    hard: bool


@dataclass(slots=True)
class _Subgroups:
    """What all policies of subgroups ask for; `minimums` are by role, those of all roles together under ""."""

    slices: list[Slice] = field(default_factory=list)
    groups: list[RoleGroup] = field(default_factory=list)
    minimums: dict[str, int] = field(default_factory=dict)


def read_volcano(group: VolcanoPodGroup, priority: int | None = None) -> PodGroup:
    """Read a `scheduling.volcano.sh/v1beta1` PodGroup.

    Args:
        group: the object.
        priority: the value of its PriorityClass; None where the members' own priority counts.

    A bad minimum becomes the `problem`; what cannot be kept of the rest becomes a problem of the options.
    """
    meta = group.metadata or ObjectMeta()
    spec = group.spec or VolcanoSpec()
    reading, subgroups = Reading(), _Subgroups()
    _state(_read_limit(spec.network_topology, "spec.networkTopology", reading), "spec.networkTopology", reading)
    for index, policy in enumerate(spec.sub_group_policy or ()):
        _read_policy(policy, f"spec.subGroupPolicy[{index}]", subgroups, reading)
    reading.slices(tuple(subgroups.slices), "spec.subGroupPolicy")
    options = read_group_options(meta, reading).with_peer_queue(spec.queue or "")
    if subgroups.groups:
        options = replace(options, peers=replace(options.peers, role_groups=tuple(subgroups.groups)))
    problem = _negative(spec)
    try:
        min_resources = read_amounts(spec.min_resources, "spec.minResources")
    except ResourceListError as error:
        min_resources, problem = {}, problem or error.problem
    minimums = {} if problem else _task_minimums(spec)
    for role, least in subgroups.minimums.items():
        minimums[role] = max(minimums.get(role, 0), least)
    return PodGroup(
        ref=GroupRef(GroupApi.VOLCANO, meta.namespace or "", meta.name or ""),
        uid=meta.uid or "",
        min_member=max(spec.min_member or 0, minimums.pop("", 0), 1),
        role_minimums=tuple(sorted(minimums.items())),
        min_resources=min_resources,
        priority=priority,
        created=meta.creation_timestamp or "",
        generation=meta.generation or 0,
        options=options,
        problem=problem,
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


def _read_policy(policy: SubGroupPolicy, where: str, subgroups: _Subgroups, reading: Reading) -> None:
    """Take in one policy of subgroups, or say why it cannot be kept."""
    roles = _selected_roles(policy.label_selector)
    keys = policy.match_label_keys or [match.label_key or "" for match in policy.match_policy or ()]
    size, count = policy.sub_group_size or 0, policy.min_sub_groups or 0
    if roles is None:
        reading.problem(f"{where}.labelSelector", f"cannot be kept: select by one of {', '.join(sorted(ROLE_LABELS))}")
        return
    if not _NUMBERING.union(ROLE_LABELS).issuperset(keys) or (_NUMBERING.intersection(keys) and not size):
        known = ", ".join(sorted(_NUMBERING))
        reading.problem(f"{where}.matchLabelKeys", f"cannot be kept: use a role's label, or with subGroupSize {known}")
        return
    if size > 0 and count > 0 and len(roles) <= 1:
        subgroups.minimums["".join(roles)] = size * count
    limit = _read_limit(policy.network_topology, f"{where}.networkTopology", reading)
    if limit is None:
        return
    if size > 0:
        if limit.hard:
            subgroups.slices.append(Slice(size, limit.level, roles))
        else:
            reading.problem(f"{where}.networkTopology.mode", "soft is not kept for subgroups of a size: say hard")
    elif roles or keys:
        each = [frozenset({role}) for role in sorted(roles)] if keys and roles else [roles]
        subgroups.groups += (RoleGroup(members, limit.level, required=limit.hard) for members in each)
    else:
        _state(limit, f"{where}.networkTopology", reading)


def _selected_roles(selector: LabelSelector | None) -> frozenset[str] | None:
    """Return the roles that a selector picks, none for everybody, or None if it asks for anything else."""
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
        reading.problem(f"{where}.mode", f"{quoted(mode)} is not hard or soft")
        return None
    if name and tier is not None:
        reading.problem(f"{where}.highestTierAllowed", f"contradicts {where}.highestTierName, which counts")
    level = name or ("" if tier is None else f"tier-{tier}")
    if not level and mode == "hard":
        reading.problem(where, "says nothing without highestTierAllowed or highestTierName")
    elif level and not is_level(level):
        reading.problem(f"{where}.highestTierName", f"{quoted(name)} is not the name of a level")
        return None
    return _Limit(level, mode == "hard") if level else None


def _state(limit: _Limit | None, where: str, reading: Reading) -> None:
    """Take in a level that is about the whole gang."""
    if limit is not None:
        reading.level("required" if limit.hard else "preferred", limit.level, where)
