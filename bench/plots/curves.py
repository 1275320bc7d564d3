"""Plots of growth: panels of lines, each a quantity at several sizes, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet

from bench.figures import Figure
from bench.plots import paper
from bench.plots.results import Missing, Results, points
from bench.service.growth import exponent

#: Fewer show no growth.
_LEAST_POINTS = 2
_LOOKS = (("o", paper.BLUE), ("s", paper.ORANGE))
#: Inches of one row of panels, and of the title above them; room for the legend, as a part of the height.
_ROW, _HEAD, _LEGEND = 2.9, 0.4, 0.35
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

    def draw(self, axes: Axes, results: Results, marker: str, colour: str) -> set[int]:
        """Draw markers with their spread, and the power law that fits them best; return the sizes."""
        found = self.points(results)
        values = np.array([point.value for point in found.values()])
        # Percentiles over all calls may lie outside what the rounds spread over.
        spread = [
            np.maximum(values - [point.low for point in found.values()], 0),
            np.maximum([point.high for point in found.values()] - values, 0),
        ]
        slope = exponent([*found], [*values])
        shape = np.array([*found], dtype=float) ** slope
        axes.plot([*found], shape * np.exp(np.mean(np.log(values / shape))), color=colour, alpha=0.6)
        label = f"{self.label}, exponent {slope:z.2f}"
        axes.errorbar([*found], values, spread, fmt=marker, color=colour, elinewidth=1, label=label)
        return set(found)


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
        """Draw the lines and the bound; x is labelled where something was measured."""
        axes.set(title=self.title, xlabel=self.sizes, ylabel=self.quantity, xscale="log", yscale="log")
        sizes: set[int] = set()
        for line, look in zip(self.lines, _LOOKS, strict=False):
            sizes |= line.draw(axes, results, *look)
        if self.bound is not None:
            label = f"bound {self.bound.where}: {self.bound.value:g}"
            axes.axhline(self.bound.value, color=paper.RED, linewidth=1, linestyle="--", label=label)
        axes.set_xticks(sorted(sizes), [f"{size:,}" for size in sorted(sizes)])
        axes.set_xticks([], minor=True)
        axes.margins(y=_LEGEND)
        axes.yaxis.set_major_formatter(paper.PLAIN)
        axes.legend()


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
        for line in (line for panel in self.panels for line in panel.lines):
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
