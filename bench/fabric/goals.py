"""What each placement goal gains in bandwidth and costs in whole nodes, against best fit by count.

On the same clusters, with the same search and other weights: the default has to be better than best fit in both, and
each extreme better than the default in its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.fabric.clusters import draw_cluster
from bench.fabric.comparison import CLUSTERS, SHORT_CLUSTERS, SHORT_SIZES, SIZES, Comparison, compare, figures_of
from bench.figures import Figure
from bench.options import Options, Say
from extender.objects.topology import PlacementGoal

#: What is told of each goal, of all that `best-fit` measures.
_TOLD = (
    "bandwidth_vs_best_fit_beyond_a_node",
    "allreduce_time_vs_best_fit",
    "whole_nodes_vs_best_fit",
    "worse_than_best_fit_on_the_same_state",
    "gangs_refused_by_muster",
    "gangs_refused_by_best_fit",
)


def measure(options: Options, say: Say) -> list[Figure]:
    """Compare on 100 clusters for each repeat, one goal after the other."""
    count, sizes = (SHORT_CLUSTERS, SHORT_SIZES) if options.short else (CLUSTERS, SIZES)
    repeats = options.repeats or 1
    figures: list[Figure] = []
    for goal in PlacementGoal:
        say(f"placing gangs for {goal.value} on {repeats * count} clusters")
        parts = [
            compare((draw_cluster(seed, sizes) for seed in range(repeat * count, (repeat + 1) * count)), goal)
            for repeat in range(repeats)
        ]
        figures += _named(goal, parts)
    return figures


def _named(goal: PlacementGoal, parts: list[Comparison]) -> Iterator[Figure]:
    """Yield what is told of one goal; each name begins with it, and no figure has a bound."""
    measured = {figure.name: figure for figure in figures_of(parts)}
    for name in _TOLD:
        each = measured[name]
        yield Figure(f"{goal.value}_{name}", each.unit, each.value, each.low, each.high)
