"""How every figure grows with nodes, with pods and with gangs: what the plots show, and the exponents.

A cost that grows as size^e has exponent e: 0 is constant, 1 linear. Each axis varies alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.placement import RESERVED, pass_figures, plan_figure
from bench.service.calls import Connection, time_calls
from bench.service.lag import Lag
from bench.service.population import Size
from bench.service.scale import resident_mb
from bench.service.situations import prepare_calls
from bench.service.stand import Cores, Stand
from bench.soak.sampling import Page


@dataclass(frozen=True, slots=True)
class Axes:
    """The sizes along each axis, and what the others stay at meanwhile."""

    nodes: tuple[int, ...] = (500, 1_500, 5_000, 15_000, 50_000)
    pods: tuple[int, ...] = (5_000, 20_000, 50_000)
    gangs: tuple[int, ...] = (1, 100, 1_000)
    fixed_nodes: int = 5_000
    fixed_pods: int = 5_000
    fixed_gangs: int = 100


SHORT_AXES = Axes((200, 1_000), (500, 2_000), (1, 30), fixed_nodes=200, fixed_pods=500, fixed_gangs=10)
#: What Muster is asked at each size: all but preemption, whose offers do not only depend on the nodes.
_SITUATIONS = ("pinned_filter", "waiting_filter", "filter", "prioritize", "bind")
_CALLS, _SHORT_CALLS, _ROUND_SECONDS = 400, 50, 2.0
_REPEATS, _SHORT_REPEATS = 5, 3

#: Exponents that the budget names: the pinned path costs the same however many nodes there are, within what a factor of
#: 1.10 between 5,000 and 15,000 comes to; what names every node is no worse than linear.
BOUNDS = {
    "growth_pinned_filter_p50_nodes": 0.09,
    "growth_waiting_filter_p50_nodes": 1.0,
    "growth_filter_p50_nodes": 1.0,
    "growth_prioritize_p50_nodes": 1.0,
}


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity along one axis: a figure for each size."""

    quantity: str
    axis: str
    points: dict[int, Figure] = field(default_factory=dict)

    def figures(self) -> Iterator[Figure]:
        """Yield the exponent, with the least and the most between two neighbours, then the points."""
        name = f"growth_{self.quantity}_{self.axis}"
        sizes, values = list(self.points), [point.value for point in self.points.values()]
        local = exponents(sizes, values)
        yield Figure(name, "exponent", exponent(sizes, values), min(local), max(local), BOUNDS.get(name))
        for size, point in self.points.items():
            yield replace(point, name=f"{self.quantity}_{self.axis}_{size}")


def curves(axis: str, points: Mapping[int, Sequence[Figure]]) -> Iterator[Figure]:
    """Yield the figures of every curve along an axis, given for each size the same quantities, by their names."""
    found: dict[str, Curve] = {}
    for size, quantities in points.items():
        for figure in quantities:
            found.setdefault(figure.name, Curve(figure.name, axis)).points[size] = figure
    for curve in found.values():
        yield from curve.figures()


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of the straight line through the points, by least squares, both axes logarithmic."""
    slope, _ = np.polyfit(np.log(sizes), np.log(values), 1)
    return float(slope)


def exponents(sizes: Sequence[int], values: Sequence[float]) -> list[float]:
    """Return the slope between each point and the next: where they differ, a power law does not describe the curve."""
    pairs = itertools.pairwise(zip(sizes, values, strict=True))
    return [exponent((size, next_size), (value, next_value)) for (size, value), (next_size, next_value) in pairs]


def measure(options: Options, say: Say) -> list[Figure]:
    """Measure along each axis; a size that lies on two axes is measured once."""
    axes, cores = SHORT_AXES if options.short else Axes(), Cores.available()
    repeats = options.repeats or (_SHORT_REPEATS if options.short else _REPEATS)
    calls = _SHORT_CALLS if options.short else _CALLS

    @functools.cache
    def service(nodes: int, pods: int) -> list[Figure]:
        say(f"growth: Muster with {nodes:,} nodes and {pods:,} pods")
        with Stand(Size(nodes, pods), cores) as stand:
            return service_figures(stand, repeats, calls)

    @functools.cache
    def passes(nodes: int, gangs: int) -> list[Figure]:
        say(f"growth: {gangs:,} waiting gangs on {nodes:,} nodes")
        return pass_curves(nodes, gangs, repeats)

    with cores.keep_off():
        by_nodes = {
            nodes: [
                *service(nodes, axes.fixed_pods),
                *passes(nodes, axes.fixed_gangs),
                plan_figure(f"plan_{RESERVED}", nodes, RESERVED, repeats),
            ]
            for nodes in axes.nodes
        }
        by_pods = {pods: service(axes.fixed_nodes, pods) for pods in axes.pods}
        by_gangs = {gangs: passes(axes.fixed_nodes, gangs) for gangs in axes.gangs}
    return [*curves("nodes", by_nodes), *curves("pods", by_pods), *curves("gangs", by_gangs)]


def service_figures(stand: Stand, repeats: int, calls: int) -> list[Figure]:
    """Return what a Muster that has just started shows: start, lag meanwhile, memory, and the verbs' medians."""
    stall = Lag.between(Page(), stand.metrics()).longest
    figures = [
        of_repeats("cold_start_s", "s", [stand.ready_after]),
        of_repeats("longest_stall_ms_start", "ms", [stall]),
    ]
    with Connection(stand.port) as connection:
        for situation in _SITUATIONS:
            asked = prepare_calls(stand, connection, situation)
            rounds = [time_calls(connection, asked, at_most=calls, seconds=_ROUND_SECONDS) for _ in range(repeats)]
            figures.append(of_repeats(f"{situation}_p50", "ms", [float(np.median(taken)) for taken in rounds]))
    return [*figures, of_repeats("resident_mb", "MB", [resident_mb(stand.muster.pid)])]


def pass_curves(nodes: int, gangs: int, repeats: int) -> list[Figure]:
    """Return what the two sorts of passes take in process, named as points of curves."""
    full, changed = pass_figures(gangs, nodes, repeats)
    return [replace(full, name="pass_full"), replace(changed, name="pass_changed")]
