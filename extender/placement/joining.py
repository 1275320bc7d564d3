"""Members that join others of their gang: they go to the domain in which the rest of their slice is, or of their roles.

Where a pod has to be beside others is written into its node selector, so that all who count or plan see it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np

from extender.cluster.gangs import Gang
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.objects.meta import Requirement, Selector, SelectorTerm
from extender.objects.node import CLIQUE_LABEL
from extender.objects.pod import Phase, Pod
from extender.objects.topology import COUNTED_APART, RoleGroup, Slice, TopologyRequest, nested, role_in_words
from extender.placement.candidates import PlacementTerms, binding, counted_off
from extender.placement.capacityview import Join, PodSet, PodSetRequest

_NUMBERED: Final = re.compile(r"(.*-)(\d{1,9})")
_NODE_NAME: Final = "metadata.name"
#: How many ways to count off pods without numbers are tried at most.
_MOST_WAYS: Final = 16
#: The level that no domain is of.
_NOWHERE: Final = 1 << 10

_Layers: TypeAlias = Sequence[tuple[int, int]]
"""(level, size) of slices, outermost first."""


@dataclass(frozen=True, slots=True)
class _Beside:
    """A domain that holds others of the same part: its level, a row in it, the size of a slice or the roles."""

    level: int
    row: int
    size: int = 0
    roles: tuple[str, ...] = ()


# Example. Slices of two by node: g-0 runs on n-0 and g-2 on n-1, their neighbours are gone. g-1 and g-3 come back, and
# g-4 and g-5, which never ran:
#
#   by number     0 1 | 2 3 | 4 5
#   beside        g-1: n-0, g-3: n-1; g-4 and g-5 begin a slice
#
# Pods without numbers may be of any slice: they fill up those that lack members, in member order, and the slice that is
# smaller than the others, if there is one, is the last. Any that has begun with no more may be it instead: a way each.
#
#   of five, one on n-0 and one on n-1   fill up both, one begins   n-0: 2   n-1: 2   1 anywhere
#   the ways                             n-1 is the small one       n-0: 2   n-1: 1   2 anywhere
#                                        n-0 is the small one       n-0: 1   n-1: 2   2 anywhere
@dataclass(slots=True)
class Joining:
    """Tell which members of a gang have to join others, as its slices and roles stand on the nodes now.

    Groups of roles that should be together count as if they had to, where their level is up to `liked`. Of the ways to
    count off pods without numbers it is the first, or that after `way` others.

    Attributes:
        parts: the UIDs of the members of each slice, and of each group of roles that has to be together.
        begins: the UIDs of members of a part of which none has a place: others join the first one that gets one.
    """

    gang: Gang
    table: NodeTable
    tree: Tree
    liked: int = -1
    way: int = 0
    parts: list[frozenset[str]] = field(init=False, default_factory=list)
    begins: set[str] = field(init=False, default_factory=set)
    _rows: dict[str, int] = field(default_factory=dict)
    _beside: dict[str, _Beside] = field(default_factory=dict)
    _tags: dict[str, str] = field(default_factory=dict)
    _layers: dict[str, _Layers] = field(default_factory=dict)
    _fresh: dict[str, list[Pod]] = field(default_factory=dict)
    _near: list[Joining] = field(default_factory=list)
    _ways: int = 1
    _other_ways: list[Joining] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Find the slices. Complexity: O(members)."""
        members = self.gang.told_apart(self.gang.ordered())
        rest = [pod for pod in members if not pod.deleting and pod.phase is not Phase.FAILED]
        for pod in rest:
            claim = self.table.claim_of(pod.uid)
            row = None if claim is None else self.table.row(claim.node)
            if row is not None:
                self._rows[pod.uid] = row
        groups = binding(self.gang.topology.role_groups, self.tree)
        self._gather(rest, [each for each in groups if each.required or self._level(each) <= self.liked], None)
        if self.liked >= 0 or self.way:
            return
        levels = {self._level(each) for each in groups if not each.required} - {_NOWHERE}
        self._near = [Joining(self.gang, self.table, self.tree, level) for level in sorted(levels, reverse=True)]
        ways = range(1, min(self._ways, _MOST_WAYS))
        self._other_ways = [Joining(self.gang, self.table, self.tree, way=way) for way in ways]
        self.begins.update(*(each.begins for each in self._other_ways))

    def _level(self, group: RoleGroup) -> int:
        level = self.tree.levels.find(group.level)
        return _NOWHERE if level is None else level

    def _gather(self, members: Sequence[Pod], groups: Sequence[RoleGroup], around: _Beside | None) -> None:
        rest = members
        for group, inside in nested(groups):
            chosen = [pod for pod in rest if pod.role in group.roles]
            rest = [pod for pod in rest if pod.role not in group.roles]
            self.parts.append(frozenset(pod.uid for pod in chosen))
            level = self.tree.levels.find(group.level)
            row = None if level is None else self._row_of(chosen, level)
            if level is not None and row is not None and (around is None or around.level < level):
                self._gather(chosen, inside, _Beside(level, row, roles=_told(chosen)))
            else:
                self.begins |= {pod.uid for pod in chosen if row is None}
                self._gather(chosen, inside, around)
        self._count_off(rest, around)

    def join(self, pod_set: PodSet) -> PodSet:
        """Return a pod set with the selectors by which its members join others, and what it asks of the topology then.

        Members whose slice has begun are counted off no more, or by themselves: they have roles of their own for that.
        """
        topology, before = pod_set.demand.topology, pod_set.pods
        roles = {pod.uid: self._role_of(pod) for pod in before}
        after = [
            replace(pod, role=roles[pod.uid], shape=replace(pod.shape, selector=self._selector(pod)))
            if pod.uid in self._tags or pod.uid in self._beside
            else pod
            for pod in before
        ]
        if topology.has_parts:
            topology = self._asked(topology, before, roles)
        joins = {
            new.shape: Join(pod.shape, self.tree.levels.name(beside.level), beside.size, beside.roles)
            for pod, new in zip(before, after, strict=True)
            if (beside := self._beside.get(pod.uid)) is not None
        }
        demand = PodSetRequest.of_pods(after, PlacementTerms(pod_set.demand.packing, topology))
        found = replace(pod_set, demand=demand, ever=None, joins=joins, _pods=after, _amounts=None)
        near, others = ([each.join(pod_set) for each in some] for some in (self._near, self._other_ways))
        if not (near or others):
            return found
        found.near = tuple(each for each in near if each.demand != demand)
        found.otherwise = tuple(each for each in others if each.demand != demand)
        return found

    def _role_of(self, pod: Pod) -> str:
        tag = self._tags.get(pod.uid)
        return pod.role if tag is None else f"{pod.role}{COUNTED_APART}{tag}"

    def _asked(self, topology: TopologyRequest, pods: Sequence[Pod], roles: Mapping[str, str]) -> TopologyRequest:
        """Return what is asked of pods that have other `roles` (by UID) where they are counted off by themselves."""
        own = frozenset(pod.role for pod in pods)
        slices = [replace(each, roles=each.roles or own) for each in topology.slices]
        apart: dict[str, set[str]] = {}
        for pod in pods:
            if pod.uid in self._tags:
                apart.setdefault(self._tags[pod.uid], set()).add(roles[pod.uid])
        for tag, named in apart.items():
            for level, size in self._layers.get(tag, ()):
                slices.append(Slice(size, self.tree.levels.name(level), frozenset(named)))
        groups = [
            replace(each, roles=each.roles | {roles[pod.uid] for pod in pods if pod.role in each.roles})
            for each in topology.role_groups
        ]
        return replace(topology, slices=tuple(slices), role_groups=tuple(groups))

    def with_slice(self, pod: Pod) -> list[Pod]:
        """Return the members that begin a slice together with one, itself alone if it begins none."""
        return self._fresh.get(pod.uid, [pod])

    def _row_of(self, members: Sequence[Pod], level: int) -> int | None:
        """Return a row in the domain of `level` that has the most of some members; None if none of them has a place."""
        counts: dict[int, list[int]] = {}
        path = self.tree.path(level)
        for pod in members:
            row = self._rows.get(pod.uid)
            if row is not None and path[row] >= 0:
                counts.setdefault(int(path[row]), []).append(row)
        return max(counts.values(), key=len)[0] if counts else None

    def _count_off(self, members: Sequence[Pod], around: _Beside | None) -> None:
        for layers, own in counted_off(members, self.gang.topology, self.tree):
            numbers = _numbers(own)
            if layers and numbers is not None:
                numbers = self._aligned(own, numbers, *layers[0])
            self._follow(own, layers, numbers, around)

    def _follow(
        self, members: Sequence[Pod], layers: _Layers, numbers: Mapping[str, int] | None, around: _Beside | None
    ) -> None:
        """Take in what slices of the first layer, and of those within, stand where."""
        waiting = [pod for pod in members if pod.placeable and pod.uid not in self._rows]
        if not layers:
            if around is not None:
                self._beside |= dict.fromkeys((pod.uid for pod in waiting), around)
                self._tags |= dict.fromkeys((pod.uid for pod in waiting), "") if around.size else {}
            return
        (level, size), *inner = layers
        for part in self._slices(members, level, size, numbers):
            self.parts.append(frozenset(pod.uid for pod in part))
            row = self._row_of(part, level)
            if row is not None:
                beside = _Beside(level, row, size)
                if around is not None and level <= around.level:
                    beside = replace(around, size=size)
                self._follow(part, inner, numbers, beside)
                continue
            begin = [pod for pod in part if pod.placeable and pod.uid not in self._rows]
            self.begins |= {pod.uid for pod in begin}
            self._fresh |= dict.fromkeys((pod.uid for pod in begin), begin)
            if around is not None:
                self._beside |= dict.fromkeys((pod.uid for pod in begin), around)
            if begin and (len(begin) < size or (around is not None and around.size)):
                tag = str(len(self._layers) + 1)
                self._layers[tag] = layers
                self._tags |= dict.fromkeys((pod.uid for pod in begin), tag)

    def _slices(
        self, members: Sequence[Pod], level: int, size: int, numbers: Mapping[str, int] | None
    ) -> list[list[Pod]]:
        """Return the slices of one layer: by number, else as members have places, filled up in member order."""
        parts: dict[int, list[Pod]] = {}
        if numbers is not None:
            for pod in members:
                parts.setdefault(numbers[pod.uid] // size, []).append(pod)
            return list(parts.values())
        waiting = [pod for pod in members if pod.uid not in self._rows]
        path = self.tree.path(level)
        for pod in members:
            if pod.uid in self._rows:
                parts.setdefault(int(path[self._rows[pod.uid]]), []).append(pod)
        found = [own[at : at + size] for own in parts.values() for at in range(0, len(own), size)]
        small, rest = self._small(found, size, len(members)), len(members) % size
        for part in found:
            missing = (rest if part is small else size) - len(part)
            part.extend(waiting[:missing])
            waiting = waiting[missing:]
        return found + [waiting[at : at + size] for at in range(0, len(waiting), size)]

    def _small(self, begun: Sequence[list[Pod]], size: int, members: int) -> list[Pod] | None:
        """Return which slice that has begun is smaller than the others; None for one that begins, or for none.

        Which of several it is goes by `way`; the others are counted as further ways.
        """
        able = [part for part in reversed(begun) if len(part) <= members % size]
        choices = [None, *able] if not able or len(begun) * size < members else able
        at = self.way - self._ways + 1
        self._ways += len(choices) - 1
        return choices[at] if 0 < at < len(choices) else choices[0]

    def _aligned(self, members: Sequence[Pod], numbers: Mapping[str, int], level: int, size: int) -> dict[str, int]:
        """Return the numbers counted from where slices begin: so that as few as can be are in two domains, or torn.

        Workers may be numbered from 1, behind their leader.
        """
        path = self.tree.path(level)
        there = [(numbers[pod.uid], int(path[self._rows[pod.uid]])) for pod in members if pod.uid in self._rows]

        def torn(base: int) -> tuple[int, int]:
            slices = [((number + size - base) // size, domain) for number, domain in there]
            return len(set(slices)) - len({at for at, _ in slices}), len(set(slices))

        shift = size - min(range(size), key=torn)
        return {uid: number + shift for uid, number in numbers.items()}

    def _selector(self, pod: Pod) -> Selector:
        """Return the selector of a member with that of the domain which it joins."""
        beside, selector = self._beside.get(pod.uid), pod.shape.selector
        if beside is None:
            return selector
        labels, fields = self._domain(beside)
        terms = (SelectorTerm(),) if selector.terms is None else selector.terms
        return replace(
            selector, terms=tuple(SelectorTerm((*each.labels, *labels), (*each.fields, *fields)) for each in terms)
        )

    def _domain(self, beside: _Beside) -> tuple[tuple[Requirement, ...], tuple[Requirement, ...]]:
        """Return the labels of the nodes of a domain, or their names."""
        table, levels, tree = self.table, self.tree.levels, self.tree
        node, around = table.node(beside.row), levels.levels[: beside.level + 1]
        if beside.level < tree.depth and not any(each.label in {*levels.members, CLIQUE_LABEL} for each in around):
            values = {each.label: node.labels.get(each.label, "") for each in around}
            found = (
                Requirement(label, "In", (text,)) if text else Requirement(label, "DoesNotExist")
                for label, text in values.items()
            )
            return tuple(found), ()
        path = tree.path(beside.level)
        rows = np.flatnonzero((path == path[beside.row]) & table.present[: table.rows])
        return (), (Requirement(_NODE_NAME, "In", tuple(table.node(row).name for row in rows.tolist())),)


def _told(members: Sequence[Pod]) -> tuple[str, ...]:
    """Return the roles of some members as a wait names them."""
    return tuple(sorted({role_in_words(pod.role) for pod in members}))


def _numbers(members: Sequence[Pod]) -> dict[str, int] | None:
    """Return by UID which place controllers gave to each of some members; None if they did not, or not to all."""
    found: dict[str, int] = {}
    starts: dict[object, int] = {}
    end = 0
    for pod in members:
        indices, named = pod.rank.indices, _NUMBERED.fullmatch(pod.name)
        if indices:
            family, number = (pod.rank.role, pod.role, *indices[:-1]), indices[-1]
        elif named is not None:
            family, number = (pod.rank.role, pod.role, named[1]), int(named[2])
        else:
            return None
        start = starts.setdefault(family, end)
        found[pod.uid] = start + number
        end = max(end, start + number + 1)
    return found if len(set(found.values())) == len(found) else None
