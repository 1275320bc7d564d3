"""What bound pods and the labels of their nodes say about a placement, worked out without any of Muster's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from localcluster.story import Gang, Pod

#: GB/s of an all-reduce among so many GPUs of one HGX H100, as published: 370 by ring, 476-480 with NVLink SHARP, and
#: those of H200, whose NVLink is the same (nccl-tests #212, #290; ml-engineering, network, SHARP section).
H100_NODE = {2: 365.0, 3: 365.0, 4: 365.0, 5: 414.0, 6: 436.0, 7: 460.0, 8: 475.0}
#: GB/s of the network card of each GPU: 94 % of 400 Gb/s (nccl-tests #290, #267).
H100_CARD = 47.0

PREDICTED_GPUS = "muster.dev/predicted-gpus"


def h100_bandwidth(gpus_per_node: Sequence[int], factor: float) -> float | None:
    """Return the GB/s of a gang with so many GPUs on each of its nodes, `factor` of the network left between them."""
    gpus = sum(gpus_per_node)
    if gpus < 2:
        return None
    inside = [H100_NODE.get(count, float("inf")) for count in gpus_per_node]
    if len(gpus_per_node) == 1:
        return inside[0]
    # Two nodes reduce in the switch first, so that the network carries less than a ring would send through it.
    carried = 2 * (gpus - 1) / gpus if len(gpus_per_node) == 2 else 1.0
    outside = [count * H100_CARD * factor * carried for count in gpus_per_node]
    return min(*inside, *outside)


def gpus_per_node(gang: Gang, gpus: int) -> dict[str, int]:
    """Return how many GPUs the bound members have on each node, `gpus` each."""
    return {node: gpus * count for node, count in Counter(gang.nodes).items()}


def lowest_common(nodes: Sequence[str], levels: Sequence[str], labels: Mapping[str, Mapping[str, str]]) -> str:
    """Return the innermost of `levels`, node label keys with the outermost first, that all nodes share a domain of.

    A domain is told by its path: two racks of one name in different zones are two. "" if they share none.
    """
    for depth in range(len(levels), 0, -1):
        if len({tuple(labels[node].get(key, "") for key in levels[:depth]) for node in nodes}) == 1:
            return levels[depth - 1]
    return ""


def slices_kept(nodes: Sequence[str], size: int, key: str, labels: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether every `size` members, whose nodes are given in member order, share a domain of a label key."""
    parts = [nodes[first : first + size] for first in range(0, len(nodes), size)]
    return all(len({labels[node][key] for node in part}) == 1 for part in parts)


def predicted_gpus(pod: Pod) -> set[int]:
    """Return the devices that a bound pod's annotation says it will get."""
    stored = pod.object
    text = "" if stored is None else stored["metadata"].get("annotations", {}).get(PREDICTED_GPUS, "")
    return {int(number) for number in text.split(",") if number}
