"""A gang that wants nodes, as it stands in its queue."""

from __future__ import annotations

from dataclasses import dataclass

from extender.admission.ground import Footing
from extender.admission.keep import Keep
from extender.admission.queue import Position
from extender.admission.site import Party
from extender.cluster.gangs import Gang


@dataclass(slots=True)
class Contender:
    """A gang that wants nodes, as it stood when it last changed, and what was found out about it.

    `core` is what it cannot start without; None for a gang that only wants places for members beyond minMember. With
    `gated` it asks for no nodes yet, only whether its queue has quota for it; one that `blocks` lets not
    everybody pass; one that `borrows` would take its queue beyond its quota, when that was last asked. Its verdict was
    given on `judged_on`, which made it a `head` or not; that on the members beyond on `extras_judged_on`.
    """

    gang: Gang
    queue: str
    position: Position
    core: Party | None
    gated: bool = False
    blocks: bool = False
    borrows: bool = False
    judged_on: Footing | None = None
    head: Keep | None = None
    extras_judged_on: Footing | None = None

    @property
    def is_urgent(self) -> bool:
        """Tell whether it comes before all that is not, whatever queue it is in."""
        return not (self.position.not_partial and self.position.not_aged)
