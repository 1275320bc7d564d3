"""The pods that an operator makes for one object, and which of them make up the gang."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from extender.domain import keys
from extender.domain.membership import GroupRef
from extender.domain.objectref import ObjectRef
from extender.domain.peers import Reading
from extender.domain.podgroup import PodGroup, Step, read_group_options
from extender.domain.reason import Problem
from extender.wire.kubernetes import ObjectMeta
from extender.wire.workloads import PodTemplate


@dataclass(frozen=True, slots=True)
class Part:
    """The pods of one role.

    Of `pods` that the operator makes `least` must run together, the others are extras. `first` are made at once, the
    others only when those, or pods of other roles, run.
    """

    role: str
    pods: int
    least: int
    first: int

    @classmethod
    def of(cls, role: str, pods: int, least: int | None = None, *, first: int | None = None) -> Part:
        """Return a part of which all pods are needed and made at once, unless it is said how many."""
        return cls(role, pods, pods if least is None else least, pods if first is None else first)

    def __add__(self, other: Part) -> Part:
        """Return both as one part, of the role of this one."""
        return Part(self.role, self.pods + other.pods, self.least + other.least, self.first + other.first)


def gang_of(
    ref: GroupRef, about: ObjectRef, meta: ObjectMeta, parts: Iterable[Part], least: int | None = None
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
        steps = [Step(part.role, part.first, part.least) for part in roles.values() if part.first < part.least]
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
        options=options,
        about=about,
        steps=tuple(steps),
    )


def object_ref(api_version: str, kind: str, meta: ObjectMeta) -> ObjectRef:
    """Return a reference to the object with these metadata."""
    return ObjectRef(api_version, kind, meta.namespace or "", meta.name or "", meta.uid or "")


def role_of(template: PodTemplate | None, operators: str) -> str:
    """Return the role of pods of a template: what its own label says, else the word of its operator."""
    meta = template.metadata if template is not None else None
    return ((meta.labels if meta is not None else None) or {}).get(keys.ROLE) or operators


def first_negative(counts: Mapping[str, int | None]) -> Problem | None:
    """Return the first of `counts`, which are by field, that is negative, as a problem."""
    negative = ((where, count) for where, count in counts.items() if count is not None and count < 0)
    return next((Problem(where, f"{count} is negative") for where, count in negative), None)


def _by_role(parts: Iterable[Part]) -> dict[str, Part]:
    roles: dict[str, Part] = {}
    for part in parts:
        roles[part.role] = roles[part.role] + part if part.role in roles else part
    return roles
