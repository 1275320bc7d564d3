"""Where pods may be placed: the nodes that admit them, and the domains that may have to hold a gang.

Every node has a code: why it does not admit pods of a shape, if it does not.

Plans read the codes as a mask, explanations as the causes that they count: so both say the same of every node.

A worked example. A shape selects `pool=fast`; six nodes, the third is cordoned, the fourth has a taint, the fifth is in
another pool. kube-scheduler has refused the last one to the gang, and the first is not of the queue's flavor:

    after                       codes                                             mask
    Eligibility.codes(shape)    0  0  UNSCHEDULABLE  TAINTED  MISMATCHED  0       1 1 0 0 0 1
    .within(flavor)             OTHER_FLAVOR  0  ..  ..  ..  0                    0 1 0 0 0 1
    .without(REFUSED, ...)      OTHER_FLAVOR  0  ..  ..  ..  REFUSED              0 1 0 0 0 0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.caches import SizedDict, size_of
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.cluster.whatif import WhatIf
from extender.objects.keys import Packing
from extender.objects.meta import Requirement, Selector
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.objects.podspec import Taint, Toleration, first_untolerated
from extender.objects.topology import UNCONSTRAINED, RoleGroup, Slice, TopologyRequest
from extender.placement.complete.regions import Regions
from extender.placement.room import room

_ANYWHERE: Final = Selector()
#: Which nodes have some labels is asked of their labels alone.
_TOLERATES_ALL: Final = (Toleration("", "Exists", "", ""),)

#: Taints that say how a node is and not for whom it is there. Source: k8s.io/api/core/v1/well_known_taints.go and
#: k8s.io/cloud-provider/api/well_known_taints.go.
_STATE_TAINTS: Final = {
    "node.kubernetes.io/unschedulable": "cordoned",
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "unreachable",
    "node.kubernetes.io/memory-pressure": "short of memory",
    "node.kubernetes.io/disk-pressure": "short of disk space",
    "node.kubernetes.io/pid-pressure": "short of process IDs",
    "node.kubernetes.io/network-unavailable": "without network",
    "node.cloudprovider.kubernetes.io/uninitialized": "not initialized yet",
}

_Constraints: TypeAlias = tuple[Selector, tuple[Toleration, ...]]


class NodeCode(IntEnum):
    """Why a node does not admit pods of a shape; of several causes the first in this order.

    REFUSED: kube-scheduler left the node out although it was planned. REJECTED: its kubelet rejected such a pod.
    """

    ABSENT = -1
    ADMITTED = 0
    UNSCHEDULABLE = 1
    TAINTED = 2
    MISMATCHED = 3
    OTHER_FLAVOR = 4
    REFUSED = 5
    REJECTED = 6


@dataclass(frozen=True, slots=True)
class _CachedCodes:
    """Codes, the mask of the nodes that admit, and the newest change of the table that both have taken in.

    `avoided` are the nodes to be used last. `constraints` is how many bytes those take that the nodes were looked at
    for.
    """

    codes: NDArray[np.int8]
    mask: NDArray[np.bool_]
    avoided: NDArray[np.bool_]
    seen: int
    constraints: int

    @property
    def size(self) -> int:
        """Return about how many bytes codes, mask and constraints take."""
        return 500 + self.codes.nbytes + self.mask.nbytes + self.avoided.nbytes + self.constraints


class Eligibility:
    """Answer which rows admit a shape, and evaluate only nodes that changed since the last time asked.

    Taints, node selector and required node affinity decide. A node that is announced to go admits none, whatever
    they tolerate: the whole gang would soon have to start again.

    Memory: three bytes per node and distinct set of constraints, and these; sets not asked for in a while are dropped.
    """

    #: Bytes that are kept; a cluster with more constraints in use at once evaluates all nodes now and then.
    MOST_BYTES = 16 << 20

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._entries: dict[_Constraints, _CachedCodes] = {}
        self._bytes = 0

    def on(self, table: NodeTable) -> Eligibility:
        """Return the same for a copy of the table, for use in another thread; what is known already is shared."""
        copy = Eligibility(table)
        copy._entries, copy._bytes = dict(self._entries), self._bytes
        return copy

    def mask(self, shape: Shape) -> NDArray[np.bool_]:
        """Return (rows,) whether each node admits pods of `shape`. The array belongs to the cache: do not change it."""
        return self._entry(shape.selector, shape.tolerations).mask

    def avoided(self, shape: Shape) -> NDArray[np.bool_]:
        """Return (rows,) which nodes are the last to be used for pods of `shape`; do not change it.

        They have a taint PreferNoSchedule that the pods do not tolerate, or are none of those that the pods prefer.
        """
        return self._entry(shape.selector, shape.tolerations).avoided

    def codes(self, shape: Shape) -> NDArray[np.int8]:
        """Return (rows,) the NodeCode of each node. The array belongs to the cache: do not change it."""
        return self._entry(shape.selector, shape.tolerations).codes

    def labelled(self, labels: tuple[tuple[str, str], ...]) -> NDArray[np.bool_]:
        """Return (rows,) which nodes have all of these labels, without those that are announced to go."""
        return self._entry(Selector(equals=labels), _TOLERATES_ALL).mask

    def _entry(self, selector: Selector, tolerations: tuple[Toleration, ...]) -> _CachedCodes:
        table, constraints = self._table, (selector, tolerations)
        entry = self._entries.pop(constraints, None)
        if entry is None or entry.seen < table.last_change:
            self._bytes -= 0 if entry is None else entry.size
            # New arrays: callers keep the former ones.
            codes, avoided = np.full(table.rows, NodeCode.ABSENT, dtype=np.int8), np.zeros(table.rows, dtype=np.bool_)
            seen = -1
            if entry is not None:
                known = entry.codes.shape[0]
                codes[:known], avoided[:known], seen = entry.codes, entry.avoided, entry.seen
            changed = table.changed_at[: table.rows] > seen
            there = changed & table.present[: table.rows]
            codes[changed], codes[there], avoided[changed] = NodeCode.ABSENT, NodeCode.ADMITTED, False
            anywhere, prefers = selector == _ANYWHERE, bool(selector.preferred)
            for row in np.flatnonzero(there).tolist():  # most nodes have nothing that matters: no call for these
                node = table.node(row)
                if not anywhere or node.taints or node.deleting:
                    codes[row] = _code(node, selector, tolerations)
                if prefers or node.soft_taints:
                    avoided[row] = _is_avoided(node, selector, tolerations)
            size = size_of(constraints) if entry is None else entry.constraints
            mask = codes == NodeCode.ADMITTED
            entry = _CachedCodes(codes, mask, avoided & mask, table.last_change, size)
            self._bytes += entry.size
        self._entries[constraints] = entry
        while self._bytes > self.MOST_BYTES and len(self._entries) > 1:
            self._bytes -= self._entries.pop(next(iter(self._entries))).size
        return entry


#: What the masks of one filter may take that are remembered by shape (bytes).
_MASKS_BYTES = 8 << 20


class NodeFilter:
    """Which nodes admit a shape, with all that narrows them: flavor, kubelets, kube-scheduler. Callable as a mask.

    Every narrowing returns a new filter. Valid as long as no node changes.
    """

    def __init__(
        self,
        codes: Callable[[Shape], NDArray[np.int8]],
        mask: Callable[[Shape], NDArray[np.bool_]],
        avoided: Callable[[Shape], NDArray[np.bool_]],
    ) -> None:
        """Answer with `codes`, with `mask`, which says where they are ADMITTED, and with nodes that are used last."""
        self.codes = codes
        self.avoided = avoided
        self._mask = mask

    @classmethod
    def of(cls, eligibility: Eligibility) -> NodeFilter:
        """Return the filter that taints, node selectors and required node affinity make."""
        return cls(eligibility.codes, eligibility.mask, eligibility.avoided)

    def __call__(self, shape: Shape) -> NDArray[np.bool_]:
        """Return (rows,) which nodes admit pods of `shape`; do not change it."""
        return self._mask(shape)

    def within(self, mask: NDArray[np.bool_], code: NodeCode = NodeCode.OTHER_FLAVOR) -> NodeFilter:
        """Return the filter without the nodes outside `mask`, (rows,), which get `code`."""
        return self._narrowed(lambda _: ~mask, code)

    def without(self, code: NodeCode, rows_of: Callable[[Shape], Sequence[int]]) -> NodeFilter:
        """Return the filter without the rows that `rows_of` names for a shape, which get `code`."""

        def left_out(shape: Shape) -> NDArray[np.bool_] | None:
            rows = rows_of(shape)
            if not rows:
                return None
            mask = np.zeros(self._mask(shape).shape[0], dtype=np.bool_)
            mask[rows] = True
            return mask

        return self._narrowed(left_out, code)

    def _narrowed(self, left_out: Callable[[Shape], NDArray[np.bool_] | None], code: NodeCode) -> NodeFilter:
        masks: SizedDict[Shape, NDArray[np.bool_]] = SizedDict(_MASKS_BYTES)

        def mask(shape: Shape) -> NDArray[np.bool_]:
            known = masks.get(shape)
            if known is None:
                out = left_out(shape)
                known = self._mask(shape) if out is None else self._mask(shape) & ~out
                masks.keep(shape, known, size_of(shape) + known.nbytes)
            return known

        def codes(shape: Shape) -> NDArray[np.int8]:
            before, out = self.codes(shape), left_out(shape)
            if out is None:
                return before
            # Of two causes the first in order counts, in whatever order filters were narrowed.
            later = (before == NodeCode.ADMITTED) | (before > code)
            return np.where(out & later, np.int8(code), before)

        return NodeFilter(codes, mask, self.avoided)


def _code(node: Node, selector: Selector, tolerations: tuple[Toleration, ...]) -> NodeCode:
    if node.taints or node.deleting:
        if node.doomed or _state(node, tolerations):
            return NodeCode.UNSCHEDULABLE
        if first_untolerated(node.taints, tolerations) is not None:
            return NodeCode.TAINTED
    if selector == _ANYWHERE or selector.matches(node.name, node.labels):
        return NodeCode.ADMITTED
    return NodeCode.MISMATCHED


def _is_avoided(node: Node, selector: Selector, tolerations: tuple[Toleration, ...]) -> bool:
    if first_untolerated(node.soft_taints, tolerations) is not None:
        return True
    return bool(selector.preferred) and not any(term.matches(node.name, node.labels) for term in selector.preferred)


def _state(node: Node, tolerations: tuple[Toleration, ...]) -> str:
    """Return in what state a node is that keeps pods with these tolerations off it, "" for none."""
    for taint in node.taints:
        if taint.key in _STATE_TAINTS and first_untolerated((taint,), tolerations) is not None:
            return _STATE_TAINTS[taint.key]
    return ""


def causes(nodes: Sequence[Node], shape: Shape) -> Counter[str]:
    """Count in words why the taints, states or labels of nodes keep pods of a shape off them, as those of each do.

    Nodes with equal taints are looked at once, and labels key by key: an explanation asks about thousands of nodes.
    """
    found, kept_off, bare = Counter[str](), dict[tuple[bool, tuple[Taint, ...]], str](), list[Node]()
    for node in nodes:
        if not (node.taints or node.deleting):
            bare.append(node)
            continue
        key = node.deleting, node.taints
        words = kept_off.get(key)
        if words is None:
            words = kept_off[key] = _kept_off(node, shape.tolerations)
        if words:
            found[words] += 1
        else:
            bare.append(node)
    return found + _mismatches([node.labels for node in bare], shape.selector)


def _kept_off(node: Node, tolerations: tuple[Toleration, ...]) -> str:
    """Return in words why a node's taints or state keep pods with these tolerations off it, "" if they do not."""
    if words := node.doomed or _state(node, tolerations):
        return words
    untolerated = first_untolerated(node.taints, tolerations)
    if untolerated is None:
        return ""
    value = f"={untolerated.value}" if untolerated.value else ""
    return f"taint {untolerated.key}{value}:{untolerated.effect}"


def _mismatches(left: list[Mapping[str, str]], selector: Selector) -> Counter[str]:
    """Count what of a node selector, or of a node affinity, the labels of nodes that it does not match lack first."""
    found = Counter[str]()
    for key, value in selector.equals:
        before, left = len(left), [labels for labels in left if labels.get(key) == value]
        found[f"not {key}={value}"] += before - len(left)
    if selector.terms is not None and len(selector.terms) != 1:
        words = "no term of the node affinity matches" if selector.terms else "the node affinity matches no node"
        found[words] += len(left)
    elif selector.terms:
        for requirement in selector.terms[0].labels:
            before, left = len(left), [labels for labels in left if requirement.matches(labels)]
            found[f"not {_condition(requirement)}"] += before - len(left)
        found["not one of the nodes named in the node affinity"] += len(left)
    return +found  # without what none lacks


def _condition(requirement: Requirement) -> str:
    """Return a condition on a label: `zone In a, b`."""
    return f"{requirement.key} {requirement.operator} {', '.join(requirement.values)}".rstrip()


Eligible: TypeAlias = Callable[[Shape], NDArray[np.bool_]]
"""Shape -> (rows,) which nodes admit it."""

Groups: TypeAlias = Mapping[Shape, Sequence[Pod]]
"""Pods by shape, shapes in the order in which they are placed."""

Numbers: TypeAlias = Mapping[Shape, Sized]
"""Something for each shape that has as many entries as there are pods: the pods, or only their number as a range."""


def group_by_shape(pods: Sequence[Pod]) -> dict[Shape, list[Pod]]:
    """Group pods by shape, each group in the order given."""
    groups: dict[Shape, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(pod.shape, []).append(pod)
    return groups


#: More of any resource than a domain has to have (2^48 bytes are 256 TiB); of 10,000 nodes the sum still is an int64.
_MUCH: Final = 1 << 48

#: Domains of one level that are tried for pods of several shapes: counting says that each shape by itself fits there,
#: which for most is the whole truth.
MOST_SCOPES = 16


@dataclass(frozen=True, slots=True)
class PlacementTerms:
    """How a gang wants to be placed: spread or packed, and what it asks of the topology."""

    packing: Packing = Packing.BINPACK
    topology: TopologyRequest = UNCONSTRAINED

    @property
    def gathers(self) -> bool:
        """Tell whether anything has to be in one domain."""
        topology = self.topology
        return bool(topology.required or topology.slices or any(group.required for group in topology.role_groups))


@dataclass(frozen=True, slots=True)
class Candidates:
    """Where pods may be placed.

    `eligible` says which nodes admit a shape; `settled` how many GPUs the gang has on which row already, zero for a
    node where it has members without any. `memory` is what searches for the same pods have found out before. `avoided`
    says which nodes are used last for a shape, None for none.
    """

    tree: Tree
    eligible: Eligible
    settled: Mapping[int, int] = field(default_factory=dict)
    memory: dict[Hashable, Regions] | None = field(default=None, compare=False)
    avoided: Eligible | None = None

    def sparing(self, shapes: Collection[Shape]) -> Candidates | None:
        """Return the same candidates without the nodes that are used last; None if there are none."""
        avoided = self.avoided
        if avoided is None or not any(avoided(shape).any() for shape in shapes):
            return None
        return replace(self, eligible=lambda shape: self.eligible(shape) & ~avoided(shape), avoided=None)

    def within(self, mask: NDArray[np.bool_]) -> Candidates:
        """Return the same candidates with no nodes but those of `mask`, (rows,)."""
        return replace(self, eligible=lambda shape: self.eligible(shape) & mask)


@dataclass(frozen=True, slots=True)
class PlacementScope:
    """A domain that is to hold everything: its level, and (rows,) the nodes in it."""

    level: int
    mask: NDArray[np.bool_]


class ScopeDomains:
    """Tell which domains come into question for pods that belong together.

    Rows of members that have a node already, `settled`, keep pods that join them near.
    """

    def __init__(self, whatif: WhatIf, candidates: Candidates, terms: PlacementTerms) -> None:
        self._whatif = whatif
        self._candidates = candidates
        self._terms = terms
        self._tree = candidates.tree

    def levels(self, groups: Groups, settled: Collection[int]) -> list[int]:
        """Return the levels of which one domain may have to hold everything, the most wanted first; -1: any will do."""
        levels, topology = self._tree.levels, self._terms.topology
        required = levels.find(topology.required) if topology.required else -1
        preferred = levels.find(topology.preferred) if topology.preferred else None
        if required is None:
            return []
        narrowest = required if preferred is None else max(preferred, required)
        if settled and any(each.whole_gpus for each in groups):  # pods that compute with others come as near as can be
            common, _ = self._tree.common(np.array(list(settled), dtype=np.intp))
            narrowest = max(common, required)
        return list(range(narrowest, required - 1, -1))

    def reachable(self, level: int, settled: Collection[int]) -> NDArray[np.bool_]:
        """Return (rows,) the nodes that may be used: those around the settled members where there are any."""
        everywhere: NDArray[np.bool_] = np.ones(self._whatif.free.shape[1], dtype=np.bool_)
        if level < 0 or not settled:
            return everywhere
        rows = np.array(list(settled), dtype=np.intp)
        around: NDArray[np.bool_] = ~everywhere
        if level >= self._tree.depth:
            around[rows] = True
            return around
        path = self._tree.domains[level]
        around[:] = np.isin(path, path[rows]) & (path >= 0)
        return around

    def roomy(self, level: int, groups: Numbers, settled: Collection[int]) -> NDArray[np.bool_]:
        """Return (rows,) the nodes in domains of `level` that may hold all by counting; all there are for -1."""
        reachable = self.reachable(level, settled)
        if level < 0:
            return reachable
        holds = self.holding(level, groups, reachable)
        path = self._tree.path(level)
        mask = reachable & (path >= 0)
        required = self._tree.levels.find(self._terms.topology.required) if self._terms.topology.required else None
        if required is not None:  # a node without a domain of that level shares none with others
            mask &= self._tree.path(required) >= 0
        mask[mask] = holds[path[mask]]
        return mask

    def holding(self, level: int, groups: Numbers, mask: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Return (domains,) which domains of `level` may hold all, on the nodes of `mask` alone.

        Each shape by itself fits there, and there is as much of each resource as all of them ask for.
        """
        rooms = {shape: self.room(shape, mask) for shape in groups}
        holds = [
            self._tree.sums(level, np.minimum(rooms[shape], len(pods))) >= len(pods) for shape, pods in groups.items()
        ]
        if len(groups) > 1:
            holds.append(self._enough(level, groups, rooms))
        every: NDArray[np.bool_] = np.logical_and.reduce(holds)
        return every

    def _enough(self, level: int, groups: Numbers, rooms: Mapping[Shape, NDArray[np.int64]]) -> NDArray[np.bool_]:
        """Return (domains,) which have as much of each resource as all shapes ask for together, where any has room."""
        whatif, asked, usable = self._whatif, dict[int, int](), dict[int, NDArray[np.bool_]]()
        for shape, pods in groups.items():
            vector = whatif.table.vector(shape.requests)
            for column, amount in zip(vector.columns.tolist(), vector.amounts.tolist(), strict=True):
                if amount > 0:
                    asked[column] = asked.get(column, 0) + amount * len(pods)
                    usable[column] = (rooms[shape] > 0) | usable.get(column, False)
        enough: NDArray[np.bool_] = np.ones(self._tree.sums(level, np.zeros_like(rooms[shape])).shape, dtype=np.bool_)
        for column, amount in asked.items():
            free = np.where(usable[column], np.clip(whatif.free[column], 0, _MUCH), 0)
            enough &= self._tree.sums(level, free) >= min(amount, _MUCH)
        return enough

    def room(self, shape: Shape, mask: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return (rows,) how many pods of `shape` each node takes, of `mask` alone if it is given."""
        eligible = self._candidates.eligible(shape)
        return room(self._whatif, shape, eligible if mask is None else eligible & mask)


def slices_of(topology: TopologyRequest, role: str, tree: Tree) -> tuple[tuple[int, int], ...]:
    """Return the slices that members of a role are counted off in, as (level, size), outermost first."""
    slices = (part for part in topology.slices if not part.roles or role in part.roles)
    found = [(tree.levels.find(part.level), part.size) for part in slices]
    return tuple(sorted((level, size) for level, size in found if level is not None and level >= 0 and size > 1))


def binding(groups: Iterable[RoleGroup], tree: Tree) -> tuple[RoleGroup, ...]:
    """Return the groups of roles that are bound to a domain: not those for which the whole cluster is one."""
    return tuple(group for group in groups if tree.levels.find(group.level) != -1)


def firm_groups(groups: Iterable[RoleGroup], tree: Tree) -> list[RoleGroup]:
    """Return those of them that are required, on a level that there is."""
    return [each for each in binding(groups, tree) if each.required and tree.levels.find(each.level) is not None]


def counted_off(
    pods: Sequence[Pod], topology: TopologyRequest, tree: Tree
) -> list[tuple[tuple[tuple[int, int], ...], list[Pod]]]:
    """Return the pods that are counted off together, in the order given, and in which slices: none for the others."""
    found: dict[tuple[Slice, ...], tuple[tuple[tuple[int, int], ...], list[Pod]]] = {}
    said: dict[str, tuple[Slice, ...]] = {}
    for pod in pods:
        if pod.role not in said:
            slices = slices_of(topology, pod.role, tree)
            said[pod.role] = tuple(p for p in topology.slices if not p.roles or pod.role in p.roles) if slices else ()
            found.setdefault(said[pod.role], (slices, []))
        found[said[pod.role]][1].append(pod)
    return list(found.values())


#: Highest score an extender may give. Source: extender/v1 MaxExtenderPriority.
MAX_EXTENDER_PRIORITY: Final = 10


# Example. One pod of 2 GPUs; nodes n1 and n2 of 8 GPUs with 2 taken, n3 and n4 empty, n4 in a rack of its own.
#
#   keys      step of bandwidth  -130  -130  -130  -130    all as fast
#             GB/s lost           730   730   730   730
#             room on the node      3     3     4     4    the fuller first
#             room in the rack     10    10    10     4
#   classes                         0     0     2     1    n1 and n2 are equal but for their names
#   scores                         10    10     0     5    best() is n1
@dataclass(frozen=True, slots=True)
class Ranking:
    """Nodes that can take pods, and what compares them.

    Attributes:
        nodes: (nodes,) rows of the table, or positions in a field.
        keys: (nodes,) each; the most important first, and less is better.
        order: (nodes,) what decides between equals.
        loss: (nodes,) GB/s that later requests lose by it, None for nothing anywhere.
    """

    nodes: NDArray[np.intp]
    keys: Sequence[NDArray[Any]]
    order: NDArray[np.int64]
    loss: NDArray[np.int64] | None = None

    def best(self) -> int:
        """Return the index of the best node; there must be one. Complexity: O(nodes x keys), without sorting."""
        left = np.arange(self.nodes.shape[0])
        for key in (*self.keys, self.order):
            values = key[left]
            left = left[values == values.min()]
        return int(left[0])

    def classes(self) -> NDArray[np.int64]:
        """Return (nodes,) how many better classes there are than each node's; nodes are of one if all keys are equal.

        Complexity: O(n log n).
        """
        ranked = np.lexsort(self.keys[::-1])
        differs = np.zeros(ranked.shape[0], dtype=np.bool_)
        for key in self.keys:
            differs[1:] |= key[ranked[1:]] != key[ranked[:-1]]
        classes = np.empty(ranked.shape[0], dtype=np.int64)
        classes[ranked] = np.cumsum(differs)
        return classes

    def scores(self) -> NDArray[np.int64]:
        """Return (nodes,) 0 to 10: 10 for the best class and no other, and 0 for the worst, if there are two."""
        classes = self.classes()
        most = int(classes.max(initial=0))
        return (
            MAX_EXTENDER_PRIORITY * (most - classes) // most if most else np.full_like(classes, MAX_EXTENDER_PRIORITY)
        )
