"""What is asked for, and what each node has for it while pieces are taken out and put back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.preemption.units import Units


@dataclass(frozen=True, slots=True)
class Demand:
    """So many equal pods: what one asks for of each column, (columns,), and (rows,) which nodes admit it."""

    amounts: NDArray[np.int64]
    admitted: NDArray[np.bool_]
    pods: int

    def caps(self, free: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of the pods fit where `free`, (columns, rows), is left of `rows`."""
        caps = np.where(self.admitted[rows], self.pods, 0)
        for amount, left in zip(self.amounts.tolist(), free, strict=True):
            if amount > 0:
                np.minimum(caps, left // amount, out=caps)
        return np.maximum(caps, 0)


class Clearing:
    """Free capacity as pieces are evicted, and which are.

    Attributes:
        free: (columns, rows) int64: milli-CPU, bytes, counts.
        chosen: (units,) the pieces.
    """

    def __init__(self, units: Units, free: NDArray[np.int64], chosen: NDArray[np.bool_] | None = None) -> None:
        """Start from `free`, copied, with the pieces of `chosen` evicted."""
        self.units = units
        self.free = free.copy()
        self.chosen: NDArray[np.bool_] = np.zeros(len(units), dtype=np.bool_)
        if chosen is not None:
            self.chosen |= chosen
            entries = np.flatnonzero(chosen[units.of])
            for column, freed in zip(self.free, units.freed[:, entries], strict=True):
                np.add.at(column, units.rows[entries], freed)

    def copy(self) -> Clearing:
        """Return the same, to go on from independently."""
        other = Clearing(self.units, self.free)
        other.chosen |= self.chosen
        return other

    def evict(self, unit: int) -> list[int]:
        """Evict a piece, and the extras with a core; return the pieces that are evicted by it."""
        going = [each for each in (*self.units.extras(unit), unit) if not self.chosen[each]]
        for each in going:
            entries = self.units.entries(each)
            self.free[:, self.units.rows[entries]] += self.units.freed[:, entries]
        self.chosen[going] = True
        return going

    def spare(self, unit: int) -> None:
        """Put one evicted piece back; extras of a core stay evicted."""
        entries = self.units.entries(unit)
        self.free[:, self.units.rows[entries]] -= self.units.freed[:, entries]
        self.chosen[unit] = False
