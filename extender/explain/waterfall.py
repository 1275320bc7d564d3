"""Which constraint takes how many nodes from pods of one shape, one after the other, and what one domain holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.explain.documents import WaterfallRow
from extender.explain.inquiry import Inquiry
from extender.objects.devicewords import nodes_in_words, none_in_words, short_in_words
from extender.objects.pod import Shape
from extender.objects.requests import CLASS_RESOURCE_PREFIX, is_asked_for, is_extended
from extender.placement.candidates import NodeCode, causes
from extender.placement.capacityview import Capacity, CapacityView, PodSet
from extender.placement.devicelacks import Lack, device_lacks, most_told
from extender.placement.plan import Shortfall, TogetherPart, parts_of
from extender.placement.room import room

#: More pods than any gang has: a node that takes any number of them counts as this much.
_MANY = 1 << 40


class Gathering:
    """How the domains of one level hold the members that have to be together; the cluster, if none has to.

    Each shape counts as if it had the nodes to itself. Members that have a node already keep the others near.

    Attributes:
        part: which members have to share a domain: those for which the judge found none, else the first that have to.
    """

    def __init__(self, inquiry: Inquiry) -> None:
        """Count in the same way as the judge does."""
        case, self._inquiry = inquiry.case, inquiry
        view = case.view(inquiry.option)
        eligible, free = case.eligible(view), view.snapshot(Capacity.FREE)
        short = view.count(Capacity.FREE, case.pod_set, eligible)
        self.part = _part(case.pod_set, inquiry.tree, short)
        self._short = short is not None and bool(short.level)
        self._wanted = dict(case.pod_set.demand.shapes)
        self._anywhere = {shape: min(view.room(Capacity.FREE, shape, eligible), n) for shape, n in self._wanted.items()}
        # Whether the cluster has room for all, so that only domains are short.
        self._split = self.part.level >= 0 and sum(self._anywhere.values()) == case.pod_set.demand.pods
        around, level = _around(inquiry, self.part.level), self.part.level
        rooms = {shape: np.minimum(room(free, shape, eligible(shape)) * around, _MANY) for shape in self._wanted}
        self._rooms = {shape: inquiry.tree.sums(level, counts) for shape, counts in rooms.items()}

    @property
    def best(self) -> int | None:
        """Return the domain that holds most, the first by name of several; None where there is no domain."""
        held = self.part.held_in(self._rooms)
        if not held.shape[0]:
            return None
        tree, level = self._inquiry.tree, self.part.level
        if level < 0:
            return 0
        ranks = tree.ranks[level] if level < tree.depth else self._inquiry.table.order()
        most = np.flatnonzero(held == held.max())
        return int(most[np.argmin(ranks[most])])

    def held(self, domain: int) -> int:
        """Return how many of those who have to be together a domain holds, of slices beside the whole ones there."""
        return int(self.part.held_in(self._rooms)[domain])

    def missing(self, shape: Shape, domain: int) -> int:
        """Return how many pods of `shape` a domain lacks room for."""
        wanted = self.part.pods.get(shape, 0)
        whole = int(self.part.whole_in(self._rooms)[domain]) if self.part.size else 0
        return wanted - min(int(self._rooms[shape][domain]) - whole * wanted, wanted)

    def rows(self, domain: int) -> NDArray[np.bool_]:
        """Return (rows,) the nodes of a domain that may be used."""
        around = _around(self._inquiry, self.part.level)
        if self.part.level >= 0:
            around &= self._inquiry.tree.path(self.part.level) == domain
        return around

    def outside(self, shape: Shape) -> tuple[NDArray[np.bool_], str]:
        """Return (rows,) the nodes whose domain has not room for all that have to be together with `shape`, and why.

        None are while the cluster itself has not: which domain would have is not the question then.
        """
        if not self._split or shape not in self.part.pods:
            return np.zeros(self._inquiry.table.rows, dtype=np.bool_), ""
        level, holds = self.part.level, self.part.whole_in(self._rooms) > 0
        path = self._inquiry.tree.path(level)
        outside: NDArray[np.bool_] = ~_around(self._inquiry, level) | (path < 0)
        outside[~outside] = ~holds[path[~outside]]
        return outside, self._detail(holds)

    def fits(self, shape: Shape) -> int:
        """Return how many of the pods of `shape` find room together."""
        together, anywhere = self.part.pods.get(shape, 0), self._anywhere[shape]
        whole = self.part.whole_in(self._rooms)
        if not self._split or not together or (not self._short and whole.any()):
            return anywhere
        if self.part.size:
            return min(anywhere, int(whole.sum()) * together)
        held = 0 if self.best is None else min(int(self._rooms[shape][self.best]), together)
        return held + self._wanted[shape] - together

    def _detail(self, holds: NDArray[np.bool_]) -> str:
        tree = self._inquiry.tree
        name, best = tree.levels.name(self.part.level), self.best
        if best is None:
            return f"there is no {name}"
        if holds.any():
            return f"their {name} has no room for {self.part.count} together"
        domain = tree.domain_name(self.part.level, best, self._inquiry.table.node)
        return f"no {name} has room for {self.part.count} together; {domain} has for {self.held(best)}"


def _part(pod_set: PodSet, tree: Tree, short: Shortfall | None) -> TogetherPart:
    """Return the part that falls `short`, else the first that has to share a domain, else all members."""
    demand = pod_set.demand
    required = tree.levels.find(demand.topology.required) if demand.topology.required else None
    every = TogetherPart(-1 if required is None else required, dict(demand.shapes))
    parts = [each for each in parts_of(demand.sequence, demand.topology, tree) if each.level >= 0]
    if short is not None and (short.roles or short.size):
        asked = short.level, short.roles, short.size
        return next(each for each in parts if (tree.levels.name(each.level), each.roles, each.size) == asked)
    return every if demand.topology.required or not parts else parts[0]


def _around(inquiry: Inquiry, level: int) -> NDArray[np.bool_]:
    """Return (rows,) the nodes in the domains in which the gang's other members are, all where it has none."""
    pod_set = inquiry.case.pod_set
    rows = list(pod_set.settled)
    if level < 0 or not rows or not pod_set.demand.topology.required:
        return np.ones(inquiry.table.rows, dtype=np.bool_)
    path = inquiry.tree.path(level)
    around: NDArray[np.bool_] = np.isin(path, path[rows]) & (path >= 0)
    return around


class NodeCause(StrEnum):
    """What takes a node from pods of a shape, in the order in which it is asked; a node counts at the first."""

    UNSCHEDULABLE = "Unschedulable"
    TAINTED = "Tainted"
    SELECTOR_MISMATCH = "SelectorMismatch"
    OTHER_FLAVOR = "OtherFlavor"
    DEVICES_UNREADY = "DevicesUnready"
    DEVICES_TAINTED = "DevicesTainted"
    LACKS_RESOURCE = "LacksResource"
    TOO_SMALL = "TooSmall"
    REFUSED_BY_SCHEDULER = "RefusedByScheduler"
    REJECTED_BY_KUBELET = "RejectedByKubelet"
    TOO_FULL = "TooFull"
    RESERVED_FOR_OTHERS = "ReservedForOthers"
    KEPT_FOR_HEAD = "KeptForHead"
    NUMA_MISALIGNED = "NumaMisaligned"
    OUTSIDE_DOMAIN = "OutsideDomain"


#: Causes that go away when others leave.
PASSING: Final = frozenset(
    {
        *(NodeCause.TOO_FULL, NodeCause.RESERVED_FOR_OTHERS, NodeCause.KEPT_FOR_HEAD),
        *(NodeCause.NUMA_MISALIGNED, NodeCause.OUTSIDE_DOMAIN),
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Waterfall:
    """What is left of the nodes for pods of one shape, as if it had the nodes to itself.

    `pods` are wanted. Of `nodes`, the `steps` leave `usable`: sum(step.nodes) + usable == nodes. `fits` of the pods
    find room: on the usable nodes, or, where a domain has to hold them and none does, in the domain that holds most.
    `open_to` is (rows,) the nodes that take such pods once others have left, `room` (rows,) how many they take now.
    """

    shape: Shape
    pods: int
    nodes: int
    steps: tuple[WaterfallRow, ...]
    usable: int
    fits: int
    open_to: NDArray[np.bool_]
    room: NDArray[np.int64]


def waterfalls(inquiry: Inquiry, gathering: Gathering) -> tuple[Waterfall, ...]:
    """Return a waterfall for each shape of the members that a gang needs, the most demanding first."""
    view = inquiry.case.view(inquiry.option)
    shapes = sorted(inquiry.case.pod_set.demand.shapes, key=lambda each: _size(each[0]), reverse=True)
    promises = _Promises(inquiry)
    falls = [_Fall(inquiry, view, promises, shape, pods) for shape, pods in shapes]
    return tuple(fall.finish(gathering) for fall in falls)


def _size(shape: Shape) -> tuple[int, int, tuple[tuple[str, int], ...]]:
    """Return the sort key of shapes: accelerators, then CPU, then all."""
    extended = sum(amount for resource, amount in shape.requests if is_extended(resource))
    return extended, shape.request("cpu"), shape.requests


class _Fall:
    """The nodes that are left, step by step."""

    def __init__(self, inquiry: Inquiry, view: CapacityView, promises: _Promises, shape: Shape, pods: int) -> None:
        """Take away all nodes but those that take a pod of `shape` by themselves."""
        self.shape = shape
        self.pods = pods
        self._vector = inquiry.table.vector(shape.requests)
        self._promises = promises
        self._table = inquiry.table
        self._left: NDArray[np.bool_] = inquiry.table.present[: inquiry.table.rows].copy()
        self._nodes = int(self._left.sum())
        self._steps: list[WaterfallRow] = []
        self._eligible = inquiry.case.eligible(view)
        self._codes = self._eligible.codes(shape)
        self._by_constraints(inquiry)
        self._by_size()
        self._by_refusals()
        self.open_to = self._left.copy()
        self._by_room(inquiry, view)
        self.room = room(view.snapshot(Capacity.FREE), shape, self._eligible(shape))
        self._remove(NodeCause.NUMA_MISALIGNED, self.room <= 0, _MISALIGNED)

    def finish(self, gathering: Gathering) -> Waterfall:
        """Take away the nodes of domains that have not room for all who have to be together."""
        outside, detail = gathering.outside(self.shape)
        self._remove(NodeCause.OUTSIDE_DOMAIN, outside, detail)
        usable = int(self._left.sum())
        fits = gathering.fits(self.shape)
        return Waterfall(self.shape, self.pods, self._nodes, tuple(self._steps), usable, fits, self.open_to, self.room)

    def _remove(self, cause: NodeCause, mask: NDArray[np.bool_], detail: str = "") -> NDArray[np.bool_]:
        """Take nodes away that are still there; return (rows,) which."""
        removed: NDArray[np.bool_] = self._left & mask
        count = int(removed.sum())
        if count:
            self._left &= ~removed
            self._steps.append(WaterfallRow(cause, count, int(self._left.sum()), detail))
        return removed

    def _redetail(self, detail: str, removed: NDArray[np.bool_]) -> None:
        """Say of the last step what it was, if it removed anything."""
        if removed.any():
            last = self._steps[-1]
            self._steps[-1] = WaterfallRow(last.cause, last.nodes, last.left, detail)

    def _by_constraints(self, inquiry: Inquiry) -> None:
        for code, cause in _CONSTRAINTS.items():
            removed = self._remove(cause, self._codes == code)
            if removed.any():
                nodes = self._table.nodes_at(np.flatnonzero(removed).tolist())
                self._redetail(most_common(causes(nodes, self.shape)), removed)
        option = inquiry.option
        labels = ", ".join(f"{key}={value}" for key, value in option.selector)
        other = f"not of flavor {option.flavor} ({labels})"
        self._remove(NodeCause.OTHER_FLAVOR, self._codes == NodeCode.OTHER_FLAVOR, other)

    def _by_size(self) -> None:
        table = self._table
        for lack in device_lacks(table, self.shape):
            if lack.lack in _OF_DEVICES:
                removed = self._remove(_OF_DEVICES[lack.lack], lack.rows)
                self._redetail(most_told(Counter({lack.text(removed): int(removed.sum())})), removed)
        lacking, causes = np.zeros_like(self._left), Counter[str]()
        for resource, mask in _lacking(table, self.shape):
            causes[none_in_words(resource)] = int((self._left & mask & ~lacking).sum())
            lacking |= mask
        self._remove(NodeCause.LACKS_RESOURCE, lacking, most_told(causes))
        whole = table.allocatable[:, : table.rows]
        removed = self._remove(NodeCause.TOO_SMALL, self._lacks(whole))
        self._redetail(self._short(whole, removed, "even when empty"), removed)

    def _by_refusals(self) -> None:
        self._remove(NodeCause.REFUSED_BY_SCHEDULER, self._codes == NodeCode.REFUSED, _VETOED)
        self._remove(NodeCause.REJECTED_BY_KUBELET, self._codes == NodeCode.REJECTED, _REJECTED)

    def _by_room(self, inquiry: Inquiry, view: CapacityView) -> None:
        free = self._table.free()
        promised = self._promises.amounts
        unpromised = free if promised is None else free + promised
        removed = self._remove(NodeCause.TOO_FULL, self._lacks(unpromised))
        self._redetail(self._short(unpromised, removed, "free"), removed)
        if promised is not None:
            removed = self._remove(NodeCause.RESERVED_FOR_OTHERS, self._lacks(free))
            self._redetail(self._promises.to_whom(removed), removed)
        if view.kept is not None:
            names = ", ".join(dict.fromkeys(str(keep.gang.ref) for keep in inquiry.case.earmarks))
            self._remove(NodeCause.KEPT_FOR_HEAD, self._lacks(free - view.kept), f"kept for {names}")

    def _lacks(self, free: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (rows,) where `free`, (resources, rows), is not enough for one pod."""
        vector = self._vector
        lacking: NDArray[np.bool_] = np.full(free.shape[1], vector.unknown)
        for column, amount in zip(vector.columns.tolist(), vector.amounts.tolist(), strict=True):
            if amount > 0:
                lacking |= free[column] < amount
        return lacking

    def _short(self, free: NDArray[np.int64], removed: NDArray[np.bool_], where: str) -> str:
        """Return which resource most of the removed nodes are short of, and what they have at most."""
        vector, names = self._vector, self._table.resources
        found: list[tuple[int, int, str, int, int]] = []
        for column, amount in zip(vector.columns.tolist(), vector.amounts.tolist(), strict=True):
            short = removed & (free[column] < amount)
            if amount > 0 and short.any():
                name = names[column]
                found.append(
                    (
                        int(short.sum()),
                        (is_extended(name) and is_asked_for(name)) + name.startswith(CLASS_RESOURCE_PREFIX),
                        name,
                        amount,
                        max(0, int(free[column][short].max())),
                    )
                )
        if not found:
            return ""
        nodes, _, name, amount, most = max(found)
        return f"{short_in_words(name, amount, most, where)}: {nodes_in_words(nodes)}"


_OF_DEVICES: Final = {Lack.UNREADY: NodeCause.DEVICES_UNREADY, Lack.TAINTED: NodeCause.DEVICES_TAINTED}
_CONSTRAINTS: Final = {
    NodeCode.UNSCHEDULABLE: NodeCause.UNSCHEDULABLE,
    NodeCode.TAINTED: NodeCause.TAINTED,
    NodeCode.MISMATCHED: NodeCause.SELECTOR_MISMATCH,
}
_MISALIGNED: Final = "what is free is in NUMA zones or GPU partitions that the pod cannot have together"
_VETOED: Final = "kube-scheduler left them out although they were planned"
_REJECTED: Final = "their kubelets rejected a pod that asks for the same"


def _interest(resource: str) -> tuple[bool, bool, bool, str]:
    """Return the sort key of resources by what says most: devices as they are asked for, then all else."""
    of_class = resource.startswith(CLASS_RESOURCE_PREFIX)
    return not is_extended(resource), not is_asked_for(resource), not of_class, resource


def _lacking(table: NodeTable, shape: Shape) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield each resource that is asked for, and (rows,) which nodes have none of it at all."""
    known = dict(zip(table.resources, table.allocatable[:, : table.rows], strict=True))
    for resource, amount in sorted(table.counted(shape.requests), key=lambda each: _interest(each[0])):
        if amount > 0:
            column = known.get(resource)
            yield resource, np.ones(table.rows, dtype=np.bool_) if column is None else column <= 0


class _Promises:
    """What is promised to others.

    Attributes:
        amounts: (resources, rows), None if nothing is.
    """

    def __init__(self, inquiry: Inquiry) -> None:
        """Add up the slots of `inquiry`. Complexity: O(slots)."""
        table, slots = inquiry.table, [slot for _, each in inquiry.reserved for slot in each]
        self._owners: dict[int, list[str]] = {}
        for name, theirs in inquiry.reserved:
            for slot in theirs:
                if (row := table.row(slot.node)) is not None:
                    self._owners.setdefault(row, []).append(name)
        promised = ((slot.node, slot.pod.shape) for slot in slots)
        self.amounts: NDArray[np.int64] | None = table.taken_by(promised) if self._owners else None

    def to_whom(self, removed: NDArray[np.bool_]) -> str:
        """Return to whom most of the nodes `removed`, (rows,), are promised."""
        found = Counter(name for row in np.flatnonzero(removed).tolist() for name in set(self._owners.get(row, ())))
        text = most_common(found)
        return f"for {text}" if text else ""


def most_common(found: Counter[str]) -> str:
    """Return the most frequent of some causes with its number of nodes, "" if there are none."""
    if not found:
        return ""
    text, count = min(found.items(), key=lambda each: (-each[1], each[0]))
    return f"{text}: {nodes_in_words(count)}"
