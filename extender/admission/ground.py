"""What a pass has before it at one moment: what the next verdict rests on, and what is known of the nodes there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender.admission.keep import Keep, withhold
from extender.admission.sharing import Option, Sharing
from extender.admission.site import Site
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.domain.reason import Wait
from extender.placement.ground import Eligible


class Footing(NamedTuple):
    """What a verdict about a gang rests on apart from the gang itself.

    `generation` is that of the node table: it grows with every change of a node and of what is taken there, and so of
    what is charged to queues. `keeps` is what is kept for others. `obstacle` is why nobody at all is placed. `ahead` is
    who keeps all behind it in its queue waiting, "" where nobody does. With `frugal` nobody may borrow.
    """

    generation: int
    keeps: tuple[Keep, ...]
    obstacle: Wait | None
    ahead: str = ""
    frugal: bool = False


class PassGround:
    """The footing of the next verdict, and the sites on it.

    Attributes:
        heads: the gangs that wait for room and for which some is kept, first in the queue first.
        firm: what is being cleared for gangs, by gang UID.
        ahead: by queue, who keeps all behind it waiting.
        frugal: for roots of trees in which nobody may borrow, the gang that has waited for so long that this is so.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a pass begins with
        self,
        model: ClusterModel,
        sharing: Sharing,
        admitted: Eligible,
        possible: Eligible,
        obstacle: Wait | None,
        now: float,
    ) -> None:
        """Begin with nobody waiting for room; `now` is in epoch seconds."""
        self._model = model
        self._sharing = sharing
        self._admitted = admitted
        self._possible = possible
        self._obstacle = obstacle
        self._sites: dict[tuple[tuple[tuple[str, str], ...], tuple[int, ...]], Site] = {}
        self._generation = -1
        self._state: tuple[object, ...] = ()
        self.now = now
        self.heads: tuple[Keep, ...] = ()
        self.firm: dict[str, Keep] = {}
        self.ahead: dict[str, str] = {}
        self.frugal: dict[str, str] = {}

    def footing(self, queue: str) -> Footing:
        """Return what a verdict given now on a gang of a queue rests on."""
        keeps = (*self.heads, *self.firm.values())
        ahead = self.ahead.get(queue, "")
        frugal = bool(self.frugal) and self._sharing.root(queue) in self.frugal
        return Footing(self._model.table.generation, keeps, self._obstacle, ahead, frugal)

    def stirred(self) -> bool:
        """Tell whether footings may be others than when this was last asked."""
        state = (self._model.table.generation, self.heads, self.firm, len(self.ahead), len(self.frugal))
        before, self._state = self._state, state
        return before != state

    def kept_from(self, gang: Gang) -> list[Keep]:
        """Return what a gang may not use; what is being cleared for it is its own, whoever waits before it."""
        keeps = [] if gang.uid in self.firm else list(self.heads)
        if any(keep.start is not None for keep in keeps):
            duration = gang.expected_duration
            keeps = [keep for keep in keeps if not keep.open_to(duration, self.now)]
        if self.firm:
            keeps += [keep for uid, keep in self.firm.items() if uid != gang.uid]
        return keeps

    def site(self, option: Option, keeps: Sequence[Keep]) -> Site:
        """Return what is free now beside what is kept; the same as long as nobody takes or gives back anything."""
        if self._generation != self._model.table.generation:
            self._sites.clear()
            self._generation = self._model.table.generation
        key = (option.selector, tuple(map(id, keeps)))
        if key not in self._sites:
            admitted = self._sharing.within(self._admitted, option)
            possible = admitted
            if self._possible is not self._admitted:
                possible = self._sharing.within(self._possible, option)
            self._sites[key] = Site(self._model, self._sum(keeps), admitted, possible)
        return self._sites[key]

    def _sum(self, keeps: Iterable[Keep]) -> NDArray[np.int64] | None:
        """Return (resources, rows) of all that is kept, None if that is nothing."""
        total = None
        for keep in keeps:
            if total is None:
                table = self._model.table
                total = np.zeros((len(table.resources), table.rows), dtype=np.int64)
            withhold(total, -keep.kept)
        return total
