"""Which constraint takes how many nodes from pods of one shape, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from extender.admission.explaining.gathering import Gathering
from extender.admission.explaining.obstacles import (
    MISMATCHED,
    TAINTED,
    UNSCHEDULABLE,
    most_common,
    nodes_in_words,
)
from extender.admission.explaining.scene import Scene
from extender.admission.site import Capacity, Site
from extender.cluster.table import NodeTable, Vector, is_extended
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Shape
from extender.domain.quantity import format_amount
from extender.placement.room import room


class Cause(StrEnum):
    """What takes a node from pods of a shape, in the order in which it is asked; a node counts at the first."""

    UNSCHEDULABLE = "Unschedulable"
    TAINTED = "Tainted"
    SELECTOR_MISMATCH = "SelectorMismatch"
    OTHER_FLAVOR = "OtherFlavor"
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
        *(Cause.TOO_FULL, Cause.RESERVED_FOR_OTHERS, Cause.KEPT_FOR_HEAD),
        *(Cause.NUMA_MISALIGNED, Cause.OUTSIDE_DOMAIN),
    }
)


@dataclass(frozen=True, slots=True)
class Step:
    """How many nodes one cause removed, how many are left after it, and in words what it mostly was."""

    cause: Cause
    nodes: int
    left: int
    detail: str


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
    steps: tuple[Step, ...]
    usable: int
    fits: int
    open_to: NDArray[np.bool_]
    room: NDArray[np.int64]


def waterfalls(scene: Scene) -> tuple[Waterfall, ...]:
    """Return a waterfall for each shape of the members that the gang of a scene needs, the most demanding first."""
    if scene.party is None:
        return ()
    site = scene.site(scene.option)
    shapes = sorted(scene.party.demand.shapes, key=lambda each: _size(each[0]), reverse=True)
    promises = _Promises(scene)
    falls = [_Fall(scene, site, promises, shape, pods) for shape, pods in shapes]
    gathering = Gathering.of(scene, {fall.shape: (fall.pods, fall.room) for fall in falls})
    return tuple(fall.finish(gathering) for fall in falls)


def _size(shape: Shape) -> tuple[int, int, tuple[tuple[str, int], ...]]:
    """Return the sort key of shapes: accelerators, then CPU, then all."""
    extended = sum(amount for resource, amount in shape.requests if is_extended(resource))
    return extended, shape.request("cpu"), shape.requests


class _Fall:
    """The nodes that are left, step by step."""

    def __init__(self, scene: Scene, site: Site, promises: _Promises, shape: Shape, pods: int) -> None:
        """Take away all nodes but those that take a pod of `shape` by themselves."""
        self.shape = shape
        self.pods = pods
        self._promises = promises
        self._table = scene.table
        self._left: NDArray[np.bool_] = scene.table.present[: scene.table.rows].copy()
        self._nodes = int(self._left.sum())
        self._steps: list[Step] = []
        self._by_constraints(scene)
        self._by_size()
        self._by_refusals(scene)
        self.open_to = self._left.copy()
        self._by_room(scene, site)
        self.room = room(site.snapshot(Capacity.FREE), shape, scene.eligible(site)(shape))
        self._remove(Cause.NUMA_MISALIGNED, self.room <= 0, _MISALIGNED)

    def finish(self, gathering: Gathering) -> Waterfall:
        """Take away the nodes of domains that have not room for all who have to be together."""
        outside, detail = gathering.outside(self.shape)
        self._remove(Cause.OUTSIDE_DOMAIN, outside, detail)
        usable = int(self._left.sum())
        fits = gathering.fits(self.shape)
        return Waterfall(self.shape, self.pods, self._nodes, tuple(self._steps), usable, fits, self.open_to, self.room)

    def _remove(self, cause: Cause, mask: NDArray[np.bool_], detail: str = "") -> NDArray[np.bool_]:
        """Take nodes away that are still there; return (rows,) which."""
        removed: NDArray[np.bool_] = self._left & mask
        count = int(removed.sum())
        if count:
            self._left &= ~removed
            self._steps.append(Step(cause, count, int(self._left.sum()), detail))
        return removed

    def _redetail(self, detail: str, removed: NDArray[np.bool_]) -> None:
        """Say of the last step what it was, if it removed anything."""
        if removed.any():
            last = self._steps[-1]
            self._steps[-1] = Step(last.cause, last.nodes, last.left, detail)

    def _by_constraints(self, scene: Scene) -> None:
        found = scene.obstacles(self.shape)
        for code, cause in _BY_CODE.items():
            self._remove(cause, found.codes == code, found.detail(code))
        if scene.option.selector:
            labels = ", ".join(f"{key}={value}" for key, value in scene.option.selector)
            self._remove(
                Cause.OTHER_FLAVOR, ~scene.flavor(scene.option), f"not of flavor {scene.option.flavor} ({labels})"
            )

    def _by_size(self) -> None:
        table, vector = self._table, self._vector
        lacking, causes = np.zeros_like(self._left), Counter[str]()
        for resource, mask in _lacking(table, self.shape):
            causes[f"no {resource}"] = int((self._left & mask & ~lacking).sum())
            lacking |= mask
        self._remove(Cause.LACKS_RESOURCE, lacking, most_common(causes))
        whole = table.allocatable[:, : table.rows]
        small = WhatIf(table, whole).counts(vector, self._left) <= 0
        removed = self._remove(Cause.TOO_SMALL, small)
        self._redetail(self._short(whole, removed, "even when empty"), removed)

    def _by_refusals(self, scene: Scene) -> None:
        vetoed, rejected = scene.material.vetoed, scene.material.rejected
        self._remove(Cause.REFUSED_BY_SCHEDULER, self._rows(vetoed.get(self.shape, ())), _VETOED)
        self._remove(Cause.REJECTED_BY_KUBELET, self._rows(rejected.get(self.shape, ())), _REJECTED)

    def _by_room(self, scene: Scene, site: Site) -> None:
        table, vector = self._table, self._vector
        free = table.free()
        promised = self._promises.amounts
        unpromised = free if promised is None else free + promised
        removed = self._remove(Cause.TOO_FULL, WhatIf(table, unpromised).counts(vector, self._left) <= 0)
        self._redetail(self._short(unpromised, removed, "free"), removed)
        if promised is not None:
            removed = self._remove(Cause.RESERVED_FOR_OTHERS, WhatIf(table, free).counts(vector, self._left) <= 0)
            self._redetail(self._promises.to_whom(removed), removed)
        if site.kept is not None:
            kept = WhatIf(table, free - site.kept)
            names = ", ".join(dict.fromkeys(str(keep.gang.ref) for keep in scene.material.keeps))
            self._remove(Cause.KEPT_FOR_HEAD, kept.counts(vector, self._left) <= 0, f"kept for {names}")

    @property
    def _vector(self) -> Vector:
        return self._table.vector(self.shape.requests)

    def _rows(self, rows: Sequence[int]) -> NDArray[np.bool_]:
        mask = np.zeros(self._table.rows, dtype=np.bool_)
        mask[list(rows)] = True
        return mask

    def _short(self, free: NDArray[np.int64], removed: NDArray[np.bool_], where: str) -> str:
        """Return which resource most of the removed nodes are short of, and what they have at most."""
        vector, names = self._vector, self._table.resources
        found: list[tuple[int, bool, str, int, int]] = []
        for column, amount in zip(vector.columns.tolist(), vector.amounts.tolist(), strict=True):
            short = removed & (free[column] < amount)
            if amount > 0 and short.any():
                name = names[column]
                found.append(
                    (int(short.sum()), is_extended(name), name, amount, max(0, int(free[column][short].max())))
                )
        if not found:
            return ""
        nodes, _, name, amount, most = max(found)
        asked, has = format_amount(name, amount), format_amount(name, most)
        return f"{name}: {asked} asked, at most {has} {where}: {nodes_in_words(nodes)}"


_BY_CODE: Final = {
    UNSCHEDULABLE: Cause.UNSCHEDULABLE,
    TAINTED: Cause.TAINTED,
    MISMATCHED: Cause.SELECTOR_MISMATCH,
}
_MISALIGNED: Final = "what is free is in NUMA zones or GPU partitions that the pod cannot have together"
_VETOED: Final = "kube-scheduler left them out although they were planned"
_REJECTED: Final = "their kubelets turned away a pod that asks for the same"


def _lacking(table: NodeTable, shape: Shape) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield each resource that is asked for, and (rows,) which nodes have none of it at all."""
    known = dict(zip(table.resources, table.allocatable[:, : table.rows], strict=True))
    for resource, amount in sorted(shape.requests, key=lambda each: (not is_extended(each[0]), each[0])):
        if amount > 0:
            column = known.get(resource)
            yield resource, np.ones(table.rows, dtype=np.bool_) if column is None else column <= 0


class _Promises:
    """What is promised to others.

    Attributes:
        amounts: (resources, rows), None if nothing is.
    """

    def __init__(self, scene: Scene) -> None:
        """Add up the slots of `scene`. Complexity: O(slots)."""
        table = scene.table
        self.amounts: NDArray[np.int64] | None = None
        self._owners: dict[int, list[str]] = {}
        rows_of: dict[Shape, list[int]] = {}
        for name, slots in scene.material.reserved:
            for slot in slots:
                row = table.row(slot.node)
                if row is not None:
                    rows_of.setdefault(slot.pod.shape, []).append(row)
                    self._owners.setdefault(row, []).append(name)
        if not rows_of:
            return
        self.amounts = amounts = np.zeros((len(table.resources), table.rows), dtype=np.int64)
        for shape, rows in rows_of.items():
            vector = table.vector(shape.requests)
            np.add.at(amounts, (vector.columns[:, None], np.array(rows)), vector.amounts[:, None])

    def to_whom(self, removed: NDArray[np.bool_]) -> str:
        """Return to whom most of the nodes `removed`, (rows,), are promised."""
        found = Counter(name for row in np.flatnonzero(removed).tolist() for name in set(self._owners.get(row, ())))
        text = most_common(found)
        return f"for {text}" if text else ""
