"""The plot of contenders: one panel for each case, one bar for each contender, from the first creation to all bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet

from bench.controlplane.cases import Comparison
from bench.controlplane.contenders import Contender
from bench.controlplane.waitingcases import NextGang
from bench.plots import paper
from bench.plots.results import Missing, Results

_COLOURS: Mapping[Contender, str] = {
    Contender.STOCK: paper.GREY,
    Contender.STOCK_100: paper.GREY,
    Contender.NATIVE: paper.ORANGE,
    Contender.NATIVE_100: paper.ORANGE,
    Contender.FLOOR: paper.GREEN,
    Contender.MUSTER: paper.BLUE,
}
_CAPTION = (
    "seconds: median, with the least and the most of the repeats; shorter is better; each panel has its own scale"
)
_BOUND_STYLES = ((0, (5, 2)), (0, (1, 1)))
#: Inches of one bar, of what stands around those of one panel, and of the title above all.
_BAR, _AROUND, _HEAD = 0.27, 0.75, 0.45


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
        """Return the panel of a workload that several contenders place.

        Those that are made to look at all nodes are shown where the budget speaks of them.
        """
        figures = {
            contender: f"{measured.name}_{contender}_s"
            for contender in measured.contenders
            if contender in measured.bounds or not contender.looks_at_all_nodes
        }
        return cls(case, measured.title, figures, measured.bounds)

    @classmethod
    def of_next_gang(cls, case: str, measured: NextGang) -> Race:
        """Return the panel of a full cluster, from the end of one gang until the next is bound."""
        figures = {contender: f"{measured.name}_{contender}_next_gang_s" for contender in measured.contenders}
        return cls(case, measured.title, figures, {})

    def draw(self, axes: Axes, results: Results) -> None:
        """Draw the bars from top to bottom, each with its median and with the least and the most as whiskers."""
        times = {one: results[self.figures[one]] for one in Contender if self.figures.get(one) in results}
        values = [time.value for time in times.values()]
        axes.barh(
            [f"{contender.label}: {time.value:.3g} s" for contender, time in times.items()],
            values,
            height=0.7,
            color=[_COLOURS[contender] for contender in times],
            xerr=[
                [time.value - time.low for time in times.values()],
                [time.high - time.value for time in times.values()],
            ],
            error_kw={"ecolor": paper.INK, "elinewidth": 1, "capsize": 2.5},
        )
        for (rival, bound), dashes in zip(self.bounds.items(), _BOUND_STYLES, strict=False):
            row, seconds = list(times).index(Contender.MUSTER), bound * times[rival].value
            label = f"bound: {bound:g} of {rival.label}"
            axes.vlines(seconds, row - 0.5, row + 0.5, colors=paper.RED, linestyles=dashes, label=label)
        axes.set(title=self.title, xlim=(0, None))
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_formatter(paper.PLAIN)
        if self.bounds:
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(self.bounds))


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
        bars = [len(race.figures) for race in self.panels]
        sheet = paper.sheet(self.title, _CAPTION, height=_HEAD + _AROUND * len(bars) + _BAR * sum(bars))
        grid = sheet.add_gridspec(len(bars), 1, height_ratios=bars)
        for place, race in enumerate(self.panels):
            race.draw(sheet.add_subplot(grid[place, 0]), results)
        return sheet
