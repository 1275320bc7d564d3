"""Whether a gang could be placed at all, before anybody looks at nodes."""

from __future__ import annotations

from dataclasses import dataclass

from extender.cluster.gangs import Gang, needs_object
from extender.domain.pod import Pod
from extender.domain.reason import Reason, Wait


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a gang wants placed.

    `core` are the members without which it cannot start (empty once it has started), `extras` those beyond minMember,
    which are placed singly when there is room. Both in member order; members with a slot already are left out.
    """

    core: tuple[Pod, ...]
    extras: tuple[Pod, ...]


def judge(gang: Gang, slotted: int, waiting: list[Pod]) -> Candidates | Wait:
    """Say which members of a gang want a place, or why it cannot be considered.

    Args:
        gang: the gang.
        slotted: how many of its unbound members have a slot already.
        waiting: its placeable members without a slot, in member order.
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
    return Candidates(core=tuple(waiting[:missing]), extras=tuple(waiting[missing:]))


def _unfit(gang: Gang) -> Wait | None:
    """Return what is wrong with the gang's description, or None."""
    names = {"group": str(gang.ref)}
    if gang.group is None and needs_object(gang.ref):
        return Wait(Reason.POD_GROUP_MISSING, names=names)
    if gang.group is not None and gang.group.problem is not None:
        return Wait(Reason.INVALID_POD_GROUP, names=names | {"detail": str(gang.group.problem)})
    unbound = [pod for pod in gang.unbound() if not pod.deleting]
    bad = next((pod for pod in unbound if pod.problem is not None), None)
    if bad is not None:
        return Wait(Reason.INVALID_MEMBER, names={"pod": bad.key, "detail": str(bad.problem)})
    if gang.group is None and unbound and all(pod.options.min_member is None for pod in unbound):
        detail = "annotation muster.dev/min-member is missing or invalid"
        return Wait(Reason.INVALID_MEMBER, names={"pod": unbound[0].key, "detail": detail})
    schedulers = sorted({pod.scheduler_name for pod in unbound})
    if len(schedulers) > 1:
        return Wait(Reason.MIXED_SCHEDULERS, names={"detail": ", ".join(schedulers)})
    priorities = sorted({pod.priority for pod in unbound})
    if len(priorities) > 1:
        return Wait(Reason.MIXED_PRIORITIES, names={"detail": ", ".join(map(str, priorities))})
    return None
