"""The parts of a gang as a tree: which of them it cannot start without, and where each is to be together.

A leaf is the members of one role. A gang without parts is a leaf by itself, one with a minimum for each role has leaves
alone, and those of several replicas have parts in parts:

    part        needs      is placed together as
    serve       2 of 3
      r0        2 of 2     a unit, in one rack
        p0      4 pods
        d0      2 pods
      r1, r2    the same

The gang starts with the six pods of any two replicas. The third joins it whole, when there is room for its six pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from extender.caches import sized_cache
from extender.objects.reason import Problem
from extender.objects.topology import LabelGroup, RoleGroup, Slice, TopologyTerms

#: Roles of a tree, and parts around each: every event of every member may ask for all of them.
MOST_LEAVES: Final = 256
MOST_DEPTH: Final = 8

#: What trees that gangs share may take together (bytes).
_TREES_BYTES: Final = 1 << 20

Have: TypeAlias = Callable[[str], int]
"""How many members of a role count."""


class Standing(NamedTuple):
    """How many members of a role could have a place or have one, how many have one, and are on it or have succeeded."""

    free: int
    placed: int
    secured: int = 0


@dataclass(frozen=True, slots=True)
class Branch:
    """A part of a gang, or all of it.

    It holds with `least` of its `parts`, a leaf with `least` members of the role that it is called by. Its members are
    in one domain of the `required` level, and should be in one of the `preferred` level; every so many of them are, as
    `slices` say, whose own roles do not count. No more than `most` of its parts, or members, are placed, any number if
    that is 0. Members of a leaf beyond its least number join and leave `by` so many. `roles` are those of all leaves.
    With `has_choice` some parts do as well as others, with `has_units` members beyond the minimum may be more than one
    that join together, with `has_most` it or any of its parts has a bound.
    """

    name: str
    least: int
    parts: tuple[Branch, ...] = ()
    required: str = ""
    preferred: str = ""
    slices: tuple[Slice, ...] = ()
    most: int = 0
    by: int = 1
    roles: frozenset[str] = field(init=False, repr=False, compare=False)
    has_choice: bool = field(init=False, repr=False, compare=False)
    has_units: bool = field(init=False, repr=False, compare=False)
    has_most: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Collect the roles: they are asked for with every member."""
        own = () if self.parts else (self.name,)
        object.__setattr__(self, "roles", frozenset(own).union(*(part.roles for part in self.parts)))
        choice = bool(self.parts) and (self.least < len(self.parts) or any(part.has_choice for part in self.parts))
        object.__setattr__(self, "has_choice", choice)
        by_units = choice or self.by > 1 or any(part.has_units for part in self.parts)
        object.__setattr__(self, "has_units", by_units)
        object.__setattr__(self, "has_most", self.most > 0 or any(part.has_most for part in self.parts))

    @property
    def terms(self) -> TopologyTerms:
        """Return where its members are to be together, and those of all parts inside it."""
        slices = tuple(part for each in self.inside for part in each.sliced)
        groups = tuple(group for each in self.inside for group in each.together)
        own = tuple(replace(each, roles=frozenset()) for each in self.slices)
        return TopologyTerms(self.required, self.preferred, own + slices, groups)

    @property
    def inside(self) -> Iterator[Branch]:
        """Iterate over the parts inside it, each before its own."""
        for part in self.parts:
            yield part
            yield from part.inside

    @property
    def together(self) -> Iterator[RoleGroup]:
        """Iterate over the groups that its own levels make of its roles, the wider one first."""
        for level, firm in ((self.required, True), (self.preferred, False)):
            if level:
                yield RoleGroup(self.roles, level, required=firm)

    @property
    def sliced(self) -> Iterator[Slice]:
        """Iterate over its own slices, for its roles."""
        return (replace(each, roles=self.roles) for each in self.slices)

    def holds(self, have: Have) -> bool:
        """Tell whether members that there are do."""
        if not self.parts:
            return have(self.name) >= self.least
        return sum(part.holds(have) for part in self.parts) >= self.least

    def needs(self, standing: Callable[[str], Standing]) -> dict[str, int]:
        """Return how many members of which role do: of parts that it may choose from, of those that are nearest to it.

        First those of which members lack that are not there yet, the fewest; then those that have begun; then in their
        order.
        """
        if not self.parts:
            return {self.name: self.least} if self.least else {}
        found: dict[str, int] = {}
        for part in self.nearest(standing):
            found |= part.needs(standing)
        return found

    def nearest(self, standing: Callable[[str], Standing]) -> Sequence[Branch]:
        """Return as many of its parts as it needs: of those that it may choose from those that are nearest to it."""
        return self._ranked(standing)[: self.least]

    def choices(self, standing: Callable[[str], Standing]) -> Iterator[dict[str, int]]:
        """Yield all that would do as `needs` returns it, that first."""
        if not self.parts:
            yield {self.name: self.least} if self.least else {}
            return
        for chosen in combinations(self._ranked(standing), self.least):
            yield from _together(chosen, standing)

    def _ranked(self, standing: Callable[[str], Standing]) -> Sequence[Branch]:
        if self.least == len(self.parts):
            return self.parts
        return sorted(self.parts, key=lambda part: part.distance(standing))

    def distance(self, standing: Callable[[str], Standing]) -> tuple[int, bool, int, int]:
        """Return how many members are not there, whether none has a place, how many lack one, and are not on it."""
        there = {role: (standing(role), least) for role, least in self.needs(standing).items()}
        lacking = sum(max(least - have.free, 0) for have, least in there.values())
        gap = sum(max(least - have.placed, 0) for have, least in there.values())
        begun = any(have.placed for have, _ in there.values())
        missing = sum(max(least - have.secured, 0) for have, least in there.values())
        return lacking, not begun, gap if begun else 0, missing if begun else 0

    def unit(self, role: str, have: Have) -> Branch | None:
        """Return the outermost part inside this one that has the role and does not hold, None if all do."""
        part = next((part for part in self.parts if role in part.roles), None)
        if part is None or not part.holds(have):
            return part
        return part.unit(role, have)

    def leaf(self, role: str) -> Branch:
        """Return the part that consists of the members of a role; of roles that no part has, one that needs none."""
        leaves = (part for part in (self, *self.inside) if part.name == role and not part.parts)
        return next(leaves, None) or Branch(role, 0)

    def bars(self, role: str, have: Have) -> bool:
        """Tell whether one more member of a role would be too many, or be of a part too many, for those there are."""
        if not self.parts:
            return 0 < self.most <= have(role)
        part = next((part for part in self.parts if role in part.roles), None)
        if part is None:
            return False
        begun = [each for each in self.parts if any(map(have, each.roles))] if self.most else ()
        return (0 < self.most <= len(begun) and part not in begun) or part.bars(role, have)

    def torn(self, have: Have) -> Iterator[frozenset[str]]:
        """Yield the roles of each part inside this one that does not hold, the outermost."""
        for part in self.parts:
            if part.holds(have):
                yield from part.torn(have)
            else:
                yield part.roles

    def problem(self, where: str) -> Problem | None:
        """Return why it can be no gang, None if it can."""
        leaves = Counter(part.name for part in (self, *self.inside) if not part.parts)
        twice = next((name for name, count in leaves.items() if count > 1), "")
        if twice:
            return Problem(where, f"{twice} is there twice")
        if len(leaves) > MOST_LEAVES:
            return Problem(where, f"{len(leaves)} parts without parts are more than a gang may have, {MOST_LEAVES}")
        for part in (self, *self.inside):
            if part.parts and not 0 < part.least <= len(part.parts):
                of = f"{part.least} of {part.name or 'all'} can never be: it has {len(part.parts)} parts"
                return Problem(where, of)
            if 0 < part.most < part.least:
                return Problem(where, f"at most {part.most} of {part.name or 'all'} are too few: it needs {part.least}")
        return None


@sized_cache(_TREES_BYTES, lambda minimums: 500 + 400 * len(minimums))
def of_roles(minimums: tuple[tuple[str, int], ...]) -> Branch:
    """Return the tree of a gang that needs so many members of each role."""
    return Branch("", len(minimums), tuple(Branch(role, least) for role, least in minimums))


@dataclass(frozen=True, slots=True)
class LabelParts:
    """Members that are of one part if they agree on the labels of a `group`: `least` such parts of `size` members.

    Which parts there are is told by the members, whose role is that part. The `name` tells them from others' parts.
    """

    name: str
    group: LabelGroup
    least: int
    size: int

    def role_of(self, labels: Mapping[str, str]) -> str:
        """Return the part that a member with such labels is of, "" if none."""
        values = self.group.values_of("", labels)
        if values is None:
            return ""
        words = (f"{key.rpartition('/')[2]}={value}" for key, value in zip(self.group.keys, values, strict=True))
        return ",".join((self.name, *words))

    def branch(self, roles: frozenset[str]) -> Branch:
        """Return the parts that members with `roles` make, and an empty one for each that lacks to the least number."""
        own = (role for role in roles if role.partition(",")[0] == self.name)
        known = sorted(own, key=lambda role: (len(role), role))[:MOST_LEAVES]  # 9 before 10
        known += (f"{self.name} (part {number + 1})" for number in range(len(known), self.least))
        return Branch(self.name, self.least, tuple(Branch(role, self.size) for role in known))


def _label_size(parts: tuple[LabelParts, ...], roles: frozenset[str]) -> int:
    return 1000 + 600 * (len(roles) + sum(each.least for each in parts))


@sized_cache(_TREES_BYTES, _label_size)
def of_labels(parts: tuple[LabelParts, ...], roles: frozenset[str]) -> Branch:
    """Return the tree of a gang whose parts are told by labels, and whose members have `roles`."""
    branches = tuple(each.branch(roles) for each in parts)
    return branches[0] if len(branches) == 1 else Branch("", len(branches), branches)


class _WrittenRole(Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """A role as people write it that has a maximum too."""

    minimum: Annotated[int, Meta(ge=1)]
    maximum: Annotated[int, Meta(ge=1)]


class _WrittenPart(Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """A part as people write it: its own parts, and roles with the least number of their members."""

    name: str = ""
    minimum: int | None = None
    maximum: Annotated[int, Meta(ge=1)] | None = None
    parts: list[_WrittenPart] = msgspec.field(default_factory=list)
    roles: dict[str, Annotated[int, Meta(ge=1)] | _WrittenRole] = msgspec.field(default_factory=dict)
    required: str = ""
    preferred: str = ""
    slices: str = ""


_decode = msgspec.json.Decoder(_WrittenPart)


def read_tree(
    text: str, is_level: Callable[[str], bool], read_slices: Callable[[str], tuple[Slice, ...] | None]
) -> Branch | None:
    """Read a tree that people wrote as JSON; None for one that cannot be."""
    try:
        written = _decode.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    tree = _read(written, is_level, read_slices, 0)
    return None if tree is None or tree.problem("") is not None else tree


def _read(
    part: _WrittenPart,
    is_level: Callable[[str], bool],
    read_slices: Callable[[str], tuple[Slice, ...] | None],
    depth: int,
) -> Branch | None:
    inner = [_read(each, is_level, read_slices, depth + 1) for each in part.parts if depth < MOST_DEPTH]
    parts = [each for each in inner if each is not None]
    slices = read_slices(part.slices) if part.slices else ()
    sound = len(parts) == len(part.parts) and slices is not None
    levels = all(is_level(level) for level in (part.required, part.preferred) if level)
    if not (sound and levels and (part.parts or part.roles)):
        return None
    for role, count in part.roles.items():
        least, most = (count, 0) if isinstance(count, int) else (count.minimum, count.maximum)
        parts.append(Branch(role, least, most=most))
    least = len(parts) if part.minimum is None else part.minimum
    return Branch(part.name, least, tuple(parts), part.required, part.preferred, slices or (), part.maximum or 0)


def _together(parts: Sequence[Branch], standing: Callable[[str], Standing]) -> Iterator[dict[str, int]]:
    if not parts:
        yield {}
        return
    for first in parts[0].choices(standing):
        for rest in _together(parts[1:], standing):
            yield first | rest
