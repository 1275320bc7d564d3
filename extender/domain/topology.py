"""What a gang asks of the topology: which domains its members share, and what its collectives are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Objective(StrEnum):
    """The collective whose bandwidth a placement is chosen for."""

    ALLREDUCE = "allreduce"
    ALLTOALL = "alltoall"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Slice:
    """Every `size` members, in member order, go to one domain of `level` (a level name or node label key)."""

    size: int
    level: str


@dataclass(frozen=True, slots=True)
class RoleGroup:
    """The members that have one of `roles` go to one domain of `level`, or should if it is not `required`."""

    roles: frozenset[str]
    level: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """What a gang asks for; levels are names or node label keys, "" where it says nothing."""

    required: str = ""
    preferred: str = ""
    slices: tuple[Slice, ...] = ()
    role_groups: tuple[RoleGroup, ...] = ()
    objective: Objective = Objective.ALLREDUCE
