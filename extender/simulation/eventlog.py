"""The Events that were recorded, equal ones counted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from extender.clock import Clock
from extender.control.ports import ClusterEvent


@dataclass(slots=True)
class RecordedEvent:
    """An Event and how often it was recorded, first and last."""

    event: ClusterEvent
    first: dt.datetime
    last: dt.datetime
    count: int = 1


class EventLog:
    """Keep Events in the order of their first occurrence; the oldest give way when there are too many."""

    #: Different Events kept; the API server forgets them after an hour.
    CAPACITY = 100_000

    def __init__(self, clock: Clock) -> None:
        """Start empty."""
        self._clock = clock
        self._events: dict[ClusterEvent, RecordedEvent] = {}

    def __iter__(self) -> Iterator[RecordedEvent]:
        """Iterate over what was recorded."""
        return iter(self._events.values())

    def __len__(self) -> int:
        """Count the different Events."""
        return len(self._events)

    def record(self, event: ClusterEvent) -> None:
        """Add an Event, or count it once more."""
        now = self._clock.now()
        known = self._events.get(event)
        if known is None:
            self._events[event] = RecordedEvent(event, now, now)
            if len(self._events) > self.CAPACITY:
                del self._events[next(iter(self._events))]
        else:
            known.count += 1
            known.last = now

    def about(self, name: str, reason: str | None = None) -> list[RecordedEvent]:
        """Return the Events about objects called `name`, of one `reason` or all."""
        return [
            known
            for known in self._events.values()
            if known.event.about.name == name and reason in {None, known.event.reason}
        ]
