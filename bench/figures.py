"""A figure: what was measured, how far the repeats spread, and whether it is within its bound."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity, over several repeats.

    `value` is their median, or the percentile that `name` says. `bound` is None where the budget names none; a value
    that reaches it holds, unless the bound is `exclusive`. `repeats` are the values that `value` is the median of, in
    the order in which they were measured, so that those of several figures can be paired; empty for other figures.
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    bound: float | None = None
    exclusive: bool = False
    repeats: tuple[float, ...] = ()

    @property
    def holds(self) -> bool | None:
        """Tell whether the value is within the bound, None without one."""
        if self.bound is None:
            return None
        return self.value < self.bound if self.exclusive else self.value <= self.bound

    @property
    def verdict(self) -> str:
        """Return the bound and whether it holds, for people; empty without a bound."""
        if self.bound is None:
            return ""
        return f"{'<' if self.exclusive else '<='} {self.bound:g} {'ok' if self.holds else 'MISSED'}"

    def as_json(self) -> dict[str, object]:
        """Return the figure under the keys of the JSON output."""
        return {
            "value": round(self.value, 4),
            "bound": self.bound,
            "holds": self.holds,
            "min": round(self.low, 4),
            "max": round(self.high, 4),
            "unit": self.unit,
            "repeats": [round(value, 4) for value in self.repeats],
        }


def of_repeats(
    name: str, unit: str, values: Sequence[float], *, bound: float | None = None, exclusive: bool = False
) -> Figure:
    """Return the median of what the repeats measured, with the least and the most."""
    return Figure(name, unit, statistics.median(values), min(values), max(values), bound, exclusive, tuple(values))


def ratio(name: str, above: Figure, below: Figure, *, bound: float | None = None, exclusive: bool = False) -> Figure:
    """Relate two figures of one run: the only kind of figure that means the same on every machine."""
    return Figure(
        name,
        "ratio",
        above.value / below.value,
        above.low / below.high,
        above.high / below.low,
        bound,
        exclusive,
    )


def ratios_first(figures: Sequence[Figure]) -> list[Figure]:
    """Order figures for people: ratios, then what else has a bound, then the rest."""
    return sorted(figures, key=lambda figure: (figure.unit != "ratio", figure.bound is None))
