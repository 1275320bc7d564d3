"""Place a set of pods whole, or say how far it goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable, is_extended
from extender.cluster.whatif import WhatIf
from extender.domain.keys import Packing
from extender.domain.pod import Pod, Shape
from extender.placement.packing import Share, pack, strands

Eligible: TypeAlias = Callable[[Shape], NDArray[np.bool_]]
"""Shape -> (rows,) which nodes admit it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A node for every pod: pod UID -> node name."""

    nodes: dict[str, str]


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why a set of pods cannot be placed.

    `fits` of `needed` pods found a place. `unmatched` names a pod that no node admits at all, however empty, or is "".
    """

    needed: int
    fits: int
    unmatched: str = ""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where pods of one shape may go, and where they should: (rows,) masks and classes, lower first."""

    eligible: NDArray[np.bool_]
    packing: Packing
    preference: NDArray[np.int64]


def plan(pods: Sequence[Pod], whatif: WhatIf, eligible: Eligible, packing: Packing) -> Plan | Shortfall:
    """Place every pod, or say why it cannot be done.

    `pods` are in member order: neighbours in it become neighbours on the nodes. Pods of one shape are placed together,
    shapes from the most demanding to the least, nodes that the plan already uses first. If that order fails, the most
    restricted shape goes first in a second attempt.
    Deterministic for equal input. On success the capacity stays taken in `whatif`; on failure nothing is.
    Complexity: O(shapes x nodes log nodes + pods).
    """
    groups = group_by_shape(pods)
    best = Shortfall(needed=len(pods), fits=-1)
    for shapes in shape_orders(groups, whatif.table, eligible):
        result = _attempt(shapes, groups, whatif, eligible, packing)
        if isinstance(result, Plan):
            return result
        best = max(best, result, key=lambda attempt: attempt.fits)
        if best.unmatched:
            break
    return best


def shortfall(pods: Sequence[Pod], whatif: WhatIf, eligible: Eligible, packing: Packing) -> Shortfall | None:
    """Say how far the pods fall short, or None if `plan` would place them; nothing is taken. Pods alike are counted."""
    groups = group_by_shape(pods)
    if len(groups) == 1:
        (shape,) = groups
        return _lack(whatif, shape, pods, eligible(shape))
    mark = whatif.mark()
    result = plan(pods, whatif, eligible, packing)
    whatif.undo(mark)
    return result if isinstance(result, Shortfall) else None


def group_by_shape(pods: Sequence[Pod]) -> dict[Shape, list[Pod]]:
    """Group pods by shape, each group in the order given."""
    groups: dict[Shape, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(pod.shape, []).append(pod)
    return groups


def shape_orders(groups: Mapping[Shape, Sequence[Pod]], table: NodeTable, eligible: Eligible) -> Iterator[list[Shape]]:
    """Yield the orders worth trying: the most demanding shape first; then the one that the fewest nodes admit."""
    demanding = sorted(groups, key=lambda shape: _demand(table, shape), reverse=True)
    yield demanding
    if len(groups) > 1:
        restricted = sorted(demanding, key=lambda shape: int(eligible(shape).sum()))
        if restricted != demanding:
            yield restricted


def _attempt(
    shapes: Sequence[Shape], groups: Mapping[Shape, Sequence[Pod]], whatif: WhatIf, eligible: Eligible, packing: Packing
) -> Plan | Shortfall:
    """Place the shapes in the given order."""
    mark = whatif.mark()
    needed = sum(map(len, groups.values()))
    nodes: dict[str, str] = {}
    touched = np.zeros(whatif.free.shape[1], dtype=np.bool_)
    fits, unmatched = 0, ""
    for shape in shapes:
        pods = groups[shape]
        admitted = eligible(shape)
        if not admitted.any():
            unmatched = unmatched or pods[0].key
        if len(groups) == 1 and (lack := _lack(whatif, shape, pods, admitted)) is not None:
            return lack  # so it is with most gangs that wait: no need to pack
        stranded = strands(whatif.table, whatif.table.vector(shape.requests))
        # As few nodes as possible: back to those in use. As many as possible: away from them, among equals.
        preference = np.where(touched, -1, stranded) if packing is Packing.BINPACK else 2 * stranded + touched
        shares = _place(whatif, shape, len(pods), Ground(admitted, packing, preference))
        touched[[share.row for share in shares]] = True
        placed = [whatif.table.node(share.row).name for share in shares for _ in range(share.pods)]
        nodes.update(zip((pod.uid for pod in pods), placed, strict=False))
        fits += len(placed)
    if fits < needed:
        whatif.undo(mark)
        return Shortfall(needed=needed, fits=fits, unmatched=unmatched)
    return Plan(nodes)


def _lack(whatif: WhatIf, shape: Shape, pods: Sequence[Pod], admitted: NDArray[np.bool_]) -> Shortfall | None:
    """Say how far pods of one shape fall short, or None if all of them fit."""
    needed = len(pods)
    counts = whatif.counts(whatif.table.vector(shape.requests), admitted)
    fits = int(np.minimum(counts, needed).sum())
    return None if fits >= needed else Shortfall(needed, fits, "" if admitted.any() else pods[0].key)


def _place(whatif: WhatIf, shape: Shape, pods: int, ground: Ground) -> tuple[Share, ...]:
    """Take room for as many of `pods` pods of one shape as fit."""
    vector = whatif.table.vector(shape.requests)
    counts = whatif.counts(vector, ground.eligible)
    fits = min(pods, int(np.minimum(counts, pods).sum()))
    shares = pack(counts, fits, ground.packing, ground.preference, whatif.table.order())
    rows = np.array([share.row for share in shares], dtype=np.intp)
    whatif.take_from(rows, vector, np.array([share.pods for share in shares], dtype=np.int64))
    return shares


def _demand(table: NodeTable, shape: Shape) -> tuple[float, float]:
    """Return the sort key of shapes: the share of the largest node's accelerators it asks for, then of anything.

    What no node has is infinitely much, whether or not a node that has gone since once listed it.
    """
    largest = dict(zip(table.resources, table.allocatable.max(axis=1).tolist(), strict=True))
    shares = {r: value / capacity if (capacity := largest.get(r)) else math.inf for r, value in shape.requests}
    extended = max((share for resource, share in shares.items() if is_extended(resource)), default=0.0)
    return (extended, max(shares.values(), default=0.0))
