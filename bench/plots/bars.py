"""The plot of contenders: one panel for each case, one bar for each contender, from the first creation to all bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet

from bench.controlplane.cases import Comparison, NextGang
from bench.controlplane.contenders import Contender
from bench.controlplane.workload import Workload
from bench.figures import Figure
from bench.plots import paper
from bench.plots.results import Missing, Results

_COLOURS: Mapping[Contender, str] = {
    Contender.STOCK: paper.GREY,
    Contender.NATIVE: paper.ORANGE,
    Contender.MUSTER: paper.BLUE,
    Contender.FLOOR: paper.GREEN,
}
_CAPTION = (
    "seconds: median, with the least and the most of the repeats; shorter is better; each panel has its own scale"
)
_BOUND_STYLES = ((0, (5, 2)), (0, (1, 1)))
#: Inches of one bar, of what stands around those of one panel, and of the title above all.
_BAR, _AROUND, _HEAD = 0.27, 0.75, 0.45
#: Room to the right of what is longest, as a part of it.
_ROOM = 0.03


@dataclass(frozen=True, slots=True)
class Race:
    """One panel: the seconds of each contender, by the names of their figures.

    `bounds` are the budget's for Muster, as parts of a rival's time.
    """

    case: str
    title: str
    figures: Mapping[Contender, str]
    bounds: Mapping[Contender, float]

    @classmethod
    def of_comparison(cls, case: str, measured: Comparison) -> Race:
        """Return the panel of a workload that several contenders place."""
        figures = {contender: f"{measured.name}_{contender}_s" for contender in measured.seconds_per_pod}
        bounds = {rival: bound for rival, bound in measured.rivals.items() if bound is not None}
        return cls(case, f"{_workload(measured.workload)} on {measured.nodes:,} nodes", figures, bounds)

    @classmethod
    def of_next_gang(cls, case: str, measured: NextGang) -> Race:
        """Return the panel of a full cluster, from the end of one gang until the next is bound."""
        figures = {contender: f"{measured.name}_{contender}_next_gang_s" for contender in measured.contenders}
        waiting = _workload(measured.waiting)
        title = f"{waiting} wait on {measured.nodes:,} full nodes: from the end of one to the next bound"
        return cls(case, title, figures, {})

    def found(self, results: Results) -> dict[Contender, Figure]:
        """Return the figures that there are, in the order of the contenders."""
        return {one: results[self.figures[one]] for one in Contender if self.figures.get(one) in results}

    def draw(self, axes: Axes, results: Results) -> None:
        """Draw the bars from top to bottom, each with its median and with the least and the most as whiskers."""
        times = self.found(results)
        limits = {rival: bound * times[rival].value for rival, bound in self.bounds.items()}
        most = max([*limits.values(), *(time.high for time in times.values())])
        for place, (contender, time) in enumerate(times.items()):
            whiskers = [[time.value - time.low], [time.high - time.value]]
            error = {"ecolor": paper.INK, "elinewidth": 1, "capsize": 2.5}
            axes.barh(place, time.value, height=0.7, color=_COLOURS[contender], xerr=whiskers, error_kw=error)
        for (rival, seconds), dashes in zip(limits.items(), _BOUND_STYLES, strict=False):
            row = list(times).index(Contender.MUSTER)
            label = f"bound: {self.bounds[rival]:g} of {rival}"
            axes.plot(
                [seconds, seconds],
                [row - 0.5, row + 0.5],
                color=paper.RED,
                linewidth=1.6,
                linestyle=dashes,
                label=label,
            )
        axes.set(title=self.title, xlim=(0, most * (1 + _ROOM)))
        labels = [f"{contender}: {paper.number(time.value)} s" for contender, time in times.items()]
        axes.set_yticks(range(len(times)), labels)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        paper.plain_numbers(axes, y=False)
        if self.bounds:
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(self.bounds), handlelength=2.2)


@dataclass(frozen=True, slots=True)
class BarPlot:
    """Panels one below the other that make one file."""

    name: str
    title: str
    panels: Sequence[Race]

    def missing(self, results: Results) -> Missing:
        """Return the names of the figures that are lacking, by what measures them."""
        lacking: dict[str, list[str]] = {}
        for race in self.panels:
            if names := [name for name in race.figures.values() if name not in results]:
                lacking[f"--family control-plane --case {race.case}"] = names
        return lacking

    def draw(self, results: Results) -> Sheet:
        """Draw the panels, as high as they have bars; nothing may be missing."""
        heights = [_AROUND + _BAR * len(race.figures) for race in self.panels]
        sheet = paper.sheet(self.title, _CAPTION, height=_HEAD + sum(heights))
        grid = sheet.add_gridspec(len(self.panels), 1, height_ratios=[len(race.figures) for race in self.panels])
        for place, race in enumerate(self.panels):
            race.draw(sheet.add_subplot(grid[place, 0]), results)
        return sheet


def _workload(workload: Workload) -> str:
    if not workload.grouped:
        return f"{workload.pods:,} single pods"
    gangs = "1 gang" if workload.gangs == 1 else f"{workload.gangs:,} gangs"
    return f"{gangs} of {workload.size:,}"
