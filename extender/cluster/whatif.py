"""A snapshot of what is free, to try placements on and take them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


@dataclass(frozen=True, slots=True)
class _Vacated:
    """Claims given back: what each shape gained on which rows, the states of `rows` before, and whose claims they were.

    A row occurs in `gains` as often as it gained.
    """

    gains: tuple[tuple[Vector, NDArray[np.intp]], ...]
    rows: NDArray[np.intp]
    states: NDArray[np.int64]
    uids: Mapping[str, list[str]]


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
        self._taken: list[_Taken | _Settled | _Vacated] = []
        self._gone: dict[str, set[str]] = {}

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

    def vacate(self, uids: Iterable[str]) -> None:
        """Give back, until undone, what these pods claim in the table of columns, GPUs and zones, each at most once.

        Claims on nodes that are not there give nothing back.
        """
        going: dict[str, list[str]] = {}
        gains: dict[Shape, list[int]] = {}
        for uid in dict.fromkeys(uids):
            claim = self.table.claim_of(uid)
            row = None if claim is None else self.table.row(claim.node)
            if claim is None or row is None or uid in self._gone.get(claim.node, ()):
                continue
            going.setdefault(claim.node, []).append(uid)
            gains.setdefault(claim.shape, []).append(row)
        if not going:
            return
        vectors = tuple((self.table.vector(shape.requests), np.array(at, np.intp)) for shape, at in gains.items())
        for vector, at in vectors:
            np.add.at(self.free, (vector.columns[:, None], at), vector.amounts[:, None])
        rows, before = self._leave(going)
        for name, leaving in going.items():
            self._gone.setdefault(name, set()).update(leaving)
        self._taken.append(_Vacated(vectors, rows, before, going))

    def _leave(self, going: Mapping[str, list[str]]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Give back GPUs and zones; return the rows whose states change, and the states before."""
        table, states = self.table, self.states
        rows = table.rows_of(list(going))
        before = states[rows]
        after = [
            table.occupancy.vacated(state, name, uids, self._gone.get(name, ()), self._holding)
            for state, (name, uids) in zip(before.tolist(), going.items(), strict=True)
        ]
        states[rows] = after
        return rows, before

    def mark(self) -> Mark:
        """Return the present point."""
        return Mark(len(self._taken))

    def undo(self, mark: Mark) -> None:
        """Give back everything taken since `mark`."""
        while len(self._taken) > mark.length:
            taken = self._taken.pop()
            if isinstance(taken, _Taken):
                self.free[taken.vector.columns[:, None], taken.rows] += taken.vector.amounts[:, None] * taken.counts
                continue
            self.states[taken.rows] = taken.states
            if isinstance(taken, _Vacated):
                for vector, rows in taken.gains:
                    np.subtract.at(self.free, (vector.columns[:, None], rows), vector.amounts[:, None])
                for name, uids in taken.uids.items():
                    self._gone[name].difference_update(uids)

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
