"""How late Muster's event loop turned between two readings of its metrics."""

from __future__ import annotations

from dataclasses import dataclass

from bench.histogram import added, quantile, quantile_bucket
from bench.soak.sampling import Page

_STALLS, _CAUSES = "muster_event_loop_stalls_total", ("busy", "starved")
_LAG, _LONGEST_LAG = "muster_event_loop_lag_seconds", "muster_event_loop_longest_lag_seconds"


@dataclass(frozen=True, slots=True)
class Lag:
    """The latest turn of the event loop, and the 99th percentile of all, in milliseconds; and how many were stalls.

    `longest` is exact unless something worse happened within the minute before; then it is the upper end of the
    histogram's bucket that it falls into. `busy` counts the stalls in which Muster itself computed all the while,
    `starved` those in which it waited for a processor: they tell of the machine.
    """

    longest: float
    p99: float
    busy: float
    starved: float

    @classmethod
    def between(cls, before: Page, after: Page) -> Lag:
        """Take the difference of two readings; zeros where the loop was not looked at in between."""
        counts = added(before.buckets(_LAG), after.buckets(_LAG))
        longest = min(quantile_bucket(counts, 1.0)[1], after.sum(_LONGEST_LAG))
        busy, starved = (after.sum(_STALLS, cause=cause) - before.sum(_STALLS, cause=cause) for cause in _CAUSES)
        return cls(1000 * longest, 1000 * quantile(counts, 0.99), busy, starved)
