"""The head of the queue: the first gang that waits for room, and what is kept for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.admission.queue import Position
from extender.cluster.gangs import Gang


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The first gang in the queue that does not fit, and what is kept for it.

    `kept` is (resources, rows); nobody behind `position` may use it.
    """

    gang: Gang
    position: Position
    kept: NDArray[np.int64]

    def same_as(self, other: Head | None) -> bool:
        """Tell whether the other is of the same life of the same gang, in the same place, and keeps the same."""
        return (
            other is not None
            and self.gang is other.gang
            and self.position == other.position
            and np.array_equal(self.kept, other.kept)
        )
