"""The pods that an operator makes for one object, and which of them make up the gang."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from extender.objects.branches import Branch
from extender.objects.keys import ROLE
from extender.objects.meta import ObjectMeta, ObjectRef, share_labels
from extender.objects.peers import Reading
from extender.objects.podgroup import GroupProgress, GroupRef, PodGroup, read_group_options
from extender.objects.podspec import PodTemplate
from extender.objects.reason import Problem


@dataclass(frozen=True, slots=True)
class RosterPart:
    """The pods of one role.

    Of `pods` that the operator makes `least` must run together, the others are extras. `first` are made at once, the
    others only when those, or pods of other roles, run. Those beyond `least` run `by` so many.
    """

    role: str
    pods: int
    least: int
    first: int
    by: int = 1

    @classmethod
    def of(cls, role: str, pods: int, least: int | None = None, *, first: int | None = None, by: int = 1) -> RosterPart:
        """Return a part of which all pods are needed and made at once, unless it is said how many."""
        return cls(role, pods, pods if least is None else least, pods if first is None else first, by)

    def __add__(self, other: RosterPart) -> RosterPart:
        """Return both as one part, of the role of this one."""
        by = self.by if self.by == other.by else 1
        return RosterPart(self.role, self.pods + other.pods, self.least + other.least, self.first + other.first, by)


def gang_of(
    ref: GroupRef, about: ObjectRef, meta: ObjectMeta, parts: Iterable[RosterPart], least: int | None = None
) -> PodGroup:
    """Return the gang that consists of `parts`.

    Args:
        ref: what the gang is called.
        about: the object that describes it.
        meta: the object's metadata, whose annotations speak for the gang.
        parts: what the operator makes.
        least: how many pods must start together, where the object says so.

    The annotation `muster.dev/min-member` of the object counts before everything else. Where pods are left out or come
    later, each role has its minimum: four workers are no substitute for a head.
    """
    # What Kueue's label on such an object says is Kueue's affair, which has decided when there are pods.
    options = replace(read_group_options(meta, Reading()), peer_queue="")
    stated = options.min_member or least
    roles = _by_role(parts)
    minimums, steps = {}, []
    if stated is None and not options.role_minimums:
        differing = any(part.least < part.pods or part.first < part.pods for part in roles.values())
        steps = [GroupProgress(part.role, part.first, part.least) for part in roles.values() if part.first < part.least]
        if steps or (differing and len(roles) > 1):
            minimums = {role: min(part.least, part.first) for role, part in roles.items()}
    at_once = sum(min(part.least, part.first) for part in roles.values())
    return PodGroup(
        ref=ref,
        uid=meta.uid or "",
        min_member=stated or max(at_once, 1),
        role_minimums=tuple(sorted((role, count) for role, count in minimums.items() if count)),
        created=meta.creation_timestamp or "",
        generation=meta.generation or 0,
        labels=share_labels(meta.labels),
        options=options,
        about=about,
        steps=tuple(steps),
        tree=_by_units(roles.values()) if minimums and not steps else None,
    )


def _by_units(parts: Iterable[RosterPart]) -> Branch | None:
    """Return the tree of a gang of which some members beyond the minimum join together; None if each joins alone."""
    leaves = tuple(Branch(part.role, part.least, by=part.by) for part in parts if part.pods)
    return Branch("", len(leaves), leaves) if any(part.by > 1 for part in leaves) else None


def role_of(template: PodTemplate | None, operators: str) -> str:
    """Return the role of pods of a template: what its own label says, else the word of its operator."""
    meta = template.metadata if template is not None else None
    return ((meta.labels if meta is not None else None) or {}).get(ROLE) or operators


def first_negative(counts: Mapping[str, int | None]) -> Problem | None:
    """Return the first of `counts`, which are by field, that is negative, as a problem."""
    negative = ((where, count) for where, count in counts.items() if count is not None and count < 0)
    return next((Problem(where, f"{count} is negative") for where, count in negative), None)


def _by_role(parts: Iterable[RosterPart]) -> dict[str, RosterPart]:
    roles: dict[str, RosterPart] = {}
    for part in parts:
        roles[part.role] = roles[part.role] + part if part.role in roles else part
    return roles
