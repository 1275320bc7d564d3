"""What a gang asks of the topology: which domains its members share, and what its collectives are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations
from typing import Final, NamedTuple

from extender.caches import size_of, sized_cache
from extender.objects.meta import Requirement


class Objective(StrEnum):
    """The collective whose bandwidth a placement is chosen for."""

    ALLREDUCE = "allreduce"
    ALLTOALL = "alltoall"
    NONE = "none"


class PlacementGoal(StrEnum):
    """What a place is chosen for where a fast one breaks up more of what is whole."""

    BANDWIDTH = "bandwidth"
    BALANCED = "balanced"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class PlaceCost:
    """What a place costs, in GPUs: work that the gang does not do while it communicates, and what later gangs lose.

    `counted` is what the goal counts of the latter.
    """

    work: float
    lost: float
    counted: float


@dataclass(frozen=True, slots=True)
class PassedPlace:
    """The least costly place of those that are faster than the one chosen, or lose less.

    `speed` is its bandwidth by that of the one chosen, `gpus` how many are on each of two islands, () for others,
    within one domain of `level`, "" for any. Where it is not `exact` it loses at least so much, and was not looked at.
    """

    cost: PlaceCost
    speed: float
    level: str
    gpus: tuple[int, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class WeighedPlace:
    """What the place that was chosen for so many GPUs costs; `passed` is None where no other differed in that."""

    gpus: int
    cost: PlaceCost
    passed: PassedPlace | None


#: Where a role's name ends whose members are counted off by themselves; what follows tells them apart from others of
#: the role. No label can have it.
COUNTED_APART: Final = "\0"


@dataclass(frozen=True, slots=True)
class Slice:
    """Every `size` members, in member order, go to one domain of `level` (a level name or node label key).

    Only members with one of `roles` are counted off; without roles all are.
    """

    size: int
    level: str
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RoleGroup:
    """The members that have one of `roles` go to one domain of `level`, or should if it is not `required`."""

    roles: frozenset[str]
    level: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class LabelGroup:
    """Members with equal values of all `keys` go to one domain of `level`, or should if it is not `required`.

    Only members with one of `roles`, or without roles all, whose labels satisfy the `selector` are meant; those that
    lack a value are in no group. Without keys all that are meant are one group.
    """

    keys: tuple[str, ...]
    level: str
    roles: frozenset[str] = frozenset()
    selector: tuple[Requirement, ...] = ()
    required: bool = True

    def values_of(self, role: str, labels: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return the values by which a member is in a group, None if it is in none."""
        if (self.roles and role not in self.roles) or not all(each.matches(labels) for each in self.selector):
            return None
        values = tuple(labels.get(key, "") for key in self.keys)
        return values if all(values) else None


#: A label, as no pod can have it, by which those are told that have to be on one node for a ResourceClaim they share.
SHARED_CLAIM: Final = "resource claim"
SHARED_CLAIM_GROUPS: Final = (LabelGroup((SHARED_CLAIM,), "node"),)


#: How a set of pods is called that has to be together by what it asks for, unless something is said of levels.
IMPLIED_SET: Final = "implied: "


def subgroup_role(role: str, labels: Mapping[str, str], groups: Sequence[LabelGroup]) -> str:
    """Return the role of a member with what tells those apart that are in other groups; the role itself if in none.

    What stands before COUNTED_APART says it in words, what stands behind it is the same for none but its like.
    """
    if COUNTED_APART in role:
        return role
    found = [(at, values) for at, each in enumerate(groups) if (values := each.values_of(role, labels)) is not None]
    words = (f"{key}={value}" for at, values in found for key, value in zip(groups[at].keys, values, strict=True))
    marks = (",".join((str(at), *values)) for at, values in found)
    return f"{role}[{','.join(words)}]{COUNTED_APART}{' '.join(marks)}" if found else role


def role_in_words(role: str) -> str:
    """Return a role without what only tells it from its like."""
    return role.partition(COUNTED_APART)[0]


def with_subgroups(
    topology: TopologyRequest, members: Iterable[tuple[str, Mapping[str, str]]], groups: Sequence[LabelGroup]
) -> TopologyRequest:
    """Return what is asked of members, given by role and labels, that have `subgroup_role` in place of their roles."""
    told_apart: dict[str, set[str]] = {}
    parts: dict[tuple[int, tuple[str, ...]], set[str]] = {}
    for role, labels in members:
        named = subgroup_role(role, labels, groups)
        told_apart.setdefault(role, {role}).add(named)
        for at, group in enumerate(groups):
            if (values := group.values_of(role, labels)) is not None:
                parts.setdefault((at, values), set()).add(named)

    def every(roles: frozenset[str]) -> frozenset[str]:
        return roles.union(*(told_apart.get(role, ()) for role in roles))

    own = tuple(
        RoleGroup(frozenset(named), groups[at].level, required=groups[at].required)
        for (at, _), named in sorted(parts.items())
    )
    return replace(
        topology,
        slices=tuple(replace(each, roles=every(each.roles)) for each in topology.slices),
        role_groups=tuple(replace(each, roles=every(each.roles)) for each in topology.role_groups) + own,
    )


def nested(groups: Sequence[RoleGroup]) -> list[tuple[RoleGroup, tuple[RoleGroup, ...]]]:
    """Return the groups that are in no other, in their order, each with those inside it: all of their roles are its."""
    outer: list[tuple[RoleGroup, list[RoleGroup]]] = []
    for index, group in enumerate(groups):
        around = (
            each.roles > group.roles or (each.roles == group.roles and at < index) for at, each in enumerate(groups)
        )
        if not any(around):
            outer.append((group, []))
    for group in groups:
        if all(group is not each for each, _ in outer):
            next(inside for each, inside in outer if each.roles >= group.roles).append(group)
    return [(group, tuple(inside)) for group, inside in outer]


def overlapping(groups: Sequence[RoleGroup]) -> str:
    """Return two groups of which each has roles that the other has not, in words; "" if there are none."""
    for one, other in combinations(groups, 2):
        if one.roles & other.roles and one.roles - other.roles and other.roles - one.roles:
            return " and ".join(f"{'+'.join(sorted(each.roles))}={each.level}" for each in (one, other))
    return ""


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """What a gang asks for; levels are names or node label keys, "" where it says nothing."""

    required: str = ""
    preferred: str = ""
    slices: tuple[Slice, ...] = ()
    role_groups: tuple[RoleGroup, ...] = ()
    objective: Objective = Objective.ALLREDUCE

    @property
    def has_parts(self) -> bool:
        """Tell whether members may have to be together that are not all members."""
        return bool(self.slices or self.role_groups)


#: What a gang asks for of which nothing is said.
UNCONSTRAINED = TopologyRequest()


@dataclass(frozen=True, slots=True)
class TopologyTerms:
    """What one object says about topology; empty where it says nothing.

    A role group without roles stands for each role by itself. On a pod `required` and `preferred` are about the whole
    gang if `podset` is None; else about the pods of one set (Kueue's): those whose `podset` is the same, and those of
    the pod's own role if it is empty.
    """

    required: str = ""
    preferred: str = ""
    slices: tuple[Slice, ...] = ()
    role_groups: tuple[RoleGroup, ...] = ()
    objective: Objective | None = None
    podset: str | None = None
    label_groups: tuple[LabelGroup, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        """Hash once: terms are part of what members are counted by, with every event of every pod."""
        parts = (self.slices, self.role_groups, self.label_groups)
        content = (self.required, self.preferred, parts, self.objective, self.podset)
        object.__setattr__(self, "_hash", hash(content))

    def __hash__(self) -> int:
        """Return the precomputed hash."""
        return self._hash

    def or_else(self, other: TopologyTerms) -> TopologyTerms:
        """Return these terms, and of the other ones those of which these say nothing."""
        return replace(
            self,
            required=self.required or other.required,
            preferred=self.preferred or other.preferred,
            slices=self.slices or other.slices,
            role_groups=self.role_groups or other.role_groups,
        )


#: What an object says that says nothing.
SILENT = TopologyTerms()


#: What requests that gangs share may take together (bytes).
_REQUESTS_BYTES = 4 << 20


class Statement(NamedTuple):
    """What is said, and of which members: those of `role`, or all of the gang if that is None."""

    terms: TopologyTerms
    role: str | None


def _size(tiers: tuple[tuple[Statement, ...], ...], roles: frozenset[str]) -> int:
    """Return about what a request takes, with all that was said (bytes)."""
    return 1000 + 2 * size_of((tiers, roles))


@sized_cache(_REQUESTS_BYTES, _size)
def settle(tiers: tuple[tuple[Statement, ...], ...], roles: frozenset[str]) -> TopologyRequest:
    """Make one request of all that is said.

    Args:
        tiers: what counts most first, and within a tier what comes first in member order.
        roles: all roles that members have, "" among them if some have none.

    Each term is taken from the first statement that has it. What one set of pods asks for becomes the gang's own term
    if all members are in that set, and a role group otherwise; slices that only some roles ask for are those roles'.
    """
    statements = [statement for tier in tiers for statement in tier]
    of_gang = [terms for terms, role in statements if terms.podset is None or role is None]
    required = next((terms.required for terms in of_gang if terms.required), "")
    preferred = next((terms.preferred for terms in of_gang if terms.preferred), "")
    groups = next((terms.role_groups for terms, _ in statements if terms.role_groups), ())
    slices = _slices(tiers, roles)
    for terms, members in _podsets(statements):
        if (terms.podset or "").startswith(IMPLIED_SET) and (required or preferred or slices):
            continue
        wanted, liked = "" if required else terms.required, "" if preferred else terms.preferred
        if members == roles:
            required, preferred = required or wanted, preferred or liked
            break
        levels = ((wanted, True), (liked, False))
        groups += tuple(RoleGroup(members, level, required=firm) for level, firm in levels if level)
    objective = next((terms.objective for terms, _ in statements if terms.objective is not None), Objective.ALLREDUCE)
    return TopologyRequest(required, preferred, slices, _named(groups, roles), objective)


def _podsets(statements: Sequence[Statement]) -> list[tuple[TopologyTerms, frozenset[str]]]:
    """Return the sets of pods that ask for something by themselves, each with the roles of its pods."""
    sets: dict[tuple[str, str], tuple[TopologyTerms, set[str]]] = {}
    for terms, role in statements:
        if terms.podset is not None and role is not None:
            key = (terms.podset, "") if terms.podset else ("", role)
            sets.setdefault(key, (terms, set()))[1].add(role)
    return [(terms, frozenset(members)) for terms, members in sets.values()]


def _slices(tiers: Sequence[Sequence[Statement]], roles: frozenset[str]) -> tuple[Slice, ...]:
    """Return the slices of the first tier that has any."""
    for tier in tiers:
        said: dict[str | None, tuple[Slice, ...]] = {}
        for terms, role in tier:
            if terms.slices:
                said.setdefault(role, terms.slices)
        if None in said:
            return said[None]
        members: dict[tuple[Slice, ...], set[str]] = {}
        for role, slices in said.items():
            members.setdefault(slices, set()).add(role or "")
        if members:
            return tuple(
                Slice(each.size, each.level, frozenset() if chosen == roles else frozenset(chosen))
                for slices, chosen in members.items()
                for each in slices
            )
    return ()


def _named(groups: Sequence[RoleGroup], roles: frozenset[str]) -> tuple[RoleGroup, ...]:
    """Put a group for each role in place of one that stands for all of them."""
    named: list[RoleGroup] = []
    for group in groups:
        each = [group.roles] if group.roles else [frozenset({role}) for role in sorted(roles)]
        named += (RoleGroup(members, group.level, required=group.required) for members in each)
    return tuple(named)
