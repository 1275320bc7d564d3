"""Place a set of pods whole, or say how far it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.gangs import member_order
from extender.cluster.table import NodeTable
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

    Pods of one shape are placed together, shapes from the most demanding to the least, nodes that the plan already uses
    first. If that order fails, the most restricted shape goes first in a second attempt.
    Deterministic for equal input. On success the capacity stays taken in `whatif`; on failure nothing is.
    Complexity: O(shapes x nodes log nodes + pods).
    """
    groups = group_by_shape(pods)
    demanding = sorted(groups, key=lambda shape: _demand(whatif.table, shape), reverse=True)
    best = _attempt(demanding, groups, whatif, eligible, packing)
    if isinstance(best, Shortfall) and not best.unmatched and len(groups) > 1:
        restricted = sorted(demanding, key=lambda shape: int(eligible(shape).sum()))
        if restricted != demanding:
            second = _attempt(restricted, groups, whatif, eligible, packing)
            if isinstance(second, Plan) or second.fits > best.fits:
                best = second
    return best


def group_by_shape(pods: Sequence[Pod]) -> dict[Shape, list[Pod]]:
    """Group pods by shape, each group in member order."""
    groups: dict[Shape, list[Pod]] = {}
    for pod in sorted(pods, key=member_order):
        groups.setdefault(pod.shape, []).append(pod)
    return groups


def _attempt(
    shapes: Sequence[Shape], groups: dict[Shape, list[Pod]], whatif: WhatIf, eligible: Eligible, packing: Packing
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
        preference = strands(whatif.table, whatif.table.vector(shape.requests)).astype(np.int64)
        if packing is Packing.BINPACK:
            preference = np.where(touched, -1, preference)
        shares = _place(whatif, shape, len(pods), Ground(admitted, packing, preference))
        touched[[share.row for share in shares]] = True
        placed = [whatif.table.node(share.row).name for share in shares for _ in range(share.pods)]
        nodes.update(zip((pod.uid for pod in pods), placed, strict=False))
        fits += len(placed)
    if fits < needed:
        whatif.undo(mark)
        return Shortfall(needed=needed, fits=fits, unmatched=unmatched)
    return Plan(nodes)


def _place(whatif: WhatIf, shape: Shape, pods: int, ground: Ground) -> tuple[Share, ...]:
    """Take room for as many of `pods` pods of one shape as fit."""
    vector = whatif.table.vector(shape.requests)
    counts = np.minimum(whatif.counts(vector, ground.eligible), pods)
    shares = pack(counts, min(pods, int(counts.sum())), ground.packing, ground.preference, whatif.table.order())
    for share in shares:
        whatif.take(share.row, vector, share.pods)
    return shares


def _demand(table: NodeTable, shape: Shape) -> tuple[float, float]:
    """Return the sort key of shapes: the share of the largest node's accelerators it asks for, then of anything."""
    vector = table.vector(shape.requests)
    if not table.rows or not len(vector.columns):
        return (0.0, 0.0)
    largest = np.maximum(table.allocatable[vector.columns, : table.rows].max(axis=1), 1)
    shares = vector.amounts / largest
    extended = shares[table.extended()[vector.columns]]
    return (float(extended.max(initial=0.0)), float(shares.max(initial=0.0)))
