"""The cases by name, in full size and in a short one that tells whether everything works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bench.controlplane.arrivals import Mix
from bench.controlplane.cases import Case, Comparison
from bench.controlplane.contenders import Contender
from bench.controlplane.fill import Fill
from bench.controlplane.growthcases import Growth
from bench.controlplane.mixedcases import Arrivals
from bench.controlplane.waitingcases import Crowd, NextGang, Waiting
from bench.controlplane.workload import Workload

STOCK, STOCK_100, NATIVE, NATIVE_100, FLOOR, MUSTER = Contender
EMPTY, NINE_TENTHS, FULL_BUT_FOR_THESE = Fill

#: Native gang scheduling has nothing to do for pods without a gang: it is stock there.
_FOR_SINGLE_PODS = (STOCK, STOCK_100, FLOOR, MUSTER)
#: The floor nominates all pods before the first is placed, so it cannot have them arrive.
_FOR_A_MIX = (STOCK, NATIVE, MUSTER)


@dataclass(frozen=True, slots=True)
class _Race:
    """A workload by name that comes at once, and on what; `bounds` and `cpu` are the budget's, as in Comparison."""

    workload: str
    nodes: int
    fill: Fill
    bounds: Mapping[Contender, float] = field(default_factory=dict)
    cpu: float | None = None


_RACES = (
    _Race("gang-1000", 500, EMPTY),
    _Race("gang-1000", 5_000, EMPTY, {NATIVE: 0.65, NATIVE_100: 0.22}, cpu=1.0),
    _Race("gang-1000", 5_000, NINE_TENTHS, {NATIVE: 0.25}, cpu=1.0),
    _Race("gang-1000", 5_000, FULL_BUT_FOR_THESE),
    _Race("gang-1000", 15_000, EMPTY),
    _Race("gang-1000", 15_000, NINE_TENTHS),
    _Race("gangs-100x8", 500, EMPTY, {NATIVE: 0.9}, cpu=1.5),
    _Race("gangs-100x8", 500, FULL_BUT_FOR_THESE),
    _Race("gangs-100x8", 5_000, EMPTY),
    _Race("gangs-100x8", 5_000, NINE_TENTHS),
    _Race("gangs-1000x3", 5_000, EMPTY),
    _Race("gangs-1000x3", 5_000, NINE_TENTHS),
    _Race("gangs-1000x3", 5_000, FULL_BUT_FOR_THESE),
    _Race("singles", 500, EMPTY, {STOCK: 1.5}, cpu=1.5),
    _Race("singles", 500, FULL_BUT_FOR_THESE),
    _Race("singles", 5_000, EMPTY, {STOCK: 1.2}, cpu=1.5),
    _Race("singles", 5_000, NINE_TENTHS, {STOCK: 0.5}, cpu=1.5),
    _Race("singles", 5_000, FULL_BUT_FOR_THESE),
    _Race("singles", 15_000, EMPTY),
    _Race("singles", 15_000, NINE_TENTHS),
)

_MIXES = ((500, EMPTY), (5_000, EMPTY), (5_000, NINE_TENTHS))
#: How much longer than with stock kube-scheduler a single pod of a mix may wait at the median, in milliseconds.
_MIX_BOUNDS = {STOCK: 10.0}
#: How often kube-scheduler may ask Muster's filter for one pod that fits. Counts mean the same in every size.
_FILTER_BOUND = 1.2

#: About what one pod takes, in seconds, at the least; and how long kube-scheduler looks at one node for it.
_POD_SECONDS: Mapping[Contender, float] = {
    STOCK: 0.003, STOCK_100: 0.003, NATIVE: 0.004, NATIVE_100: 0.004, FLOOR: 0.005, MUSTER: 0.006,
}  # fmt: skip
_LOOK_SECONDS = 4e-6


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How large everything is, by its name in full size: workloads, nodes, the mix; and whether times have bounds."""

    workloads: Mapping[str, Workload]
    nodes: Mapping[int, int]
    mix: Mix
    bounded: bool

    def cases(self) -> Iterator[tuple[str, Case]]:
        """Yield each case in which something is placed, with its name."""
        for race in _RACES:
            name = f"{race.workload}-{race.nodes}-{race.fill}"
            workload, nodes = self.workloads[race.workload], self.nodes[race.nodes]
            contenders = tuple(Contender) if workload.grouped else _FOR_SINGLE_PODS
            yield (
                name,
                Comparison(
                    _figures_of(name),
                    nodes,
                    workload,
                    {one: _placing_seconds(one, workload.pods, nodes, race.fill) for one in contenders},
                    race.fill,
                    race.bounds if self.bounded else {},
                    race.cpu if self.bounded else None,
                    _FILTER_BOUND,
                ),
            )
        for called, fill in _MIXES:
            name = f"mix-{called}-{fill}"
            bounds = _MIX_BOUNDS if self.bounded else {}
            yield name, Arrivals(_figures_of(name), self.nodes[called], self.mix, _FOR_A_MIX, bounds, fill)


def _figures_of(name: str) -> str:
    """Return how the names of a case's figures begin."""
    return name.replace("-", "_")


def _placing_seconds(contender: Contender, pods: int, nodes: int, fill: Fill) -> float:
    """Return about how long a contender takes to place so many pods.

    kube-scheduler's own default is to stop once it has found room on 50 % of the nodes, less 1 % for each 125 of them
    and 5 % at least. Source: numFeasibleNodesToFind in k8s.io/kubernetes/pkg/scheduler.
    """
    looked_at = nodes * max(5.0, 50.0 - nodes / 125) / 100
    if contender.looks_at_all_nodes or fill is not EMPTY:
        looked_at = nodes
    if contender in (FLOOR, MUSTER):  # whose pods have a node before they are looked at
        looked_at = 0
    return pods * (_POD_SECONDS[contender] + looked_at * _LOOK_SECONDS)


_FULL_SIZES = _Sizes(
    workloads={
        "gang-1000": Workload(1, 1000),
        "gangs-100x8": Workload(100, 8),
        "gangs-1000x3": Workload(1000, 3),
        "singles": Workload(1000, 1, grouped=False, prefix="single"),
    },
    nodes={size: size for size in (500, 5_000, 15_000)},
    mix=Mix(singles=2400, gangs=75, size=8, pods_per_second=50.0),
    bounded=True,
)
#: Nine in ten full, these nodes still hold the workloads.
_SHORT_SIZES = _Sizes(
    workloads={
        "gang-1000": Workload(1, 100),
        "gangs-100x8": Workload(20, 4),
        "gangs-1000x3": Workload(50, 3),
        "singles": Workload(50, 1, grouped=False, prefix="single"),
    },
    nodes={500: 40, 5_000: 200, 15_000: 300},
    mix=Mix(singles=64, gangs=2, size=8, pods_per_second=20.0),
    bounded=False,
)

#: The sizes for which Muster has promised something, and those that make its figures comparable.
FULL: Mapping[str, Case] = MappingProxyType(
    {
        **dict(_FULL_SIZES.cases()),
        "large-gang": Growth(
            "large_gang", 15_000, (1_000, 10_000), 0.012, cpu_bound=1.2, turns_bound=0, hold_seconds=150
        ),
        "full-cluster": NextGang(
            "full_cluster", nodes=100, waiting=Workload(200, 8), ends=3, contenders=(NATIVE, MUSTER)
        ),
        "waiting": Waiting(
            "waiting",
            nodes=100,
            for_members=Workload(200, 9, missing=1),
            for_room=Workload(200, 8, gpus=8),
            free_nodes=7,
            rest_seconds=60.0,
            bound=1.0,
        ),
        "crowd-500": Crowd("crowd_500", nodes=100, pods=500, watched_seconds=60.0),
        "crowd-2000": Crowd("crowd_2000", nodes=100, pods=2000, watched_seconds=60.0),
    }
)

#: Sizes that take seconds. Times and their ratios mean nothing there and have no bounds; counts keep theirs.
SHORT: Mapping[str, Case] = MappingProxyType(
    {
        **dict(_SHORT_SIZES.cases()),
        "large-gang": Growth("large_gang", 300, (20, 200), 0.01),
        "full-cluster": NextGang(
            "full_cluster", nodes=10, waiting=Workload(10, 8), ends=2, contenders=(NATIVE, MUSTER)
        ),
        "waiting": Waiting(
            "waiting",
            nodes=10,
            for_members=Workload(10, 5, missing=1),
            for_room=Workload(10, 4, gpus=8),
            free_nodes=3,
            rest_seconds=10.0,
            bound=1.0,
        ),
        "crowd-500": Crowd("crowd_500", nodes=5, pods=24, watched_seconds=6.0),
        "crowd-2000": Crowd("crowd_2000", nodes=5, pods=48, watched_seconds=6.0),
    }
)
