"""Playing a recording: every input again, at the same times, and a comparison of what comes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.recording.clocks import ClockError, PlayedClock, Readings
from extender.recording.desk import Desk
from extender.recording.entries import Noted, outcome_of
from extender.recording.outcomes import Raised
from extender.settings import Settings


@dataclass(frozen=True, slots=True)
class Difference:
    """An input of which something else came than was recorded.

    `seq` counts inputs from 1. `expected` and `got` are outcomes as they are written, equal where it is only the clock
    that was read otherwise; `clock` says how.
    """

    seq: int
    noted: Noted
    expected: bytes
    got: bytes
    clock: str = ""


class Player:
    """Decide anew what a recording says was decided.

    Attributes:
        desk: what decides; it stands as the recorded one did after as many inputs.
        seq: how many inputs have been played.
    """

    def __init__(self, settings: Settings, first: Readings) -> None:
        """Start with an empty cluster; `first` is what the clock said then."""
        self._clock = PlayedClock()
        self._clock.begin(first)
        self.desk = Desk(settings, self._clock)
        self._clock.end()
        self.seq = 0

    def play(self, noted: Iterable[Noted]) -> Iterator[Difference | None]:
        """Play inputs one after the other; yield after each what differed, None where nothing did."""
        for each in noted:
            self.seq += 1
            yield self._play(each)

    def _play(self, noted: Noted) -> Difference | None:
        what, clock = noted.what, ""
        arguments = self._resolved(noted)
        self._clock.begin(noted.readings)
        try:
            came = what.seize(self.desk, what.run(self.desk, *arguments))
        except ClockError as error:
            came, clock = Raised.of(error), str(error)
        except Exception as error:  # noqa: BLE001 - what failed when it was recorded fails again, and is an outcome
            came = Raised.of(error)
        try:
            self._clock.end()
        except ClockError as error:
            clock = clock or str(error)
        got = outcome_of(what, came)
        if got == noted.came and not clock:
            return None
        return Difference(self.seq, noted, noted.came, got, clock)

    def _resolved(self, noted: Noted) -> tuple[object, ...]:
        """Return the arguments, the first from what is known where it is that."""
        if not noted.known:
            return noted.arguments
        model = self.desk.admission.model
        kind = noted.what.takes[0]
        first: Pod | Node | None = model.pods.get(noted.known) if kind is Pod else model.table.find(noted.known)
        return (first, *noted.arguments[1:])
