"""Areas under step functions of time: GPUs times seconds, whose steps may become known late and out of order.

A change says from when on it counts. What has been counted since then as if it had not been is put right, so the sums
are those of knowing everything at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extender.history.records import HOUR, HourSums, Payer, Purpose

#: Queues and namespaces that counters tell apart, the first that use anything: each is three series of a metric.
MOST_COUNTED: Final = 500


class Meter:
    """The area under one step function; times are in seconds of whatever clock."""

    __slots__ = ("_moment", "value")

    def __init__(self, area: float = 0.0) -> None:
        """Start at 0, with an `area` that there is already."""
        self.value = 0
        self._moment = -area  # the sum of changes times when they were made, less what there was

    def change(self, by: int, at: float) -> None:
        """Let the value be another one from `at` on."""
        self.value += by
        self._moment += by * at

    def add(self, area: float) -> None:
        """Add to the area."""
        self._moment -= area

    def afresh(self, at: float) -> Meter:
        """Return one with the same value, and no area before `at`."""
        other = Meter()
        other.change(self.value, at)
        return other

    def area(self, at: float) -> float:
        """Return the area up to `at`."""
        return self.value * at - self._moment


class HourBook:
    """GPU-seconds by hour and payer: what has come together since they were last taken, and what goes on.

    Times are in epoch seconds.
    """

    def __init__(self, now: float) -> None:
        """Start empty, counted up to `now`."""
        self._until = now
        self._rates: dict[tuple[Payer, Purpose], int] = {}
        self._sums: dict[tuple[int, Payer], list[float]] = {}

    @property
    def size(self) -> int:
        """Return how many sums have come together."""
        return len(self._sums)

    def clear(self, now: float, *uses: Purpose) -> None:
        """Forget what was for some uses, and what is now; the rest is counted up to `now`."""
        kept = self.take(now)
        self._sums = {key: [0.0 if use in uses else amounts[use] for use in Purpose] for key, amounts in kept.items()}
        self._rates = {(payer, use): gpus for (payer, use), gpus in self._rates.items() if use not in uses}

    def change(self, payer: Payer, use: Purpose, gpus: int, at: float) -> None:
        """Let so many GPUs more be in use from `at` on, or less if below 0."""
        if gpus:
            rate = self._rates.get((payer, use), 0) + gpus
            if rate:
                self._rates[payer, use] = rate
            else:
                del self._rates[payer, use]
            self.spread(payer, use, gpus, at, self._until)

    def spread(self, payer: Payer, use: Purpose, gpus: int, start: float, end: float) -> None:
        """Add so many GPUs from `start` to `end`, and take them off where that runs backwards."""
        sign = 1 if end >= start else -1
        for hour, seconds in by_hour(min(start, end), max(start, end)):
            self.add(hour, payer, use, sign * gpus * seconds)

    def add(self, hour: int, payer: Payer, use: Purpose, amount: float) -> None:
        """Add GPU-seconds to an hour."""
        sums = self._sums.get((hour, payer))
        if sums is None:
            sums = self._sums[hour, payer] = [0.0] * len(Purpose)
        sums[use] += amount

    def take(self, now: float) -> dict[tuple[int, Payer], HourSums]:
        """Return what has come together up to `now` since this was last asked. Complexity: O(payers)."""
        for (payer, use), gpus in self._rates.items():
            self.spread(payer, use, gpus, self._until, now)
        self._until = now
        taken, self._sums = self._sums, {}
        return {key: HourSums(*sums) for key, sums in taken.items() if any(sums)}


def by_hour(start: float, end: float) -> Iterator[tuple[int, float]]:
    """Yield the hours that a stretch of time touches (hours since 1970), and how many seconds of it are in each."""
    hour = int(start // HOUR)
    while start < end:
        until = min(end, float((hour + 1) * HOUR))
        yield hour, until - start
        start, hour = until, hour + 1


class GpuTotals:
    """GPU-seconds by queue and namespace since a moment, as counters: they never go back."""

    def __init__(self, now: float) -> None:
        """Count from `now` on (epoch seconds)."""
        self._since = now
        self._meters: dict[tuple[str, str], tuple[Meter, Meter, Meter]] = {}
        self._shown: dict[tuple[str, str, Purpose], float] = {}

    def change(self, payer: Payer, use: Purpose, gpus: int, at: float) -> None:
        """Let so many GPUs more be in use from `at` on, or less if below 0."""
        if gpus:
            self._of(payer)[use].change(gpus, max(at - self._since, 0.0))

    def add(self, payer: Payer, use: Purpose, amount: float) -> None:
        """Add GPU-seconds."""
        self._of(payer)[use].add(amount)

    def grown(self, now: float) -> Iterator[tuple[str, str, Purpose, float]]:
        """Yield queue, namespace, use, and by how much the sum has grown since this was last asked."""
        for (queue, namespace), meters in self._meters.items():
            for use, meter in zip(Purpose, meters, strict=False):
                area, shown = meter.area(now - self._since), self._shown.get((queue, namespace, use), 0.0)
                if area > shown:  # what became known late may have taken some off
                    self._shown[queue, namespace, use] = area
                    yield queue, namespace, use, area - shown

    def _of(self, payer: Payer) -> tuple[Meter, Meter, Meter]:
        key = payer.queue, payer.namespace
        found = self._meters.get(key)
        if found is None:
            key = key if len(self._meters) < MOST_COUNTED else ("", "")
            found = self._meters.setdefault(key, (Meter(), Meter(), Meter()))
        return found
