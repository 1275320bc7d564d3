"""The bandwidth that a collective will have over a set of NVLink islands, in GB/s of nccl-tests' bus bandwidth.

An island is what NVLink joins: a node, or the nodes of one multi-node NVLink domain (a clique). A ring over islands is
as fast as its slowest part: NVLink inside an island, or the network between islands. `docs/bandwidth.md` compares the
model with published measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from extender.domain.topology import Objective

#: Share of a NIC's line rate that large all-reduces use. Source: nccl-tests #290, #267 (46-49 of 50 GB/s).
NIC_EFFICIENCY = 0.94

#: Share of a clique's own bandwidth that is left over two cliques, and over more. Source: coreweave/nccl-tests README,
#: GB200: 835-847 GB/s in one rack, 792-820 in two, 405 in twenty; what lies between nobody has published.
TWO_CLIQUES, MORE_CLIQUES = 0.96, 0.5

#: Islands for which NVLink SHARP makes the all-reduce hierarchical, so that a NIC carries less than a ring's share.
#: Source: two nodes of H100 reach 440-470 GB/s with NICs of 376, four reach 366 (nccl-tests #309).
_HIERARCHICAL_ISLANDS = 2

_FEWEST_GPUS = 2

#: Seconds that one hop between islands costs: an assumption, two traversals of a switched network and a kernel's turn.
HOP_SECONDS = 20e-6

#: Bandwidths that differ by less are the same: the model is off by that much itself (docs/bandwidth.md).
STEP = 1.05

#: The step of infinite bandwidth: nothing is to be communicated.
NO_COMMUNICATION = 1_000_000

# What lies on the edge between two steps but for rounding belongs to the upper one.
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class IslandUse:
    """What a gang has of one island.

    `inner` is the GB/s among its GPUs there, `outer` that of the NICs local to them (efficiency included, no tier
    factor), `nic` that of one NIC, `gpus` how many they are; `clique` tells a multi-node NVLink domain from a node.
    """

    inner: float
    outer: float
    nic: float
    gpus: int
    nvls: bool = False
    clique: bool = False


def contribution(use: IslandUse, islands: int, gpus: int, factors: tuple[float, float], objective: Objective) -> float:
    """Return the GB/s that one of `islands` islands allows a gang of `gpus` GPUs.

    `factors` are the shares of the network's bandwidth, all-reduce and all-to-all, that the lowest level which all
    islands have in common leaves. Infinite where bandwidth is not the objective.
    """
    if objective is Objective.NONE:
        return math.inf
    if islands == 1:
        return use.inner
    allreduce, alltoall = factors
    if objective is Objective.ALLTOALL:
        return min(use.inner, use.nic * alltoall)
    network = use.outer * allreduce
    if use.clique:
        return min(use.inner * (TWO_CLIQUES if islands == _HIERARCHICAL_ISLANDS else MORE_CLIQUES), network)
    if use.nvls and islands == _HIERARCHICAL_ISLANDS:
        return min(use.inner, network * 2 * (gpus - 1) / gpus)
    return min(use.inner, network)


def bus_bandwidth(uses: Sequence[IslandUse], factors: tuple[float, float], objective: Objective) -> float | None:
    """Return the GB/s of a gang over its islands: the least that one of them allows; None for less than two GPUs."""
    gpus = sum(use.gpus for use in uses)
    if gpus < _FEWEST_GPUS:
        return None
    return min(contribution(use, len(uses), gpus, factors, objective) for use in uses)


def step(gbps: float) -> int:
    """Return which step of 5 % a bandwidth lies on, so that what the model cannot tell apart compares equal."""
    if gbps <= 0:
        return 0
    if math.isinf(gbps):
        return NO_COMMUNICATION
    return max(0, math.floor(math.log(gbps) / math.log(STEP) + _EPSILON))


def time_of_allreduce(payload: int, gpus: int, islands: int, gbps: float) -> float:
    """Return the seconds of one all-reduce of `payload` bytes among `gpus` GPUs on `islands` islands.

    Bus bandwidth counts the bytes of a ring, 2(n-1)/n of the payload (nccl-tests doc/PERFORMANCE.md); each of the
    2 ceil(log2 k) hops of a tree over k islands costs `HOP_SECONDS` beside.
    """
    if gpus < _FEWEST_GPUS:
        return 0.0
    transfer = payload * 2 * (gpus - 1) / gpus / (gbps * 1e9) if gbps > 0 else math.inf
    return transfer + HOP_SECONDS * 2 * math.ceil(math.log2(islands))
