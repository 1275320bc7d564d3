"""Muster and best fit by count on the same random clusters, each with a copy of its own, gang after gang."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bench.fabric.clusters import MACHINES, Cluster, Job, Sizes, draw_cluster
from bench.fabric.site import Nodes, Site, by_count, muster
from bench.figures import Figure, of_repeats, ratio
from bench.options import Options, Say
from extender.hardware.bandwidth import STEP, step
from extender.objects.topology import PlacementGoal

#: Clusters of one repeat, and repeats; the figures' least and greatest are those of single repeats.
CLUSTERS, SHORT_CLUSTERS = 100, 8
_REPEATS, _SHORT_REPEATS = 10, 1
SIZES, SHORT_SIZES = Sizes(), Sizes(nodes=(4, 24), jobs=(4, 8), most_pods=24)

_MILLISECONDS = 1000.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one gang.

    Bandwidths (GB/s) are None for gangs that were refused, or have fewer than two GPUs: `muster` and `reference` each
    on its own cluster, as its own earlier choices have left it; `possible` is what Muster's plan would give on the
    reference's. There the two would break so many whole nodes (`possible_breaks`, `reference_breaks`). The plans took
    `muster_seconds` and `reference_seconds`.
    """

    job: Job
    muster: float | None
    reference: float | None
    possible: float | None
    muster_refused: bool
    reference_refused: bool
    possible_breaks: int
    reference_breaks: int
    muster_seconds: float
    reference_seconds: float


@dataclass(slots=True)
class Comparison:
    """What became of all gangs of some clusters.

    The whole nodes are those that each has left, summed over the clusters, once either has to refuse a gang or all
    gangs are placed: until then both have placed the same ones.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    muster_whole_nodes: int = 0
    reference_whole_nodes: int = 0

    def both(self, chosen: Callable[[Job], bool] = lambda _: True) -> list[tuple[float, float]]:
        """Return the bandwidths (Muster, reference) of the chosen gangs that both placed."""
        return [
            (outcome.muster, outcome.reference)
            for outcome in self.outcomes
            if outcome.muster is not None and outcome.reference is not None and chosen(outcome.job)
        ]

    def same_state(self) -> list[tuple[float, float]]:
        """Return the bandwidths (possible, reference) of gangs on the reference's own cluster."""
        return [
            (outcome.possible, outcome.reference)
            for outcome in self.outcomes
            if outcome.possible is not None and outcome.reference is not None
        ]

    def equally_fast(self) -> list[tuple[int, int]]:
        """Return the whole nodes broken (Muster, reference) by gangs as fast with both on the reference's cluster."""
        return [
            (outcome.possible_breaks, outcome.reference_breaks)
            for outcome in self.outcomes
            if outcome.possible is not None
            and outcome.reference is not None
            and step(outcome.possible) == step(outcome.reference)
        ]


def measure(options: Options, say: Say) -> list[Figure]:
    """Compare on 100 clusters for each repeat."""
    repeats = options.repeats or (_SHORT_REPEATS if options.short else _REPEATS)
    count, sizes = (SHORT_CLUSTERS, SHORT_SIZES) if options.short else (CLUSTERS, SIZES)
    parts = []
    for repeat in range(repeats):
        say(f"placing gangs on clusters {repeat * count + 1} to {(repeat + 1) * count} of {repeats * count}")
        parts.append(compare(draw_cluster(seed, sizes) for seed in range(repeat * count, (repeat + 1) * count)))
    return figures_of(parts)


def compare(clusters: Iterable[Cluster], goal: PlacementGoal = PlacementGoal.BALANCED) -> Comparison:
    """Let both place the gangs of each cluster, Muster for `goal`."""
    comparison = Comparison()
    gc.collect()
    gc.disable()  # a collection would hit one of the two with the garbage of both
    try:
        for cluster in clusters:
            _compare(cluster, goal, comparison)
            gc.collect()
    finally:
        gc.enable()
    return comparison


def _compare(cluster: Cluster, goal: PlacementGoal, comparison: Comparison) -> None:
    # What the reference could have done is asked of a third copy, so that asking leaves nothing in its caches.
    own, other, shadow = Site(cluster, goal), Site(cluster), Site(cluster, goal)
    whole = own.whole_nodes(), other.whole_nodes()
    alike = True
    for job in cluster.arriving:
        mine, muster_seconds = own.ask(muster, job)
        theirs, reference_seconds = other.ask(by_count, job)
        best, _ = shadow.ask(muster, job)
        possible = None if best is None else shadow.worth(job, best)
        breaks = [0 if nodes is None else shadow.breaks(job, nodes) for nodes in (best, theirs)]
        comparison.outcomes.append(
            Outcome(
                job,
                muster=_settle(own, job, mine),
                reference=_settle(other, job, theirs),
                possible=possible,
                muster_refused=mine is None,
                reference_refused=theirs is None,
                possible_breaks=breaks[0],
                reference_breaks=breaks[1],
                muster_seconds=muster_seconds,
                reference_seconds=reference_seconds,
            )
        )
        if theirs is not None:
            shadow.take(job, theirs)
        alike = alike and mine is not None and theirs is not None
        if alike:
            whole = own.whole_nodes(), other.whole_nodes()
    comparison.muster_whole_nodes += whole[0]
    comparison.reference_whole_nodes += whole[1]


def _settle(site: Site, job: Job, nodes: Nodes | None) -> float | None:
    """Let a gang have its nodes for good, and return its bandwidth."""
    if nodes is None:
        return None
    site.take(job, nodes)
    return site.bandwidth(nodes)


def figures_of(parts: Sequence[Comparison]) -> list[Figure]:
    """Return the figures of all parts together, with the least and the greatest of one part."""
    whole = Comparison(
        [outcome for part in parts for outcome in part.outcomes],
        sum(part.muster_whole_nodes for part in parts),
        sum(part.reference_whole_nodes for part in parts),
    )

    def overall(name: str, unit: str, of: Callable[[Comparison], float], bound: float | None = None) -> Figure:
        spread = of_repeats(name, unit, [of(part) for part in parts])
        return Figure(name, unit, of(whole), spread.low, spread.high, bound)

    plan = overall("muster_plan_mean", "ms", lambda c: _mean(o.muster_seconds for o in c.outcomes) * _MILLISECONDS)
    count = overall(
        "best_fit_plan_mean", "ms", lambda c: _mean(o.reference_seconds for o in c.outcomes) * _MILLISECONDS
    )
    return [
        overall("bandwidth_vs_best_fit", "ratio", lambda c: _sums_ratio(c.both())),
        overall("bandwidth_vs_best_fit_on_the_same_state", "ratio", lambda c: _sums_ratio(c.same_state())),
        overall("bandwidth_vs_best_fit_beyond_a_node", "ratio", lambda c: _sums_ratio(c.both(_beyond_a_node))),
        *(overall(f"bandwidth_vs_best_fit_{name}", "ratio", _on(name)) for name in MACHINES),
        overall("allreduce_time_vs_best_fit", "ratio", _time_ratio),
        overall("whole_nodes_vs_best_fit", "ratio", lambda c: _over(c.muster_whole_nodes, c.reference_whole_nodes)),
        overall("whole_nodes_broken_vs_best_fit_if_equally_fast", "ratio", lambda c: _sums_ratio(c.equally_fast())),
        ratio("plan_time_vs_best_fit", plan, count),
        overall("worse_than_best_fit_on_the_same_state", "share", lambda c: _slower(c.same_state()), bound=0.0),
        overall("muster_bandwidth_mean", "GB/s", lambda c: _mean(own for own, _ in c.both())),
        overall("best_fit_bandwidth_mean", "GB/s", lambda c: _mean(other for _, other in c.both())),
        overall("best_fit_within_5_percent_of_possible", "share", lambda c: 1 - _slower(_swapped(c.same_state()))),
        overall("faster_than_best_fit_by_5_percent", "share", lambda c: _slower(_swapped(c.both()))),
        overall("slower_than_best_fit_by_5_percent", "share", lambda c: _slower(c.both())),
        overall("muster_whole_nodes_left", "nodes", lambda c: float(c.muster_whole_nodes)),
        overall("best_fit_whole_nodes_left", "nodes", lambda c: float(c.reference_whole_nodes)),
        overall("gangs", "gangs", lambda c: float(len(c.outcomes))),
        overall("gangs_refused_by_muster", "gangs", lambda c: float(sum(o.muster_refused for o in c.outcomes))),
        overall("gangs_refused_by_best_fit", "gangs", lambda c: float(sum(o.reference_refused for o in c.outcomes))),
        plan,
        count,
        overall("muster_plan_p99", "ms", lambda c: _p99(o.muster_seconds for o in c.outcomes) * _MILLISECONDS),
        overall("best_fit_plan_p99", "ms", lambda c: _p99(o.reference_seconds for o in c.outcomes) * _MILLISECONDS),
    ]


def _sums_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return _over(sum(own for own, _ in pairs), sum(other for _, other in pairs))


def _time_ratio(comparison: Comparison) -> float:
    """Relate the seconds that all gangs take which both placed, each of which moves the same number of bytes."""
    pairs = comparison.both()
    return _over(sum(1 / own for own, _ in pairs), sum(1 / other for _, other in pairs))


def _on(machine: str) -> Callable[[Comparison], float]:
    return lambda comparison: _sums_ratio(comparison.both(lambda job: job.machine == machine))


def _beyond_a_node(job: Job) -> bool:
    return job.pods * job.gpus > MACHINES[job.machine].gpus


def _swapped(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(other, own) for own, other in pairs]


def _slower(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the share of pairs of which the first is slower than the second by more than a step of 5 %."""
    return _mean(float(own * STEP < other * (1 - 1e-9)) for own, other in pairs)


def _over(above: float, below: float) -> float:
    """Divide; nothing by nothing is 1: they are alike."""
    return above / below if below else 1.0


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return statistics.fmean(found) if found else 0.0


def _p99(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)] if ordered else 0.0
