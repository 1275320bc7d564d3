"""Who waits for nodes or quota, in the order in which they are judged."""

from __future__ import annotations

from collections.abc import Mapping

from extender.admission.contender import Contender
from extender.admission.queue import Walk
from extender.admission.sharing import NAMELESS
from extender.domain.reason import Reason, Wait


def line_up(walk: Walk[Contender], waits: Mapping[str, Wait]) -> list[Contender]:
    """Return who waits for nodes or quota, in the order in which a pass judges them as things stand.

    Who would borrow comes after all who would not, as when it was last judged. `waits` is gang UID -> why it waits.
    """
    line: list[Contender] = []
    while stretch := walk.stretch():
        for each in stretch:
            patient = each.queue != NAMELESS and not (walk.is_last or each.is_urgent)
            if patient and (each.borrows or walk.defers(each.queue)):
                walk.defer(each)
            else:
                line.append(each)
    return [each for each in line if _waits(each, waits)]


def _waits(contender: Contender, waits: Mapping[str, Wait]) -> bool:
    """Tell whether a contender wants nodes for what it cannot start without, and has no promise of them."""
    wait = waits.get(contender.gang.uid)
    return contender.core is not None and (wait is None or wait.reason is not Reason.AWAITING_MEMBERS)
