"""One GPU product as a node has it: how its GPUs are joined, and how fast."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

#: Share of a NIC's line rate that large all-reduces use. Source: nccl-tests #290, #267 (46-49 of 50 GB/s).
NIC_EFFICIENCY = 0.94

_FEWEST_GPUS = 2


class Interconnect(StrEnum):
    """How the GPUs of a node reach each other."""

    NVSWITCH = "nvswitch"  # all alike, whichever they are
    MESH = "mesh"  # by direct links, more between some than between others
    BRIDGE = "bridge"  # by an NVLink bridge in pairs or fours, else over PCIe
    PCIE = "pcie"


@dataclass(frozen=True, slots=True)
class Product:
    """The GPUs of one node: `gpus` of them, with `nics` network rails of `nic` GB/s each.

    `table` has the all-reduce GB/s among 2, 3 .. GPUs: for a mesh that of the best set of the size, for bridges and
    PCIe that of a set which no bridge joins. `bridged` is that of the GPUs of one bridge, `clique` that inside a
    multi-node NVLink domain, which has `clique_gpus` GPUs when it is whole. `nvls`: NVLink SHARP reduces in the switch.
    Without `peer_to_peer` GPUs reach each other only through the CPU's memory, and sharing a PCIe switch or a NUMA zone
    gains nothing. `zones` are GPUs per NUMA zone, () where that is unknown; `links` names the default link matrix. The
    factors are measured shares of the network's bandwidth by level name; they go over those of the levels.
    """

    name: str
    interconnect: Interconnect
    gpus: int
    table: tuple[float, ...]
    nics: int
    nic: float
    nvls: bool = False
    peer_to_peer: bool = True
    bridged: float | None = None
    clique: float | None = None
    clique_gpus: int = 0
    zones: tuple[int, ...] = ()
    links: str | None = None
    level_factors: Mapping[str, float] = field(default_factory=dict, hash=False)
    alltoall_factors: Mapping[str, float] = field(default_factory=dict, hash=False)
    source: str = ""

    def inner(self, gpus: int) -> float:
        """Return the all-reduce GB/s among so many GPUs of the node; infinite for one GPU or none."""
        if gpus < _FEWEST_GPUS:
            return math.inf
        return self.table[min(gpus - _FEWEST_GPUS, len(self.table) - 1)]

    def outer(self, gpus: int) -> float:
        """Return the GB/s of the NICs local to so many GPUs, as large all-reduces use them, without any tier factor.

        GPUs that share a NIC have the whole of it.
        """
        return min(self.nics, math.ceil(gpus * self.nics / self.gpus)) * self.nic * NIC_EFFICIENCY

    def in_clique(self, gpus: int) -> float:
        """Return the all-reduce GB/s among so many GPUs of one multi-node NVLink domain, on whichever of its nodes."""
        return self.inner(gpus) if gpus <= self.gpus or self.clique is None else self.clique

    def fastest(self, gpus: int) -> float:
        """Return the all-reduce GB/s among so many GPUs where they are joined best, on nodes that they have whole."""
        if gpus <= self.gpus:
            return max(self.inner(gpus), self.bridged or 0.0)
        if self.clique is not None and gpus <= self.clique_gpus:
            return self.clique
        return min(self.inner(self.gpus), self.outer(self.gpus))

    def factors(self, level: str, assumed: tuple[float, float]) -> tuple[float, float]:
        """Return the measured factors (all-reduce, all-to-all) of the level called so, `assumed` without any."""
        allreduce, alltoall = assumed
        return self.level_factors.get(level, allreduce), self.alltoall_factors.get(level, alltoall)
