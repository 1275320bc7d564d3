"""The core of a gang: the members that it cannot start without, among those that have no place yet."""

from __future__ import annotations

from extender.cluster.gangs import Gang
from extender.domain.pod import Pod


def core_size(gang: Gang, slotted: int) -> int:
    """Return how many of a gang's members without a place belong to its core. Complexity: O(kinds of members).

    Args:
        gang: the gang.
        slotted: how many of its unbound members have a node promised.
    """
    missing = max(gang.min_member - gang.census().secured - slotted, sum(_gaps(gang).values()), 0)
    return min(missing, gang.unplaced_count)


def core(gang: Gang, pods: int) -> list[Pod]:
    """Return the first `pods` members to be placed, in member order: what each role lacks goes before the rest."""
    members, gaps = gang.unplaced(), _gaps(gang)
    if not gaps or pods >= len(members):
        return members[:pods]
    needed: set[str] = set()
    rest: list[str] = []
    for pod in members:
        if gaps.get(pod.role, 0):
            gaps[pod.role] -= 1
            needed.add(pod.uid)
        else:
            rest.append(pod.uid)
    needed.update(rest[: max(pods - len(needed), 0)])
    return [pod for pod in members if pod.uid in needed][:pods]


def _gaps(gang: Gang) -> dict[str, int]:
    """Return how many more members of each role must get a place, for the roles that lack any."""
    gaps = {}
    for role, minimum in gang.role_minimums.items():
        census = gang.census_of(role)
        promised = census.placeable - gang.wanted_roles.get(role, 0)
        if (gap := minimum - census.secured - promised) > 0:
            gaps[role] = gap
    return gaps
