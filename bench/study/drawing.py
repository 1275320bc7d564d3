"""Plots of studies: waits by size for each load, and what waits over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet

from bench.plots import paper
from bench.study.documents import Point, PolicyResult, StudyResult
from bench.study.run import NAMES

_HOUR = 3600.0
#: What is shown of waits that are shorter, or none (hours), since the axis is logarithmic: half a minute.
_SHORTEST = 30 / _HOUR
_COLOURS: Mapping[str, str] = dict(
    zip(NAMES, (paper.GREY, paper.ORANGE, paper.BLUE, paper.GREEN, paper.RED, paper.PURPLE, paper.INK), strict=True)
)
_MARKERS: Mapping[str, str] = dict(zip(NAMES, "vso^Dxp", strict=True))
#: What is drawn over time.
_SERIES: Sequence[tuple[str, Callable[[Point], float]]] = (
    ("waited for", lambda point: point.wanted),
    ("free", lambda point: point.free),
)
#: Inches of a panel, and of the title above.
_PANEL, _HEAD = 3.1, 0.5


def waits(studies: Sequence[StudyResult]) -> Sheet:
    """Draw the 95th percentile of waits by size, a panel for each load."""
    sheet = paper.sheet(
        "How long gangs wait, by size",
        "95th percentile in each tenth of the gangs, ordered by GPUs; half a minute stands for all that is shorter",
        height=_HEAD + _PANEL * len(studies),
    )
    for place, study in enumerate(studies, start=1):
        axes = sheet.add_subplot(len(studies), 1, place)
        for policy in study.policies:
            _curve(axes, policy)
        most = max(study.policies, key=lambda policy: len(policy.wait_by_size), default=None)
        sizes = [] if most is None else most.wait_by_size
        axes.set_xticks(range(len(sizes)), [_range(*size.gpus) for size in sizes])
        axes.set(title=f"Load {study.trace.load:.2f}", ylabel="hours", yscale="log", xlabel="GPUs of the gang")
        axes.yaxis.set_major_formatter(paper.PLAIN)
        axes.legend(loc="upper left", ncols=len(study.policies))
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * 3)  # room for the legend
    return sheet


def backlog(studies: Sequence[StudyResult]) -> Sheet:
    """Draw how many GPUs are waited for over time, and how many are free meanwhile, a panel of each for each load."""
    sheet = paper.sheet(
        "What waits, and what is free meanwhile",
        "GPUs, means over equal parts of the time until the last gang was submitted",
        height=_HEAD + _PANEL * len(studies),
    )
    for row, study in enumerate(studies):
        for column, (title, pick) in enumerate(_SERIES):
            axes = sheet.add_subplot(len(studies), 2, 2 * row + column + 1)
            for policy in study.policies:
                until = [point for point in policy.timeline if point.at <= study.trace.span]
                axes.plot(
                    [point.at / _HOUR for point in until],
                    [pick(point) for point in until],
                    color=_COLOURS[policy.name],
                    linewidth=1.1,
                    label=policy.name,
                )
            axes.set(title=f"Load {study.trace.load:.2f}: {title}", xlabel="hours", ylabel="GPUs")
            axes.set_ylim(bottom=0)
            axes.xaxis.set_major_formatter(paper.PLAIN)
            axes.yaxis.set_major_formatter(paper.PLAIN)
            if column == 0:
                axes.legend(loc="upper left")
    return sheet


def _curve(axes: Axes, policy: PolicyResult) -> None:
    hours = [max(size.p95 / _HOUR, _SHORTEST) for size in policy.wait_by_size]
    axes.plot(
        range(len(hours)),
        hours,
        color=_COLOURS[policy.name],
        marker=_MARKERS[policy.name],
        markersize=4.5,
        linewidth=1.2,
        label=policy.name,
    )


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least}-{most}"
