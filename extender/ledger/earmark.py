"""What is kept for gangs that wait: no other gang may use it."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field

import numpy as np
from numpy.typing import NDArray

from extender.cluster.gangs import Gang
from extender.placement.backfill.start import Start
from extender.placement.earmark import fits_gap
from extender.queues.order import Position, position


@dataclass(frozen=True, slots=True, eq=False)
class Earmark:
    """What is kept for one gang that waits.

    `kept` is (resources, rows). No gang behind the `position` of a blocked gang may use it. When others end, the gang
    will `start`, and work that is gone by then may use it meanwhile. What is `firm`, because others are evicted for
    it, is for the gang alone. What is kept as `spares` of a Queue is for those whom it opens them to. `now` is what is
    kept of what is free now: `of_free` while others are to leave, else all.
    """

    gang: Gang
    position: Position
    kept: NDArray[np.int64]
    start: Start | None = None
    firm: bool = False
    spares: str = ""
    of_free: InitVar[NDArray[np.int64] | None] = None
    now: NDArray[np.int64] = field(init=False)

    def __post_init__(self, of_free: NDArray[np.int64] | None) -> None:
        """Note it once: it is read for every gang that waits."""
        object.__setattr__(self, "now", self.kept if of_free is None else of_free)

    @classmethod
    def firm_for(cls, gang: Gang, kept: NDArray[np.int64], *, spares: str = "") -> Earmark:
        """Return what is kept for a gang alone, or as `spares` of a Queue."""
        return cls(gang, position(gang), kept, firm=True, spares=spares)

    @property
    def rows(self) -> NDArray[np.intp]:
        """Return the rows on which anything is kept."""
        return np.flatnonzero(self.kept.any(axis=0))

    def same_as(self, other: Earmark | None) -> bool:
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
