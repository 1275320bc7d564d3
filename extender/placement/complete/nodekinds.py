"""What single nodes hold of several shapes together; nodes that hold the same are of one kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from extender.cluster.occupancy import Occupancy
from extender.cluster.whatif import WhatIf
from extender.objects.pod import Shape
from extender.placement.candidates import Eligible
from extender.placement.complete.regions import NONE, AlikeNodes, Counts, Region, Steps, closed, trimmed

#: Nodes whose tables are computed at once.
_AT_ONCE: Final = 256


# Example. Workers of 4 GPUs and 14 CPUs, of which 2 are wanted, servers of 18 CPUs, 2 wanted; nodes of 8 GPUs, 32 CPUs.
#
#   an empty node               [1, 1, 0]     0, 1, 2 workers leave room for so many servers
#   one with 16 CPUs free       [0, 0]        one worker, and then nothing
#   one that admits no server   [0, 0, 0]
#
# A thousand empty nodes are one kind. What a kubelet's Topology Manager admits, and which sets of GPUs are given out,
# depends on the order of the pods: what is admitted in any order counts, and `order_of` returns that order.
def node_kinds(
    whatif: WhatIf, eligible: Eligible, wanted: Mapping[Shape, int], regions: dict[bytes, Region], steps: Steps
) -> AlikeNodes:
    """Return what each node holds of so many pods of each shape, those left out that hold none.

    `regions` is what is known of such nodes; what was not is there afterwards.
    """
    shapes, counts = list(wanted), tuple(wanted.values())
    table = whatif.table
    rooms = [np.where(eligible(shape), whatif.rooms(shape).counts, 0) for shape in shapes]
    rows = np.flatnonzero(np.logical_or.reduce([room > 0 for room in rooms]))
    vectors = [table.vector(shape.requests) for shape in shapes]
    columns = np.unique(np.concatenate([vector.columns[vector.amounts > 0] for vector in vectors]))
    asked = np.zeros((len(shapes), columns.shape[0]), dtype=np.int64)
    for index, vector in enumerate(vectors):
        some = vector.amounts > 0
        asked[index, np.searchsorted(columns, vector.columns[some])] = vector.amounts[some]
    totals = np.array(counts, dtype=np.int64) @ asked
    free = np.clip(whatif.free[columns[:, None], rows], 0, totals[:, None])
    most = np.minimum(np.array([room[rows] for room in rooms], dtype=np.int64), np.array(counts)[:, None])
    concerned = [index for index, shape in enumerate(shapes) if table.occupancy.concerns(shape)]
    states = whatif.states[rows] if concerned else np.zeros(rows.shape[0], dtype=np.int64)
    steps.take(1, rows.shape[0] * (columns.shape[0] + 2 * len(shapes)))
    nodes = np.vstack([free, most, states[None, :]]).T
    _, first, alike = np.unique(nodes, axis=0, return_index=True, return_inverse=True)
    keys = [nodes[at].tobytes() for at in first.tolist()]
    unknown = np.array([at for at, key in zip(first.tolist(), keys, strict=True) if key not in regions], dtype=np.intp)
    same: dict[tuple[object, ...], Region] = {}
    for part in np.split(unknown, range(_AT_ONCE, unknown.shape[0], _AT_ONCE)):
        for at, cells in zip(part.tolist(), _by_columns(free[:, part], asked, most[:, part], steps), strict=True):
            own, state = most[:, at], int(states[at])
            key = cells.tobytes(), state, own.tobytes()
            if key not in same:
                region = trimmed(closed(cells, counts[-1]))
                if concerned:
                    region = _admissible(region, _Kubelet(table.occupancy, state, shapes), own.tolist(), steps)
                same[key] = region
            regions[nodes[at].tobytes()] = same[key]
    found: dict[int, int] = {}
    kinds = [found.setdefault(id(regions[key]), len(found)) for key in keys]
    by_id = {id(regions[key]): regions[key] for key in keys}
    return AlikeNodes(rows, np.array(kinds, dtype=np.intp)[alike.reshape(-1)], [by_id[each] for each in found], asked)


def _by_columns(
    free: NDArray[np.int64], asked: NDArray[np.int64], most: NDArray[np.int64], steps: Steps
) -> NDArray[np.int64]:
    """Return (nodes, numbers of each shape but the last): how many of the last go with them, by the columns.

    `free` is (resources, nodes), `most` is (shapes, nodes) how many of each shape a node holds by itself.
    """
    lengths = [int(count) + 1 for count in most[:-1].max(axis=1, initial=0)] or [1]
    steps.take(1 + asked.shape[1], prod(lengths) * free.shape[1])
    cells = np.indices(lengths).reshape(len(lengths), -1)[: asked.shape[0] - 1]
    values = np.repeat(most[-1][:, None], prod(lengths), axis=1)
    taken = asked[:-1].T @ cells  # (resources, cells)
    for own, there, last in zip(taken, free, asked[-1], strict=True):
        left = there[:, None] - own[None, :]
        if last:
            np.minimum(values, left // last, out=values)
        values[left < 0] = NONE
    values[(cells[None, :, :] > most[:-1].T[:, :, None]).any(axis=1)] = NONE
    found: NDArray[np.int64] = np.maximum(values, NONE).reshape(-1, *lengths)
    return found


@dataclass(frozen=True, slots=True)
class _Kubelet:
    """What admits pods of some shapes to a node whose GPUs and zones are in `state`."""

    occupancy: Occupancy
    state: int
    shapes: Sequence[Shape]


def _admissible(region: Region, kubelet: _Kubelet, most: Sequence[int], steps: Steps) -> Region:
    """Return what of a region a kubelet admits in some order."""
    occupancy, state, shapes = kubelet.occupancy, kubelet.state, kubelet.shapes
    # What takes neither GPUs nor zones is admitted beside anything.
    idle = [not count or occupancy.admit(state, shape) == state for shape, count in zip(shapes, most, strict=True)]
    if all(idle):
        return region
    ways = _ways(kubelet, [0 if still else count for still, count in zip(idle, most, strict=True)], steps)
    steps.take(1, len(ways) * region.size)
    found: Region = np.full(region.shape, NONE, dtype=np.int64)
    for counts in ways:
        cells = tuple(
            slice(None) if still else slice(count, count + 1) for still, count in zip(idle[:-1], counts, strict=False)
        ) or (slice(0, 1),)
        part = found[cells]
        if part.size:
            np.maximum(part, region[cells] if idle[-1] else np.minimum(region[cells], counts[-1]), out=part)
    return trimmed(closed(found, int(most[-1])))


def _ways(kubelet: _Kubelet, most: Sequence[int], steps: Steps) -> dict[Counts, None]:
    """Return which numbers of pods, of each shape at most so many, a kubelet admits in some order."""
    occupancy, shapes = kubelet.occupancy, kubelet.shapes
    ways: dict[Counts, None] = {}
    edge: dict[tuple[Counts, int], None] = {((0,) * len(shapes), kubelet.state): None}
    while edge:
        steps.take(len(edge), len(shapes))
        after: dict[tuple[Counts, int], None] = {}
        for counts, at in edge:
            ways[counts] = None
            for index, shape in enumerate(shapes):
                if counts[index] < most[index] and (then := occupancy.admit(at, shape)) is not None:
                    after[(*counts[:index], counts[index] + 1, *counts[index + 1 :]), then] = None
        edge = after
    return ways


def order_of(occupancy: Occupancy, state: int, shapes: Sequence[Shape], counts: Counts) -> list[int] | None:
    """Return the indices of shapes in an order in which a node in `state` admits so many pods of each; None if none."""
    start = ((0,) * len(shapes), state)
    before: dict[tuple[Counts, int], tuple[tuple[Counts, int], int] | None] = {start: None}
    edge = [start]
    while edge:
        after = []
        for key in edge:
            done, at = key
            if done == counts:
                order: list[int] = []
                while (step := before[key]) is not None:
                    key, index = step  # noqa: PLW2901 - back to the start
                    order.append(index)
                return order[::-1]
            for index, shape in enumerate(shapes):
                if done[index] < counts[index] and (then := occupancy.admit(at, shape)) is not None:
                    more = ((*done[:index], done[index] + 1, *done[index + 1 :]), then)
                    if more not in before:
                        before[more] = key, index
                        after.append(more)
        edge = after
    return None
