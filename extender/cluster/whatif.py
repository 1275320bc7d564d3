"""A snapshot of what is free, to try placements on and take them back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.cluster.occupancy import Holding
from extender.cluster.table import NodeTable, Vector
from extender.domain.pod import Shape


@dataclass(frozen=True, slots=True)
class Mark:
    """A point to undo to."""

    length: int


@dataclass(frozen=True, slots=True)
class _Taken:
    """Capacity taken: `counts[i]` times `vector` from `rows[i]`."""

    rows: NDArray[np.intp]
    vector: Vector
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Settled:
    """GPUs and zones taken: the states of `rows` before."""

    rows: NDArray[np.intp]
    states: NDArray[np.int64]


class WhatIf:
    """Free capacity that can be taken, and given back in reverse order.

    Attributes:
        free: (resources, rows) int64: milli-CPU, bytes, counts; may start negative on overcommitted nodes.
    """

    def __init__(self, table: NodeTable, free: NDArray[np.int64] | None = None, holding: Holding = Holding.ALL) -> None:
        """Start from what is free in `table` now, or from `free`, which is copied.

        `holding` says whose GPUs and zones count as held; it goes with `free`.
        """
        self.table = table
        self.free: NDArray[np.int64] = table.free() if free is None else free.copy()
        self._holding = holding
        self._states: NDArray[np.int64] | None = None
        self._taken: list[_Taken | _Settled] = []

    @property
    def states(self) -> NDArray[np.int64]:
        """Return (rows,) the state of each node's GPUs and zones, as `Occupancy` numbers them.

        They are those of the table when first asked for: ask before anything is settled, and before the table changes.
        """
        if self._states is None:
            self._states = self.table.occupancy.states(self._holding).copy()
        return self._states

    def take(self, row: int, vector: Vector, count: int = 1) -> None:
        """Take `count` times `vector` from the node at `row`; the caller has checked that it fits."""
        self.take_from(np.array([row], dtype=np.intp), vector, np.array([count], dtype=np.int64))

    def take_from(self, rows: NDArray[np.intp], vector: Vector, counts: NDArray[np.int64]) -> None:
        """Take `vector` from several nodes, `counts[i]` times from `rows[i]`; no row occurs twice."""
        self.free[vector.columns[:, None], rows] -= vector.amounts[:, None] * counts
        self._taken.append(_Taken(rows, vector, counts))

    def settle(self, rows: NDArray[np.intp], shape: Shape, counts: NDArray[np.int64]) -> None:
        """Take GPUs and zones for `counts[i]` pods of `shape` at `rows[i]`; no row occurs twice.

        Columns are not touched: that is `take_from`.
        """
        occupancy = self.table.occupancy
        if not occupancy.concerns(shape):
            return
        states = self.states
        before = states[rows]
        pairs = zip(before.tolist(), counts.tolist(), strict=True)
        states[rows] = [occupancy.after(state, shape, count) for state, count in pairs]
        self._taken.append(_Settled(rows, before))

    def give_back(self, uid: str) -> None:
        """Give back what pod `uid` claims of its node's columns in the table, for good."""
        claim = self.table.claim_of(uid)
        row = None if claim is None else self.table.row(claim.node)
        if claim is not None and row is not None:
            vector = self.table.vector(claim.shape.requests)
            self.free[vector.columns, row] += vector.amounts

    def mark(self) -> Mark:
        """Return the present point."""
        return Mark(len(self._taken))

    def undo(self, mark: Mark) -> None:
        """Give back everything taken since `mark`."""
        while len(self._taken) > mark.length:
            taken = self._taken.pop()
            if isinstance(taken, _Taken):
                self.free[taken.vector.columns[:, None], taken.rows] += taken.vector.amounts[:, None] * taken.counts
            else:
                self.states[taken.rows] = taken.states

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
