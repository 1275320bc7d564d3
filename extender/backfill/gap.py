"""Who may use the gap: room that is kept for others, until they need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from extender.backfill.calendar import STARTING_SECONDS, Calendar
from extender.backfill.outlook import Outlook, Reservation
from extender.backfill.start import Blocked, Found, Start, find, keep_aligned, still_holds
from extender.cluster.whatif import WhatIf

#: Seconds that a pod which is killed at its deadline may go on, and claim: Kubernetes' default of
#: `terminationGracePeriodSeconds`.
ENDING_SECONDS = 30.0

#: Seconds by which work has to end before a start, by its declared runtime, to use what is kept for it.
MARGIN_SECONDS = STARTING_SECONDS + ENDING_SECONDS

#: Gangs that conservative backfill gives a start: 16 of 64 x 8 GPUs take 145 ms on 1,000 nodes, mostly for their plans.
#: Beyond the first few a start lies so far ahead that hardly anything ends by then as declared.
MOST_BLOCKED = 16


def fits_gap(now: float, duration: float | None, start: Start | None, margin: float = MARGIN_SECONDS) -> bool:
    """Tell whether work that starts now and runs for `duration` seconds may use what is kept for `start`.

    Without a declared runtime, or where nobody knows when the other will start, it may not. `now` is in epoch seconds.
    """
    return start is not None and duration is not None and now + duration + margin <= start.at


@dataclass(slots=True)
class _Entry:
    """A gang with a place in the profile, None while it has none."""

    blocked: Blocked
    found: Found | None


class Profile:
    """The starts of several blocked gangs, none of which delays another, and what they leave to everybody else.

    Conservative backfill (Mu'alem and Feitelson 2001): each gang in queue order has the earliest start beside all
    others. First everybody's promise is laid down again, as far as it still holds; then each moves to the earliest
    moment that leaves the others where they are. So as long as everything ends when it was expected to, no start ever
    moves to a later time, whoever else moves. With a single gang it is EASY backfill.

    Attributes:
        starts: name of a gang -> its start; those are missing that no expected ends make fit.
    """

    def __init__(
        self, blocked: Sequence[Blocked], free: WhatIf, calendar: Calendar, margin: float = MARGIN_SECONDS
    ) -> None:
        """Give starts to the gangs, the first `MOST_BLOCKED` in queue order; names are unique.

        `free` is what is free now, what was kept for these gangs before included; it is the same again afterwards, and
        must not be used for anything else as long as the profile is. `margin` is how many seconds before a start others
        have to be gone who use what is kept for it.
        """
        self._margin = margin
        self._outlook = Outlook(free, calendar)
        entries = [_Entry(each, None) for each in blocked[:MOST_BLOCKED]]
        for entry in entries:
            if entry.blocked.promised is not None:
                self._lay(entry, still_holds(self._padded(entry.blocked), entry.blocked.promised, self._outlook))
        for entry in entries:
            kept = entry.found
            self._lay(entry, None)
            before = inf if kept is None else kept.reservation.at
            self._lay(entry, find(self._padded(entry.blocked), self._outlook, before) or kept)
        self._outlook.rewind()
        self._entries = {entry.blocked.name: entry for entry in entries}
        self.starts: dict[str, Start] = {}
        ahead: list[Reservation] = []
        for entry in entries:
            if entry.found is not None:
                self.starts[entry.blocked.name] = entry.found.start(self._outlook, ahead)
                ahead.append(entry.found.reservation)

    def reach(self, duration: float | None) -> int:
        """Count the starts that work outlasts which starts now and runs for `duration` seconds.

        What is kept from it depends on nothing else.
        """
        until = self._until(duration)
        return sum(start.at < until for start in self.starts.values())

    def kept(self, duration: float | None, besides: str = "") -> NDArray[np.int64]:
        """Return (resources, rows) what work has to leave of the room that is free now, by how long it runs (seconds).

        None is for ever. What is kept for the gang called `besides`, for whom this is asked, is not kept from it.
        """
        outlook, until = self._outlook, self._until(duration)
        others = [each for each in outlook.reservations if each.name != besides and each.overlaps(outlook.now, until)]
        return keep_aligned(outlook.withheld(others, outlook.now, until), others, outlook)

    def settle(self, name: str) -> None:
        """Take in that a gang has what it was promised, or other room: claims in the table stand for it from now on."""
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._lay(entry, None)
            self.starts.pop(name, None)

    def _until(self, duration: float | None) -> float:
        return inf if duration is None else self._outlook.now + duration + self._margin

    def _padded(self, blocked: Blocked) -> Blocked:
        """Return the gang with the margin in its runtime: others start right after it."""
        if blocked.duration is None:
            return blocked
        return replace(blocked, duration=blocked.duration + self._margin)

    def _lay(self, entry: _Entry, found: Found | None) -> None:
        """Give a gang its place in the profile, in place of a former one."""
        reservations = self._outlook.reservations
        if entry.found is not None:
            reservations.remove(entry.found.reservation)
        if found is not None:
            reservations.append(found.reservation)
        entry.found = found
