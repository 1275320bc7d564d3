"""Network tiers: the levels of domains that nodes are in, and the labels by which clouds and tools describe them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.objects.node import Node

#: What people call the innermost domain, the node itself.
NODE_LEVEL = "node"

#: Labels that name the machine, so that a level of theirs is the node itself: on GKE a GPU node has its host to itself.
HOST_LABELS = frozenset({"kubernetes.io/hostname", "cloud.google.com/gce-topology-host"})
_NODE_NAMES = HOST_LABELS | {NODE_LEVEL, "host", "hostname"}

#: What members have in common at least: the whole cluster.
CLUSTER_LEVEL = "cluster"

#: What no level can be called, because it is something else.
RESERVED_NAMES = _NODE_NAMES | {CLUSTER_LEVEL}

#: Share of the network's bandwidth that is left when the lowest common domain is the innermost level, the next one out,
#: and any beyond. The last is Arnold's measurement of groups that span pods: 17 % less for collectives, 70 % less
#: point-to-point (arXiv 2509.15940); the middle ones are assumptions between it and 1, to be calibrated.
ALLREDUCE_FACTORS = (1.0, 0.95, 0.83)
ALLTOALL_FACTORS = (1.0, 0.6, 0.30)

#: How the name or the label of a level ends that is the tier of a number, the highest outermost.
_TIER = re.compile(r"(?:.*/)?tier-([0-9]+)", re.ASCII)
#: What a bound begins with: no level and no node label can be called that.
_BOUND: Final = "tier<="


def up_to_tier(number: int) -> str:
    """Return what stands, in place of a level, for the widest one whose tier is not above `number`."""
    return f"{_BOUND}{number}"


def tier_bound(wanted: str) -> int | None:
    """Return the number of the tier up to which a domain may be, None where a level is asked for."""
    return int(wanted.removeprefix(_BOUND)) if wanted.startswith(_BOUND) else None


@dataclass(frozen=True, slots=True)
class Level:
    """One tier: its name, the node label whose value names a node's domain, and its factors (None: by position)."""

    name: str
    label: str
    allreduce: float | None = None
    alltoall: float | None = None

    @property
    def tier(self) -> int | None:
        """Return the number of the level's tier, None if it has none."""
        found = _TIER.fullmatch(self.label) or _TIER.fullmatch(self.name)
        return None if found is None else int(found[1])


@dataclass(frozen=True, slots=True)
class Levels:
    """All tiers, outermost first, without the cluster as a whole and the node itself.

    `source` says where the list comes from. `members` names the domains of levels that objects describe instead of node
    labels: level label -> node name -> domain.
    """

    levels: tuple[Level, ...] = ()
    source: str = ""
    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def find(self, wanted: str) -> int | None:
        """Return the index of a level by its name or node label; that of the node itself is the number of levels.

        For `up_to_tier` it is that of the widest level whose tier is not above the number, and -1, the cluster, where
        every tier is below it.
        """
        if wanted in _NODE_NAMES:
            return len(self.levels)
        bound = tier_bound(wanted)
        if bound is None:
            return next((i for i, level in enumerate(self.levels) if wanted in (level.name, level.label)), None)
        tiers = {index: level.tier for index, level in enumerate(self.levels) if level.tier is not None}
        within = [index for index, tier in tiers.items() if tier <= bound]
        if tiers and bound > max(tiers.values()):
            return -1
        return min(within, default=None)

    def name(self, index: int) -> str:
        """Return what the level at `index` is called; -1 is the cluster."""
        if index < 0:
            return CLUSTER_LEVEL
        return NODE_LEVEL if index >= len(self.levels) else self.levels[index].name

    def domain(self, index: int, node: Node) -> str:
        """Return the domain of `node` at a level, "" if it has none."""
        label = self.levels[index].label
        if label in self.members:
            return self.members[label].get(node.name, "")
        return node.labels.get(label, "")

    def factor(self, index: int) -> tuple[float, float]:
        """Return the factors of all-reduce and all-to-all for members whose lowest common domain is at `index`.

        Without any level nothing is known, and nothing is taken off.
        """
        count = len(self.levels)
        if index >= count or not count:
            return 1.0, 1.0
        depth = count - 1 - index
        place = min(depth, len(ALLREDUCE_FACTORS) - 1)
        level = self.levels[index] if index >= 0 else None
        allreduce = None if level is None else level.allreduce
        alltoall = None if level is None else level.alltoall
        return (
            ALLREDUCE_FACTORS[place] if allreduce is None else allreduce,
            ALLTOALL_FACTORS[place] if alltoall is None else alltoall,
        )


#: Topograph numbers its tiers from the nearest, 0, to as far as the network goes.
#: Source: topograph docs, `fabric.topograph.run/tier-N`.
TOPOGRAPH_PREFIX = "fabric.topograph.run/tier-"
_TOPOGRAPH_TIERS = 10


@dataclass(frozen=True, slots=True)
class Preset:
    """Lists of levels, outermost first, that nodes of one origin carry; one list for each variant of the labels.

    A `fallback` is considered only where no other preset fits a node: its labels are on nearly every cloud's nodes.
    """

    name: str
    variants: tuple[tuple[Level, ...], ...]
    fallback: bool = False


def _levels(**labels: str) -> tuple[Level, ...]:
    return tuple(Level(name, label) for name, label in labels.items())


PRESETS = (
    # cloud.google.com/gce-topology-host, the innermost label, is the machine: see levels.HOST_LABELS.
    # Source: cloud.google.com/ai-hypercomputer, "Schedule GKE workloads with topology-aware scheduling".
    Preset(
        "gke",
        (_levels(block="cloud.google.com/gce-topology-block", subblock="cloud.google.com/gce-topology-subblock"),),
    ),
    # Layer 1 is the top; few instance types have a fourth. Source: docs.aws.amazon.com/eks, "ml-workload-topology".
    Preset(
        "eks",
        (tuple(Level(f"layer-{layer}", f"topology.k8s.aws/network-node-layer-{layer}") for layer in (1, 2, 3, 4)),),
    ),
    # OKE writes the first list on nodes of RDMA clusters, from the metadata of the instance; the second is the host's.
    # Source: oci-hpc-oke, docs "using-rdma-network-locality-when-running-workloads-on-oke".
    Preset(
        "oci",
        (
            _levels(
                island="oci.oraclecloud.com/rdma.hpc_island_id",
                block="oci.oraclecloud.com/rdma.network_block_id",
                localblock="oci.oraclecloud.com/rdma.local_block_id",
            ),
            _levels(block="oci.oraclecloud.com/host.network_block_id", rack="oci.oraclecloud.com/host.rack_id"),
        ),
    ),
    # InfiniBand nodes carry both; the second list is on RoCE nodes too.
    # Source: docs.coreweave.com, "InfiniBand and RoCE labels".
    Preset(
        "coreweave",
        (
            _levels(
                fabric="ib.coreweave.cloud/fabric",
                superpod="ib.coreweave.cloud/superpod",
                leafgroup="ib.coreweave.cloud/leafgroup",
            ),
            _levels(fabric="backend.coreweave.cloud/fabric", leafgroup="backend.coreweave.cloud/leafgroup"),
        ),
    ),
    # As deep as the network: tiers that no node carries are left out.
    Preset(
        "topograph",
        (tuple(Level(f"tier-{tier}", f"{TOPOGRAPH_PREFIX}{tier}") for tier in reversed(range(_TOPOGRAPH_TIERS))),),
    ),
    # What topograph wrote before; earlier still it called the levels datacenter, spine and block.
    Preset(
        "topograph-legacy",
        (
            _levels(
                core="network.topology.nvidia.com/core",
                spine="network.topology.nvidia.com/spine",
                leaf="network.topology.nvidia.com/leaf",
            ),
            _levels(
                datacenter="network.topology.nvidia.com/datacenter",
                spine="network.topology.nvidia.com/spine",
                block="network.topology.nvidia.com/block",
            ),
        ),
    ),
    # Source: help.aliyun.com, topology-aware scheduling of ACK.
    Preset("alibaba", (_levels(pod="alibabacloud.com/point-of-delivery", switch="alibabacloud.com/asw-id"),)),
    # Source: kubernetes.io, "Well-Known Labels, Annotations and Taints".
    Preset(
        "generic",
        (_levels(region="topology.kubernetes.io/region", zone="topology.kubernetes.io/zone"),),
        fallback=True,
    ),
)

#: Every label that any preset reads, with the name of its level.
LEVEL_NAMES: Mapping[str, str] = {
    level.label: level.name for preset in PRESETS for variant in preset.variants for level in variant
}
