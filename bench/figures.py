"""A figure: what was measured, how far the repeats spread, and whether it is within its bound."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity, over several repeats.

    `value` is their median, or the percentile that `name` says; `bound` is None where the budget names none.
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    bound: float | None = None

    @property
    def holds(self) -> bool | None:
        """Tell whether the median is within the bound, None without one."""
        return None if self.bound is None else self.value < self.bound

    def as_json(self) -> dict[str, object]:
        """Return the figure under the keys of the JSON output."""
        return {
            "value": round(self.value, 4),
            "bound": self.bound,
            "holds": self.holds,
            "min": round(self.low, 4),
            "max": round(self.high, 4),
            "unit": self.unit,
        }


def time_call(name: str, call: Callable[[], object], *, repeats: int, bound: float | None = None) -> Figure:
    """Time `call` in milliseconds after one warm-up."""
    call()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1000)
    return Figure(name, "ms", statistics.median(times), min(times), max(times), bound)


def ratio(name: str, above: Figure, below: Figure, *, bound: float | None = None) -> Figure:
    """Relate two figures of one run: the only kind of figure that means the same on every machine."""
    return Figure(
        name,
        "ratio",
        above.value / below.value,
        above.low / below.high,
        above.high / below.low,
        bound,
    )
