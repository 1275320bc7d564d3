"""Whether a gang could be placed at all, before anybody looks at nodes."""

from __future__ import annotations

from dataclasses import dataclass

from extender.cluster.gangs import Gang, needs_object
from extender.domain.reason import Reason, Wait


@dataclass(frozen=True, slots=True)
class Candidates:
    """How many members of a gang want a place; members with a slot already are left out.

    Without the `core` it cannot start (none once it has started); the `extras` beyond minMember come behind them in
    member order, and are placed singly when there is room.
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
    if census.exist < gang.min_member:
        return Wait(Reason.MEMBERS_MISSING, {"exist": census.exist, "minMember": gang.min_member})
    if census.exist - census.gated < gang.min_member:
        numbers = {"gated": census.gated, "exist": census.exist, "minMember": gang.min_member}
        return Wait(Reason.MEMBERS_GATED, numbers)
    missing = max(gang.min_member - census.secured - slotted, 0)
    core = min(missing, gang.unplaced_count)
    return Candidates(core, gang.unplaced_count - core)


def _unfit(gang: Gang) -> Wait | None:
    """Return what is wrong with the gang's description, or None."""
    names = {"group": str(gang.ref)}
    if gang.group is None and needs_object(gang.ref):
        return Wait(Reason.POD_GROUP_MISSING, names=names)
    if gang.group is not None and gang.group.problem is not None:
        return Wait(Reason.INVALID_POD_GROUP, names=names | {"detail": str(gang.group.problem)})
    kinds = [kind for kind in gang.kinds if kind.staying]
    if any(kind.faulty for kind in kinds):
        bad = next(pod for pod in gang.unbound() if pod.problem is not None and not pod.deleting)
        return Wait(Reason.INVALID_MEMBER, names={"pod": bad.key, "detail": str(bad.problem)})
    if gang.group is None and kinds and all(kind.min_member is None for kind in kinds):
        detail = "annotation muster.dev/min-member is missing or invalid"
        first = next(pod for pod in gang.unbound() if not pod.deleting)
        return Wait(Reason.INVALID_MEMBER, names={"pod": first.key, "detail": detail})
    schedulers = sorted({kind.scheduler for kind in kinds})
    if len(schedulers) > 1:
        return Wait(Reason.MIXED_SCHEDULERS, names={"detail": ", ".join(schedulers)})
    priorities = sorted({kind.priority for kind in kinds})
    if len(priorities) > 1:
        return Wait(Reason.MIXED_PRIORITIES, names={"detail": ", ".join(map(str, priorities))})
    return None
