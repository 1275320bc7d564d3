"""Place a set of pods whole, or say how far it goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.gangs import member_order
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.cluster.whatif import WhatIf
from extender.objects.keys import Packing
from extender.objects.pod import Pod, Shape
from extender.objects.requests import is_extended
from extender.objects.topology import Slice, TopologyRequest, WeighedPlace, nested, role_in_words
from extender.placement.block import Block
from extender.placement.candidates import (
    Candidates,
    Eligible,
    Groups,
    PlacementTerms,
    ScopeDomains,
    firm_groups,
    group_by_shape,
    slices_of,
)
from extender.placement.complete.completesearch import GaveUp, SeatPlan
from extender.placement.complete.lastresort import place_completely
from extender.placement.ranking import best_single
from extender.placement.room import room

PodSequence: TypeAlias = Iterable[tuple[str, Shape, int]]
"""How many pods of which role and shape follow each other in member order."""

DomainRooms: TypeAlias = Callable[[int, Shape], NDArray[np.int64]]
"""Level, shape -> (domains,) how many pods of the shape each domain takes if it has the nodes to itself."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A node for every pod: pod UID -> node name; what future requests lose by it (GB/s), and what was weighed."""

    nodes: dict[str, str]
    fragmentation: float = 0.0
    weighed: WeighedPlace | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TogetherPart:
    """Pods that have to share a domain of `level`, -1 for any: how many of which shape.

    They are those with some `roles`, one slice of `size` pods (the last may have fewer), or all that are left.
    """

    level: int
    pods: Mapping[Shape, int]
    roles: tuple[str, ...] = ()
    size: int = 0

    @property
    def count(self) -> int:
        """Return how many pods these are."""
        return sum(self.pods.values())

    def whole_in(self, rooms: Mapping[Shape, NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return (domains,) how many such parts each domain takes; `rooms` is what it takes of each shape."""
        whole: NDArray[np.int64] = np.min([rooms[shape] // pods for shape, pods in self.pods.items()], axis=0)
        return whole

    def held_in(self, rooms: Mapping[Shape, NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return (domains,) how many of its pods each domain takes, of a slice beside the whole ones that it takes."""
        whole = self.whole_in(rooms) if self.size else 0
        held: NDArray[np.int64] = np.sum(
            [np.minimum(rooms[shape] - whole * pods, pods) for shape, pods in self.pods.items()], axis=0
        )
        return held


class PartShortage(NamedTuple):
    """The part for which no domain has room, and how many pods of how many fit, of slices all of them together."""

    part: TogetherPart
    fits: int
    needed: int


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why a set of pods cannot be placed.

    `fits` of `needed` pods found a place. `level` is the level of which no single domain holds them though the cluster
    would, or "". These are all pods, those with one of some `roles`, or those counted off in slices of `size` pods.
    With `gave_up` it is not proven that there is no place: that is how far the search for one came.
    """

    needed: int
    fits: int
    level: str = ""
    roles: tuple[str, ...] = ()
    size: int = 0
    gave_up: GaveUp | None = None

    @classmethod
    def of_part(cls, short: PartShortage, tree: Tree) -> Shortfall:
        """Return the shortfall of a part for which no domain has room."""
        part = short.part
        return cls(short.needed, short.fits, level=tree.levels.name(part.level), roles=part.roles, size=part.size)


Planner: TypeAlias = Callable[[Sequence[Pod], WhatIf, Candidates, PlacementTerms], Plan | Shortfall]
"""Places pods, or says how far it goes: `plan`, or `plan` beside a stopwatch."""


def plan(pods: Sequence[Pod], whatif: WhatIf, candidates: Candidates, terms: PlacementTerms) -> Plan | Shortfall:
    """Place every pod, or say why it cannot be done.

    `pods` are in member order: neighbours in it become neighbours in the tree. Pods of one shape are placed together,
    shapes from the most demanding to the least. If that order fails, the most restricted shape goes first in a second
    attempt; if that fails, too, a complete search decides. Deterministic for equal input. On success the capacity stays
    taken in `whatif`; on failure nothing is.
    """
    groups = group_by_shape(pods)
    if len(groups) == 1:
        (shape,) = groups
        if len(pods) == 1 and not candidates.settled:
            return _plan_single(pods[0], whatif, candidates, terms)
        shortage = _shortage(whatif, shape, pods, candidates.eligible(shape))
        if shortage is not None:
            return shortage  # so it is with most gangs that wait: no need to pack
    spared = candidates.sparing(groups)
    if spared is not None and isinstance(found := _place_whole(pods, groups, whatif, spared, terms), Plan):
        return found
    found = _place_whole(pods, groups, whatif, candidates, terms)
    if isinstance(found, Plan):
        return found
    tried, gave_up = found
    return replace(_shortfall(tried, whatif, candidates, terms), gave_up=gave_up)


def _place_whole(
    pods: Sequence[Pod], groups: Mapping[Shape, Sequence[Pod]], whatif: WhatIf, where: Candidates, terms: PlacementTerms
) -> Plan | tuple[list[Groups], GaveUp | None]:
    """Place every pod; else return the orders that were tried, and how far a complete search came that gave up."""
    tried: list[Groups] = []
    for shapes in shape_orders(groups, whatif.table, where.eligible):
        ordered = {shape: groups[shape] for shape in shapes}
        tried.append(ordered)
        mark = whatif.mark()
        block = Block(whatif, where, terms)
        if block.place(ordered):
            table = whatif.table
            nodes = {uid: table.node(row).name for uid, row in block.rows.items()}
            return Plan(nodes, block.fragmentation, block.weighed)
        whatif.undo(mark)
    found = None
    # Of equal pods that need no more than one domain no place is missed.
    if len(groups) > 1 or terms.topology.slices or terms.topology.role_groups:
        found = place_completely(pods, whatif, where, terms)
    if isinstance(found, SeatPlan):
        return Plan({uid: whatif.table.node(row).name for uid, row in found.rows.items()})
    return tried, found


def plan_anywhere(
    pods: Sequence[Pod], whatif: WhatIf, candidates: Candidates, terms: PlacementTerms
) -> Plan | Shortfall:
    """Place pods as `plan` does if that can be done; those that are alike and need not be together, anywhere."""
    alike = not terms.gathers and all(pod.shape == pods[0].shape for pod in pods)
    return plan(pods, whatif, candidates, replace(terms, packing=Packing.SPREAD) if alike else terms)


def _plan_single(pod: Pod, whatif: WhatIf, candidates: Candidates, terms: PlacementTerms) -> Plan | Shortfall:
    """Place a pod that joins no others where the ranking has it first."""
    best, table = best_single(whatif, candidates, terms, pod), whatif.table
    if best is None:
        shortage = _shortage(whatif, pod.shape, [pod], candidates.eligible(pod.shape))
        return shortage or _shortfall([{pod.shape: [pod]}], whatif, candidates, terms)
    row, one = np.array([best.row], dtype=np.intp), np.ones(1, dtype=np.int64)
    whatif.take_from(row, table.vector(pod.shape.requests), one)
    whatif.settle(row, pod.shape, one)
    return Plan({pod.uid: table.node(best.row).name}, best.loss)


def shape_orders(groups: Mapping[Shape, Sequence[Pod]], table: NodeTable, eligible: Eligible) -> Iterator[list[Shape]]:
    """Yield the orders worth trying: the most demanding shape first; then the one that the fewest nodes admit."""
    if len(groups) == 1:
        yield list(groups)
        return
    demanding = sorted(groups, key=lambda shape: _demand(table, shape), reverse=True)
    yield demanding
    restricted = sorted(demanding, key=lambda shape: int(eligible(shape).sum()))
    if restricted != demanding:
        yield restricted


def _shortfall(orders: Sequence[Groups], whatif: WhatIf, candidates: Candidates, terms: PlacementTerms) -> Shortfall:
    """Say how many of the pods fit together, and which level keeps the others out if it is one that does.

    `orders` are the same pods, with their shapes in the orders that were tried.
    """
    groups, apart = orders[0], PlacementTerms(terms.packing)
    needed = sum(map(len, groups.values()))
    mark, fits = whatif.mark(), 0
    for each in orders:
        fits = max(fits, Block(whatif, candidates, apart).place_most(each))
        whatif.undo(mark)
    if fits < needed and terms.gathers and len(groups) > 1:
        pods = [pod for members in groups.values() for pod in members]
        if isinstance(place_completely(pods, whatif, candidates, apart), SeatPlan):
            whatif.undo(mark)
            fits = needed
    if fits < needed or not terms.gathers:
        return Shortfall(needed, min(fits, needed - 1))
    domains, tree, topology = ScopeDomains(whatif, candidates, terms), candidates.tree, terms.topology
    sequence = sequence_of(sorted(chain.from_iterable(groups.values()), key=member_order))
    everything = {shape: len(pods) for shape, pods in groups.items()}
    short = short_part(everything, sequence, topology, tree, lambda level, shape: tree.sums(level, domains.room(shape)))
    if short is not None:
        return Shortfall.of_part(short, tree)
    # Each part by itself has room; beside each other they have not.
    slices, groups_of_roles = (part.level for part in topology.slices), topology.role_groups
    level = next(filter(None, (topology.required, *slices, *(each.level for each in groups_of_roles if each.required))))
    found = tree.levels.find(level)
    return Shortfall(needed, needed - 1, level=level if found is None else tree.levels.name(found))


def _shortage(whatif: WhatIf, shape: Shape, pods: Sequence[Pod], admitted: NDArray[np.bool_]) -> Shortfall | None:
    """Say how far pods of one shape fall short, or None if all of them fit, wherever."""
    needed = len(pods)
    fits = int(np.minimum(room(whatif, shape, admitted), needed).sum())
    return None if fits >= needed else Shortfall(needed, fits)


def _demand(table: NodeTable, shape: Shape) -> tuple[float, float]:
    """Return the sort key of shapes: the share of the largest node's accelerators it asks for, then of anything.

    What no node has is infinitely much, whether or not a node that has gone since once listed it.
    """
    largest = dict(zip(table.resources, table.allocatable.max(axis=1).tolist(), strict=True))
    requests = table.counted(shape.requests)
    shares = {r: value / capacity if (capacity := largest.get(r)) else math.inf for r, value in requests}
    extended = max((share for resource, share in shares.items() if is_extended(resource)), default=0.0)
    return (extended, max(shares.values(), default=0.0))


def sequence_of(pods: Iterable[Pod]) -> PodSequence:
    """Return how many pods of which role and shape follow each other."""
    return [(role, shape, sum(1 for _ in run)) for (role, shape), run in groupby(pods, key=_role_and_shape)]


def _role_and_shape(pod: Pod) -> tuple[str, Shape]:
    return pod.role, pod.shape


# Example. Six workers, then two servers, are asked for as "workers in slices of 4 by rack, servers in one rack":
#
#   role group   level rack, server 2
#   slices       level rack, worker 4 and worker 2: the last slice is what is left over
#   rest         none
#
# Racks with room for 6, 3 and 1 workers take one whole slice of four: 4 of 6 workers fit, and one more slice has no
# place. That the shorter slice would fit beside is not counted, as slices of different pods are counted by themselves.
def parts_of(sequence: PodSequence, topology: TopologyRequest, tree: Tree) -> tuple[TogetherPart, ...]:
    """Return the parts that pods fall into, what has to share a domain first; of nested slices only the outer ones."""
    rest, parts = list(sequence), []
    firm = firm_groups(topology.role_groups, tree)
    for outer, inside in nested(firm) if firm else ():
        members = [each for each in rest if each[0] in outer.roles]
        rest = [each for each in rest if each[0] not in outer.roles]
        for group in (outer, *inside):
            chosen = [(shape, pods) for role, shape, pods in members if role in group.roles]
            roles = set(map(role_in_words, group.roles))
            level = tree.levels.find(group.level)
            parts.append(TogetherPart(-1 if level is None else level, _counted(chosen), tuple(sorted(roles))))
    loose: list[tuple[Shape, int]] = []
    alike: dict[tuple[Slice, ...], tuple[tuple[int, int], list[tuple[Shape, int]]]] = {}
    for role, shape, pods in rest:
        if slices := slices_of(topology, role, tree):
            said = tuple(part for part in topology.slices if not part.roles or role in part.roles)
            alike.setdefault(said, (slices[0], []))[1].append((shape, pods))
        else:
            loose.append((shape, pods))
    for (level, size), own in alike.values():
        parts += _cut(level, size, own)
    parts.append(TogetherPart(-1, _counted(loose)))
    return tuple(part for part in parts if part.pods)


def short_part(
    everything: Mapping[Shape, int], sequence: PodSequence, topology: TopologyRequest, tree: Tree, rooms: DomainRooms
) -> PartShortage | None:
    """Return the first part that has no room by counting, each shape by itself; None if all have.

    `everything` is how many pods of each shape there are. Where counting finds no room, planning does not either.
    """
    required = tree.levels.find(topology.required) if topology.required else None
    if required is not None and (short := _short(TogetherPart(required, everything), rooms)) is not None:
        return short
    if not (topology.slices or topology.role_groups):
        return None
    slices: dict[tuple[int, int], dict[frozenset[tuple[Shape, int]], list[TogetherPart]]] = {}
    for part in parts_of(sequence, topology, tree):
        if part.size:
            of_size = slices.setdefault((part.level, part.size), {})
            of_size.setdefault(frozenset(part.pods.items()), []).append(part)
        elif part.level >= 0 and (short := _short(part, rooms)) is not None:
            return short
    if not all(group.required for group in topology.role_groups):
        return None  # members with those roles are counted off only where they find no domain of their own
    around = -1 if required is None else required
    found = (_short_of_slices(list(each.values()), around, tree, rooms) for each in slices.values())
    return next((short for short in found if short is not None), None)


def _short(part: TogetherPart, rooms: DomainRooms) -> PartShortage | None:
    there = {shape: rooms(part.level, shape) for shape in part.pods}
    most = int(part.held_in(there).max(initial=0))
    return None if most >= part.count else PartShortage(part, most, part.count)


def _short_of_slices(
    kinds: Sequence[Sequence[TogetherPart]], around: int, tree: Tree, rooms: DomainRooms
) -> PartShortage | None:
    """Count the slices of one size, alike ones together, that find room in one domain of the level `around`."""
    needed, fits, short = 0, np.zeros(1, dtype=np.int64), kinds[0][0]
    for kind in kinds:
        part = kind[0]
        whole = part.whole_in({shape: rooms(part.level, shape) for shape in part.pods})
        found = np.minimum(_sum_around(whole, part.level, around, tree), len(kind))
        if found.max(initial=0) < len(kind):
            short = part
        needed += part.count * len(kind)
        fits = fits + found * part.count
    most = int(fits.max(initial=0))
    return None if most >= needed else PartShortage(short, most, needed)


def _sum_around(values: NDArray[np.int64], level: int, around: int, tree: Tree) -> NDArray[np.int64]:
    """Return (domains of `around`,) the sum of (domains of `level`,) `values` in each; all of them for -1."""
    if around < 0 or around >= level:
        return np.array([values.sum()]) if around < 0 else values
    inner, outer = tree.path(level), tree.path(around)
    inside = (inner >= 0) & (outer >= 0)
    belongs = np.full(values.shape[0], -1, dtype=np.int64)
    belongs[inner[inside]] = outer[inside]
    sums = np.zeros(int(outer.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(sums, belongs[belongs >= 0], values[belongs >= 0])
    return sums


def _cut(level: int, size: int, runs: Iterable[tuple[Shape, int]]) -> Iterator[TogetherPart]:
    """Yield slices as they are counted off; the last may be shorter."""
    begun: dict[Shape, int] = {}
    left = size
    for shape, run in runs:
        pods = run
        if left == size and pods >= size:
            whole = TogetherPart(level, {shape: size}, size=size)
            yield from (whole for _ in range(pods // size))
            pods %= size
        while pods:
            taken = min(pods, left)
            begun[shape] = begun.get(shape, 0) + taken
            pods, left = pods - taken, left - taken
            if not left:
                yield TogetherPart(level, begun, size=size)
                begun, left = {}, size
    if begun:
        yield TogetherPart(level, begun, size=size)


def _counted(runs: Iterable[tuple[Shape, int]]) -> dict[Shape, int]:
    counts: dict[Shape, int] = {}
    for shape, pods in runs:
        counts[shape] = counts.get(shape, 0) + pods
    return counts
