"""A snapshot of what is free, to try placements on and take them back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable, Vector


@dataclass(frozen=True, slots=True)
class Mark:
    """A point to undo to."""

    length: int


class WhatIf:
    """Free capacity that can be taken, and given back in reverse order.

    Attributes:
        free: (resources, rows) int64: milli-CPU, bytes, counts; may start negative on overcommitted nodes.
    """

    def __init__(self, table: NodeTable, free: NDArray[np.int64] | None = None) -> None:
        """Start from what is free in `table` now, or from `free`, which is copied."""
        self.table = table
        self.free: NDArray[np.int64] = table.free() if free is None else free.copy()
        self._taken: list[tuple[NDArray[np.intp], Vector, NDArray[np.int64]]] = []

    def take(self, row: int, vector: Vector, count: int = 1) -> None:
        """Take `count` times `vector` from the node at `row`; the caller has checked that it fits."""
        self.take_from(np.array([row], dtype=np.intp), vector, np.array([count], dtype=np.int64))

    def take_from(self, rows: NDArray[np.intp], vector: Vector, counts: NDArray[np.int64]) -> None:
        """Take `vector` from several nodes, `counts[i]` times from `rows[i]`; no row occurs twice."""
        self.free[vector.columns[:, None], rows] -= vector.amounts[:, None] * counts
        self._taken.append((rows, vector, counts))

    def mark(self) -> Mark:
        """Return the present point."""
        return Mark(len(self._taken))

    def undo(self, mark: Mark) -> None:
        """Give back everything taken since `mark`."""
        while len(self._taken) > mark.length:
            rows, vector, counts = self._taken.pop()
            self.free[vector.columns[:, None], rows] += vector.amounts[:, None] * counts

    def counts(self, vector: Vector, eligible: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return (rows,) how many pods of one shape each eligible node still takes; zero elsewhere."""
        rows = self.free.shape[1]
        if vector.unknown or not rows:
            return np.zeros(rows, dtype=np.int64)
        asked = vector.amounts > 0
        fits: NDArray[np.int64] = np.full(rows, np.iinfo(np.int64).max)
        for column, amount in zip(vector.columns[asked], vector.amounts[asked], strict=True):
            np.minimum(fits, self.free[column] // amount, out=fits)
        fits[~eligible] = 0
        np.maximum(fits, 0, out=fits)
        return fits
