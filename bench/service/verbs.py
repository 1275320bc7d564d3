"""What each verb costs over HTTP, on clusters of several sizes, at rest and under a stream of watch events."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.service.calls import Call, Connection, time_calls
from bench.service.population import Size
from bench.service.situations import SITUATIONS, prepare_calls
from bench.service.stand import Cores, Stand

#: Nodes.
SIZES, SHORT_SIZES = (500, 5_000, 15_000), (100, 500)
#: Pods that run, of another scheduler: enough for events and for victims, few enough to be listed soon.
_PODS, _SHORT_PODS = 10_000, 500
#: Watch events a second in the busy half, nodes and pods in turn.
EVENTS_PER_SECOND = 2_000
#: How often each verb is called in a round, and after how many seconds a round of slow ones ends.
_CALLS, _SHORT_CALLS = 2_000, 200
_ROUND_SECONDS, _SHORT_ROUND_SECONDS = 3.0, 0.1
_REPEATS = 5
#: Seconds that Muster gets to take in a new rate of events.
_PAUSE_SECONDS = 0.05

#: Milliseconds: what the budget allows, by figure.
BOUNDS_MS = {
    "pinned_filter_p99_5000": 1.0,
    "pinned_filter_p99_15000": 1.0,
    "filter_p99_5000": 5.0,
    "prioritize_p99_5000": 5.0,
}
#: The pinned path is to cost the same on every cluster, within a tenth.
PINNED_GROWTH_BOUND = 1.10

_Milliseconds: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Load:
    """How hard the verbs are measured, and beside how many pods."""

    pods: int
    calls: int
    seconds: float
    repeats: int

    @classmethod
    def of(cls, options: Options) -> Load:
        """Choose by the options."""
        if options.short:
            return cls(_SHORT_PODS, _SHORT_CALLS, _SHORT_ROUND_SECONDS, options.repeats or 2)
        return cls(_PODS, _CALLS, _ROUND_SECONDS, options.repeats or _REPEATS)


@dataclass(frozen=True, slots=True)
class Measured:
    """One situation on one cluster, at rest or busy: what each call took, by round."""

    situation: str
    nodes: int
    busy: bool
    rounds: list[_Milliseconds]

    def name(self, quantity: str) -> str:
        """Return the name of a figure about it."""
        return f"{self.situation}_{quantity}_{self.nodes}{'_busy' * self.busy}"

    def percentiles(self, rank: float) -> list[float]:
        """Return that percentile of each round."""
        return [float(np.percentile(taken, rank)) for taken in self.rounds]

    def figures(self) -> list[Figure]:
        """Return the median over the rounds of three percentiles; the rarest is taken over all calls together."""
        whole = float(np.percentile(np.concatenate(self.rounds), 99.9))
        rare = [*self.percentiles(99.9), whole]
        return [
            *(self._figure(f"p{rank}", self.percentiles(rank)) for rank in (50, 99)),
            Figure(self.name("p999"), "ms", whole, min(rare), max(rare)),
        ]

    def _figure(self, quantity: str, values: Sequence[float]) -> Figure:
        name = self.name(quantity)
        return of_repeats(name, "ms", values, bound=BOUNDS_MS.get(name), exclusive=True)


def measure(options: Options, say: Say) -> list[Figure]:
    """Measure every verb at every size; all clusters run side by side, so that each round meets the same machine."""
    load, sizes, cores = Load.of(options), SHORT_SIZES if options.short else SIZES, Cores.available()
    with contextlib.ExitStack() as stack:
        benches = []
        stack.enter_context(cores.keep_off())
        for nodes in sizes:
            say(f"starting Muster with {nodes:,} nodes")
            stand = stack.enter_context(Stand(Size(nodes, load.pods), cores))
            connection = stack.enter_context(Connection(stand.port))
            calls = {situation: prepare_calls(stand, connection, situation) for situation in SITUATIONS}
            benches.append(_Bench(stand, connection, calls))
        measured = _rounds(benches, load, say)
    return [
        *growth([one for one in measured if one.situation == "pinned_filter" and not one.busy]),
        *(figure for one in measured for figure in one.figures()),
    ]


def growth(pinned: Sequence[Measured]) -> list[Figure]:
    """Relate the pinned path of the two largest clusters: by the 99th and the 50th percentile, and by the fastest call.

    The value is the ratio of the medians; least and most are those of the rounds, which were made in turn. The fastest
    calls are those that nothing else on the machine has held up.
    """
    small, large = sorted(pinned, key=lambda one: one.nodes)[-2:]
    figures = []
    for rank, words, bound in ((99, "", PINNED_GROWTH_BOUND), (50, "_p50", None), (0, "_fastest", None)):
        above, below = large.percentiles(rank), small.percentiles(rank)
        value = statistics.median(above) / statistics.median(below)
        spread = [value, *(a / b for a, b in zip(above, below, strict=True))]
        name = f"pinned_filter{words}_growth_{small.nodes}_to_{large.nodes}"
        figures.append(Figure(name, "ratio", value, min(spread), max(spread), bound))
    return figures


@dataclass(frozen=True, slots=True)
class _Bench:
    """One Muster, the connection to it, and the calls to make, by situation."""

    stand: Stand
    connection: Connection
    calls: dict[str, list[Call]]


def _rounds(benches: Sequence[_Bench], load: Load, say: Say) -> list[Measured]:
    """Measure each verb on each cluster in turn, and all of it as often as asked for."""
    taken: dict[tuple[str, int, bool], list[_Milliseconds]] = defaultdict(list)
    for number in range(1, load.repeats + 1):
        say(f"verbs: round {number} of {load.repeats}")
        for busy in (False, True):
            for situation in SITUATIONS:
                for bench in benches:
                    taken[situation, bench.stand.size.nodes, busy].append(_round(bench, situation, load, busy=busy))
    return [Measured(*key, rounds) for key, rounds in taken.items()]


def _round(bench: _Bench, situation: str, load: Load, *, busy: bool) -> _Milliseconds:
    if busy:
        bench.stand.push_events(EVENTS_PER_SECOND)
        time.sleep(_PAUSE_SECONDS)
    try:
        return time_calls(bench.connection, bench.calls[situation], at_most=load.calls, seconds=load.seconds)
    finally:
        if busy:
            bench.stand.push_events(0)
