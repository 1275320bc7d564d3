"""Plots of growth: panels of lines, each a quantity at several sizes, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from bench.figures import Figure
from bench.plots import paper
from bench.plots.results import Missing, Results, points
from bench.service.growth import exponent

#: Fewer show no growth.
_LEAST_POINTS = 2
_MARKERS, _COLOURS = "os^D", (paper.BLUE, paper.ORANGE, paper.GREEN, paper.PURPLE)
#: Inches of one row of panels, and of the title above them.
_ROW, _HEAD = 2.9, 0.4
#: Powers of ten along y: at least so many, or noise would look like growth; with less than so many more ticks are set.
_LEAST_DECADES, _FEW_DECADES = 1.0, 1.7
#: Room for one line of the legend above everything else, as a part of the height that the rest takes.
_LEGEND_LINE = 0.14
_CAPTION = "median, with the least and the most of the repeats; lines are the power laws size^exponent that fit best"


@dataclass(frozen=True, slots=True)
class Line:
    """One line: the figures whose names match `pattern`, and the arguments of `python -m bench` that measure them."""

    label: str
    pattern: str
    arguments: str

    def points(self, results: Results) -> dict[int, Figure]:
        """Return the figures by size, the smallest first; empty if there are too few to see growth."""
        found = points(results, self.pattern)
        return found if len(found) >= _LEAST_POINTS else {}


@dataclass(frozen=True, slots=True)
class Bound:
    """What the budget allows, in the panel's unit; `where` says at which size."""

    value: float
    where: str


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines over the same sizes: `sizes` says what is counted along x, `quantity` what is measured, with its unit."""

    title: str
    sizes: str
    quantity: str
    lines: Sequence[Line]
    bound: Bound | None = None

    def draw(self, axes: Axes, results: Results) -> None:
        """Draw markers where something was measured, with their spread, and the power law that fits them best."""
        axes.set(title=self.title, xlabel=self.sizes, ylabel=self.quantity, xscale="log", yscale="log")
        for line, colour, marker in zip(self.lines, _COLOURS, _MARKERS, strict=False):
            _draw_line(axes, line.label, line.points(results), colour, marker)
        if self.bound is not None:
            label = f"bound {self.bound.where}: {paper.number(self.bound.value)}"
            axes.axhline(self.bound.value, color=paper.RED, linewidth=1, linestyle=(0, (5, 3)), label=label)
        _set_ticks(axes, sorted(set(chain.from_iterable(line.points(results) for line in self.lines))))
        _make_room(axes, legend_lines=len(self.lines) + (self.bound is not None))
        axes.legend(loc="upper left", handlelength=1.8)


@dataclass(frozen=True, slots=True)
class CurvePlot:
    """Panels that make one file, in so many columns."""

    name: str
    title: str
    panels: Sequence[Panel]
    columns: int = 2

    def missing(self, results: Results) -> Missing:
        """Return the names of the figures that are lacking, by what measures them."""
        lacking: dict[str, list[str]] = {}
        for line in self._lines():
            if not line.points(results):
                lacking.setdefault(line.arguments, []).append(line.pattern)
        return lacking

    def draw(self, results: Results) -> Sheet:
        """Draw the panels; nothing may be missing."""
        rows = ceil(len(self.panels) / self.columns)
        sheet = paper.sheet(self.title, _CAPTION, height=_HEAD + rows * _ROW)
        for place, panel in enumerate(self.panels, start=1):
            panel.draw(sheet.add_subplot(rows, self.columns, place), results)
        return sheet

    def _lines(self) -> Iterator[Line]:
        return chain.from_iterable(panel.lines for panel in self.panels)


def _draw_line(axes: Axes, label: str, found: Mapping[int, Figure], colour: str, marker: str) -> None:
    sizes = np.array([*found], dtype=float)
    values = np.array([point.value for point in found.values()])
    # Percentiles over all calls may lie outside what the rounds spread over.
    below = np.maximum(values - [point.low for point in found.values()], 0)
    above = np.maximum([point.high for point in found.values()] - values, 0)
    slope = exponent([*found], [*values])
    fitted = sizes**slope * np.exp(np.mean(np.log(values)) - slope * np.mean(np.log(sizes)))
    axes.plot(sizes, fitted, color=colour, linewidth=1.2, alpha=0.6)
    axes.errorbar(
        sizes,
        values,
        yerr=[below, above],
        color=colour,
        marker=marker,
        markersize=5,
        linestyle="none",
        elinewidth=1,
        label=f"{label}, exponent {slope:z.2f}",
    )


def _set_ticks(axes: Axes, sizes: Sequence[int]) -> None:
    """Label what was measured along x; along y powers of ten, with 2 and 5 between them where there are few."""
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = np.log10(axes.get_ylim())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high - low < _FEW_DECADES else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    paper.plain_numbers(axes)


def _make_room(axes: Axes, legend_lines: int) -> None:
    low, high = np.log10(axes.get_ylim())
    widen = max(0.0, _LEAST_DECADES - (high - low)) / 2
    low, high = low - widen, high + widen
    axes.set_ylim(10**low, 10 ** (high + legend_lines * _LEGEND_LINE * (high - low)))
