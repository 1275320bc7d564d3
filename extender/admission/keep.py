"""What is kept for gangs that wait: nobody else may use it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.admission.queue import Position
from extender.backfill.gap import fits_gap
from extender.backfill.start import Start
from extender.cluster.gangs import Gang


@dataclass(frozen=True, slots=True, eq=False)
class Keep:
    """What is kept for one gang that waits.

    `kept` is (resources, rows). Of a gang that is blocked, nobody behind `position` may use it; when others end, the
    gang will `start`, and whoever is gone by then may use it meanwhile. What is `firm`, because others are evicted for
    it, is for the gang alone.
    """

    gang: Gang
    position: Position
    kept: NDArray[np.int64]
    start: Start | None = None
    firm: bool = False

    def same_as(self, other: Keep | None) -> bool:
        """Tell whether the other is of the same life of the same gang, in the same place, and keeps the same."""
        return (
            other is not None
            and self.gang is other.gang
            and self.position == other.position
            and self.firm == other.firm
            and (None if self.start is None else self.start.at) == (None if other.start is None else other.start.at)
            and np.array_equal(self.kept, other.kept)
        )

    def open_to(self, duration: float | None, now: float) -> bool:
        """Tell whether what ends `duration` seconds after `now` (epoch seconds) may use it; None: it may never end."""
        return not self.firm and fits_gap(now, duration, self.start)


def withhold(free: NDArray[np.int64], kept: NDArray[np.int64]) -> None:
    """Take what is kept off `free`, (resources, rows), which may have grown since."""
    resources, rows = (min(pair) for pair in zip(kept.shape, free.shape, strict=True))
    free[:resources, :rows] -= kept[:resources, :rows]
