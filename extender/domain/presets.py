"""The node labels by which clouds and tools describe their network tiers: data, with where each list comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.domain.levels import Level

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
