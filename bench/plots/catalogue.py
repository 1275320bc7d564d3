"""The plots, in the order in which docs/measurements.md shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from matplotlib.figure import Figure as Sheet

from bench.controlplane.cases import Comparison
from bench.controlplane.catalogue import FULL
from bench.controlplane.waitingcases import NextGang
from bench.placement import PLAN_BOUND_MS, PLAN_NODES, RESERVED
from bench.plots.bars import BarPlot, Race
from bench.plots.curves import Bound, CurvePlot, Line, Panel
from bench.plots.results import SIZE, Missing, Results
from bench.service.growth import Axes
from bench.service.scale import COLD_START_BOUND_S, RESIDENT_BOUND_MB
from bench.service.scale import SIZE as LARGE
from bench.service.verbs import BOUNDS_MS, SIZES

_GROWTH, _VERBS, _PLAN = (f"--family service --case {case}" for case in ("growth", "verbs", "plan"))
_MS = "milliseconds"
#: The sizes that stay while another one grows.
_FIXED = Axes()

#: What Muster is asked, as people call it, by the names in the figures.
_VERB_TITLES = {
    "pinned_filter": "Filter, a member's own node",
    "waiting_filter": "Filter, a member that waits",
    "filter": "Filter, a single pod, all nodes",
    "prioritize": "Prioritize, a single pod, all nodes",
    "bind": "Bind, a pod that is bound already",
    "preempt": "Preempt, a pod of another scheduler",
}
#: Its offers do not only depend on the nodes, so growth leaves it out.
_NOT_GROWN = "preempt"


class Plot(Protocol):
    """What makes one file."""

    @property
    def name(self) -> str:
        """Return the name of the file, without its ending."""

    def missing(self, results: Results) -> Missing:
        """Return the names of the figures that are lacking, by what measures them."""

    def draw(self, results: Results) -> Sheet:
        """Draw it; nothing may be missing."""


def _verb_panels() -> Iterator[Panel]:
    for situation, title in _VERB_TITLES.items():
        median = Line("p50", f"{situation}_p50_nodes_{SIZE}", _GROWTH)
        if situation == _NOT_GROWN:
            median = Line("p50", f"{situation}_p50_{SIZE}", _VERBS)
        lines = (median, Line("p99", f"{situation}_p99_{SIZE}", _VERBS))
        yield Panel(title, "nodes", _MS, lines, _verb_bound(situation))


def _verb_bound(situation: str) -> Bound | None:
    """Return what the budget allows a verb, None if it names none; it allows the same at every size that it names."""
    bounds = {size: BOUNDS_MS.get(f"{situation}_p99_{size}") for size in SIZES}
    named = {size: bound for size, bound in bounds.items() if bound is not None}
    where = " and ".join(f"{size:,}" for size in named)
    return Bound(max(named.values()), f"of p99 at {where} nodes") if named else None


def _size_panels() -> Iterator[Panel]:
    at = f"at {LARGE.nodes:,} nodes, {LARGE.bound:,} pods"
    fixed = {"pods": f"{_FIXED.fixed_nodes:,} nodes", "nodes": f"{_FIXED.fixed_pods:,} pods"}
    for axis, beside in fixed.items():
        memory = (Line("resident", f"resident_mb_{axis}_{SIZE}", _GROWTH),)
        yield Panel(f"Memory, {beside}", axis, "resident MB", memory, Bound(RESIDENT_BOUND_MB, at))
    for axis, beside in fixed.items():
        start = (Line("to ready", f"cold_start_s_{axis}_{SIZE}", _GROWTH),)
        yield Panel(f"Cold start, {beside}", axis, "seconds", start, Bound(COLD_START_BOUND_S, at))


def _pass_lines(axis: str) -> tuple[Line, ...]:
    return (
        Line("all gangs judged", f"pass_full_{axis}_{SIZE}", _GROWTH),
        Line("one gang changed", f"pass_changed_{axis}_{SIZE}", _GROWTH),
    )


def _races() -> Iterator[Race]:
    """Yield the cases of which the budget says something; the tables have the others, too."""
    for name, case in FULL.items():
        match case:
            case Comparison() if case.bounds:
                yield Race.of_comparison(name, case)
            case NextGang():
                yield Race.of_next_gang(name, case)


PLOTS: Sequence[Plot] = (
    BarPlot("contenders", "From the first creation until all are bound", tuple(_races())),
    CurvePlot("growth-verbs", "What one call takes, by nodes", tuple(_verb_panels())),
    CurvePlot(
        "growth-placement",
        "What a plan and an admission pass take",
        (
            Panel(
                f"Plan of one gang on {PLAN_NODES:,} nodes",
                "pods of the gang",
                _MS,
                (Line("plan", f"plan_{SIZE}", _PLAN),),
                Bound(PLAN_BOUND_MS, f"at {RESERVED:,} pods"),
            ),
            Panel(
                f"Plan of {RESERVED:,} pods",
                "nodes",
                _MS,
                (Line("plan", f"plan_{RESERVED}_nodes_{SIZE}", _GROWTH),),
                Bound(PLAN_BOUND_MS, f"at {PLAN_NODES:,} nodes"),
            ),
            Panel(f"Pass on {_FIXED.fixed_nodes:,} full nodes", "waiting gangs", _MS, _pass_lines("gangs")),
            Panel(f"Pass over {_FIXED.fixed_gangs:,} waiting gangs", "nodes", _MS, _pass_lines("nodes")),
        ),
    ),
    CurvePlot("growth-memory", "Memory and cold start", tuple(_size_panels())),
)
