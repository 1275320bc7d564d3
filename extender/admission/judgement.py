"""Whether a gang could be placed at all, before anybody looks at nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.cluster.core import core_size
from extender.cluster.gangs import Gang, needs_object
from extender.domain.keys import Options
from extender.domain.reason import Reason, Wait


@dataclass(frozen=True, slots=True)
class Candidates:
    """How many members of a gang want a place; members with a slot already are left out.

    Without the `core` it cannot start (none once it has started): first what roles lack of their own minimum, then the
    others in member order. The `extras` beyond minMember are placed singly when there is room.
    """

    core: int
    extras: int


def judge(gang: Gang, slotted: int) -> Candidates | Wait:
    """Say how many members of a gang want a place, or why it cannot be considered. Complexity: O(kinds of members).

    Args:
        gang: the gang.
        slotted: how many of its unbound members have a slot already.
    """
    wait = _unfit(gang)
    if wait is not None:
        return wait
    census = gang.census()
    minimums = gang.role_minimums
    if (missing := _role_missing(gang, minimums)) is not None:
        return missing
    if census.exist < gang.min_member:
        return Wait(Reason.MEMBERS_MISSING, {"exist": census.exist, "minMember": gang.min_member})
    if (gated := _role_gated(gang, minimums)) is not None:
        return gated
    if census.exist - census.gated < gang.min_member:
        numbers = {"gated": census.gated, "exist": census.exist, "minMember": gang.min_member}
        return Wait(Reason.MEMBERS_GATED, numbers)
    core = core_size(gang, slotted)
    return Candidates(core, gang.unplaced_count - core)


def _role_missing(gang: Gang, minimums: Mapping[str, int]) -> Wait | None:
    """Return the first role of which too few members exist."""
    for role, minimum in sorted(minimums.items()):
        if (exist := gang.census_of(role).exist) < minimum:
            return Wait(Reason.ROLE_MEMBERS_MISSING, {"exist": exist, "minMember": minimum}, {"role": role})
    return None


def _role_gated(gang: Gang, minimums: Mapping[str, int]) -> Wait | None:
    """Return the first role of which too few members are free of scheduling gates."""
    for role, minimum in sorted(minimums.items()):
        census = gang.census_of(role)
        if census.exist - census.gated < minimum:
            numbers = {"gated": census.gated, "exist": census.exist, "minMember": minimum}
            return Wait(Reason.ROLE_MEMBERS_GATED, numbers, {"role": role})
    return None


def _unfit(gang: Gang) -> Wait | None:
    """Return what is wrong with the gang's description, or None."""
    names = {"kind": gang.ref.api.kind if gang.group is None else gang.group.kind, "group": str(gang.ref)}
    if gang.group is None and needs_object(gang.ref):
        return Wait(Reason.POD_GROUP_MISSING, names=names)
    if gang.group is not None and gang.group.problem is not None:
        return Wait(Reason.INVALID_POD_GROUP, names=names | {"detail": str(gang.group.problem)})
    kinds = [kind for kind in gang.kinds if kind.staying]
    if any(kind.faulty for kind in kinds):
        bad = next(pod for pod in gang.unbound() if pod.problem is not None and not pod.deleting)
        return Wait(Reason.INVALID_MEMBER, names={"pod": bad.key, "detail": str(bad.problem)})
    if gang.group is None and kinds and not any(_states_minimum(kind.options) for kind in kinds):
        detail = f"annotation {gang.ref.api.size_annotation} is missing or invalid"
        first = next(pod for pod in gang.unbound() if not pod.deleting)
        return Wait(Reason.INVALID_MEMBER, names={"pod": first.key, "detail": detail})
    schedulers = sorted({kind.scheduler for kind in kinds})
    if len(schedulers) > 1:
        return Wait(Reason.MIXED_SCHEDULERS, names={"detail": ", ".join(schedulers)})
    priorities = sorted({kind.priority for kind in kinds})
    if len(priorities) > 1:
        return Wait(Reason.MIXED_PRIORITIES, names={"detail": ", ".join(map(str, priorities))})
    return None


def _states_minimum(options: Options) -> bool:
    return options.min_member is not None or bool(options.role_minimums)
