"""The cases by name, in full size and in a short one that tells whether everything works."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bench.controlplane.cases import Case, Comparison, Crowd, NextGang, Waiting
from bench.controlplane.contenders import Contender
from bench.controlplane.workload import Workload

STOCK, NATIVE, MUSTER, FLOOR = Contender.STOCK, Contender.NATIVE, Contender.MUSTER, Contender.FLOOR

#: The sizes for which Muster has promised something.
FULL: Mapping[str, Case] = MappingProxyType(
    {
        "gang-1000": Comparison(
            "gang_1000",
            nodes=5000,
            workload=Workload(1, 1000),
            rivals={NATIVE: 0.20, FLOOR: 1.3, STOCK: None},
            seconds_per_pod={STOCK: 0.028, NATIVE: 0.028, MUSTER: 0.007, FLOOR: 0.005},
            filter_bound=1.2,
        ),
        "gangs-100x8": Comparison(
            "gangs_100x8",
            nodes=500,
            workload=Workload(100, 8),
            rivals={NATIVE: 0.5, FLOOR: None, STOCK: None},
            seconds_per_pod={STOCK: 0.005, NATIVE: 0.006, MUSTER: 0.006, FLOOR: 0.005},
        ),
        "gangs-1000x3": Comparison(
            "gangs_1000x3",
            nodes=5000,
            workload=Workload(1000, 3),
            rivals={NATIVE: 0.5},
            seconds_per_pod={NATIVE: 0.028, MUSTER: 0.008},
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
        "singles": Comparison(
            "single_pods",
            nodes=500,
            workload=Workload(2000, 1, grouped=False, prefix="single"),
            rivals={STOCK: 1.3},
            seconds_per_pod={STOCK: 0.005, MUSTER: 0.008},
        ),
    }
)

_EVERYBODY = dict.fromkeys(Contender, 0.01)

#: Sizes that take seconds. Times and their ratios mean nothing there and have no bounds; counts keep theirs.
SHORT: Mapping[str, Case] = MappingProxyType(
    {
        "gang-1000": Comparison(
            "gang_1000",
            nodes=200,
            workload=Workload(1, 100),
            rivals={NATIVE: None, FLOOR: None, STOCK: None},
            seconds_per_pod=_EVERYBODY,
            filter_bound=1.2,
        ),
        "gangs-100x8": Comparison(
            "gangs_100x8",
            nodes=50,
            workload=Workload(20, 4),
            rivals={NATIVE: None, FLOOR: None, STOCK: None},
            seconds_per_pod=_EVERYBODY,
        ),
        "gangs-1000x3": Comparison(
            "gangs_1000x3",
            nodes=200,
            workload=Workload(50, 3),
            rivals={NATIVE: None},
            seconds_per_pod={NATIVE: 0.01, MUSTER: 0.01},
        ),
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
        "singles": Comparison(
            "single_pods",
            nodes=50,
            workload=Workload(50, 1, grouped=False, prefix="single"),
            rivals={STOCK: None},
            seconds_per_pod={STOCK: 0.01, MUSTER: 0.01},
        ),
    }
)
