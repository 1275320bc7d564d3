"""Place a set of pods whole, or say how far it goes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable, is_extended
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod, Shape
from extender.placement.block import Block
from extender.placement.ground import Eligible, Ground, Terms
from extender.placement.room import room
from extender.placement.scopes import Domains, Groups


@dataclass(frozen=True, slots=True)
class Plan:
    """A node for every pod: pod UID -> node name; and what future requests lose by it (GB/s)."""

    nodes: dict[str, str]
    fragmentation: float = 0.0


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why a set of pods cannot be placed.

    `fits` of `needed` pods found a place. `unmatched` names a pod that no node admits at all, however empty, or is "".
    `level` is the level of which no single domain holds them though the cluster would, or "".
    """

    needed: int
    fits: int
    unmatched: str = ""
    level: str = ""


def plan(pods: Sequence[Pod], whatif: WhatIf, ground: Ground, terms: Terms) -> Plan | Shortfall:
    """Place every pod, or say why it cannot be done.

    `pods` are in member order: neighbours in it become neighbours in the tree. Pods of one shape are placed together,
    shapes from the most demanding to the least. If that order fails, the most restricted shape goes first in a second
    attempt. Deterministic for equal input. On success the capacity stays taken in `whatif`; on failure nothing is.
    """
    groups = group_by_shape(pods)
    if len(groups) == 1:
        (shape,) = groups
        lack = _lack(whatif, shape, pods, ground.eligible(shape))
        if lack is not None:
            return lack  # so it is with most gangs that wait: no need to pack
    best = Shortfall(needed=len(pods), fits=-1)
    for shapes in shape_orders(groups, whatif.table, ground.eligible):
        ordered = {shape: groups[shape] for shape in shapes}
        mark = whatif.mark()
        block = Block(whatif, ground, terms)
        if block.place(ordered):
            table = whatif.table
            return Plan({uid: table.node(row).name for uid, row in block.rows.items()}, block.fragmentation)
        whatif.undo(mark)
        best = max(best, _shortfall(ordered, whatif, ground, terms), key=lambda attempt: attempt.fits)
        if best.unmatched:
            break
    return best


def shortfall(pods: Sequence[Pod], whatif: WhatIf, ground: Ground, terms: Terms) -> Shortfall | None:
    """Say how far the pods fall short, or None if `plan` would place them; nothing is taken. Pods alike are counted."""
    groups = group_by_shape(pods)
    if len(groups) == 1 and not terms.gathers:
        (shape,) = groups
        return _lack(whatif, shape, pods, ground.eligible(shape))
    mark = whatif.mark()
    result = plan(pods, whatif, ground, terms)
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


def _shortfall(groups: Groups, whatif: WhatIf, ground: Ground, terms: Terms) -> Shortfall:
    """Say how many of the pods fit together, and which level keeps the others out if it is one that does."""
    needed = sum(map(len, groups.values()))
    unmatched = next((pods[0].key for shape, pods in groups.items() if not ground.eligible(shape).any()), "")
    mark = whatif.mark()
    fits = Block(whatif, ground, Terms(terms.packing)).place_most(groups)
    whatif.undo(mark)
    if fits < needed or not terms.gathers:
        return Shortfall(needed, min(fits, needed - 1), unmatched)
    level, most = Domains(whatif, ground, terms).most_in_one_domain(groups)
    return Shortfall(needed, min(most, needed - 1), level=level)


def _lack(whatif: WhatIf, shape: Shape, pods: Sequence[Pod], admitted: NDArray[np.bool_]) -> Shortfall | None:
    """Say how far pods of one shape fall short, or None if all of them fit, wherever."""
    needed = len(pods)
    fits = int(np.minimum(room(whatif, shape, admitted), needed).sum())
    return None if fits >= needed else Shortfall(needed, fits, "" if admitted.any() else pods[0].key)


def _demand(table: NodeTable, shape: Shape) -> tuple[float, float]:
    """Return the sort key of shapes: the share of the largest node's accelerators it asks for, then of anything.

    What no node has is infinitely much, whether or not a node that has gone since once listed it.
    """
    largest = dict(zip(table.resources, table.allocatable.max(axis=1).tolist(), strict=True))
    shares = {r: value / capacity if (capacity := largest.get(r)) else math.inf for r, value in shape.requests}
    extended = max((share for resource, share in shares.items() if is_extended(resource)), default=0.0)
    return (extended, max(shares.values(), default=0.0))
