"""How good each node is for a single pod, in the terms of the extender protocol."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.domain.keys import Packing
from extender.domain.pod import Shape
from extender.placement.packing import strands
from extender.wire.extender import MAX_EXTENDER_PRIORITY

#: What stranding costs, where the fullest and the emptiest candidate are 1 apart: enough that no rounding makes the
#: worst node that strands nothing equal to the best that does.
_SETBACK = 1.5


def score(table: NodeTable, rows: NDArray[np.intp], shape: Shape, packing: Packing) -> NDArray[np.int64]:
    """Return the score, 0 to 10, of each node in `rows` (-1 for an unknown node, which scores 0).

    The same objective as for gangs: nodes on which the pod would strand more than it must come last; then, for binpack,
    the fuller node wins, for spread the emptier. Fullness is the used share of the accelerators that the pod asks for,
    or of CPU and memory on average when it asks for none, the pod included. Scores are stretched over the candidates,
    which are nodes with room for the pod.
    """
    known = rows >= 0
    scores = np.zeros(rows.shape[0], dtype=np.int64)
    if not known.any():
        return scores
    at = rows[known]
    vector = table.vector(shape.requests)
    accelerators = table.extended()[vector.columns]
    columns = vector.columns[accelerators] if accelerators.any() else np.array([0, 1], dtype=np.intp)
    added = np.array([shape.request(table.resources[column]) for column in columns], dtype=np.int64)
    capacity = np.maximum(table.allocatable[columns][:, at], 1)
    fullness = ((table.used[columns][:, at] + added[:, None]) / capacity).mean(axis=0)
    value = fullness if packing is Packing.BINPACK else -fullness
    stranded = strands(table, vector)[at]
    value = _stretch(value) - _SETBACK * (stranded > stranded.min())
    scores[known] = np.rint(_stretch(value) * MAX_EXTENDER_PRIORITY).astype(np.int64)
    return scores


def _stretch(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map to 0..1 over the candidates; equal candidates all get 0."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)
