"""When people are told: changes of gangs are collected for a moment, then each is told once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice

from extender.admission.admission import Admission
from extender.admission.effects import Note
from extender.cluster.gangs import Gang
from extender.control.changedgangs import ChangedGangs
from extender.control.reports import Reports
from extender.control.views import GangView, view
from extender.domain.membership import GroupRef

#: Gangs that are looked at before others have the event loop: a millisecond or two.
_GANGS_PER_TURN = 50


class Reporting:
    """Look at gangs that changed, some time after they did, and have written what is new about them.

    Attributes:
        changed_gangs: which gangs changed since somebody who shows them last looked.
    """

    def __init__(self, admission: Admission, reports: Reports, delay_seconds: float) -> None:
        """Wait `delay_seconds` after a change: a gang whose pods are being created changes with each of them."""
        self._admission = admission
        self._reports = reports
        self._delay = delay_seconds
        self.changed_gangs = ChangedGangs()
        self._changed: dict[GroupRef, None] = {}
        self._due: dict[GroupRef, None] = {}  # changed long enough ago, and not looked at yet
        self._timer: asyncio.TimerHandle | None = None

    def views(self) -> Iterator[GangView]:
        """Yield how every gang stands, those of other schedulers included, each as of when it is asked for."""
        return map(self.view, list(self._admission.model.gangs))

    def changed(self, refs: Iterable[GroupRef]) -> None:
        """Look at these gangs in a moment; nothing is told by a Muster that does not decide."""
        refs = tuple(refs)
        self.changed_gangs.note(refs)
        if not self._admission.rebuilt:
            return
        self._changed |= dict.fromkeys(refs)
        if self._timer is None and self._changed:
            self._timer = asyncio.get_running_loop().call_later(self._delay, self._report)

    def note(self, note: Note) -> None:
        """Tell of something at once."""
        gang = self._admission.model.gangs.get(note.about) if isinstance(note.about, GroupRef) else None
        self._reports.note(note, gang)

    def stand_down(self) -> None:
        """Tell nothing any more, and forget what was told: somebody else may tell other things meanwhile."""
        self.changed_gangs.note_all()
        self._changed.clear()
        self._due.clear()
        self._reports.forget_all()

    def _report(self) -> None:
        """Tell of some gangs that are due, and of the rest in the next turn of the loop; then wait for the next."""
        if not self._due:
            self._due, self._changed = self._changed, {}
        for ref in list(islice(self._due, _GANGS_PER_TURN)):
            del self._due[ref]
            gang = self._admission.model.gangs.get(ref)
            if gang is None:
                self._reports.forget(ref)
                continue
            seen = self.view(gang)
            if seen.managed:
                self._reports.report(gang, seen)
        self._timer = None
        if self._due or self._changed:
            self._timer = asyncio.get_running_loop().call_later(0 if self._due else self._delay, self._report)

    def view(self, gang: Gang) -> GangView:
        """Return how one gang stands."""
        model, reservations = self._admission.model, self._admission.reservations
        reservation = reservations.ledger.of_gang(gang.uid)
        slots = 0 if reservation is None else len(reservation.slots)
        managed = model.concerns(gang)
        evicted = "" if gang.has_minimum else self._admission.term.clearances.told.get(gang.uid, "")
        return view(gang, slots, reservations.waits.get(gang.uid), managed=managed, evicted=evicted)
