"""Which sets of GPUs the fabric manager can join into one NVLink partition on virtualised NVSwitch boards."""

from __future__ import annotations

from dataclasses import dataclass

from extender.fabric.links import LinksError
from extender.wire.codec import DecodeError
from extender.wire.gpus import decode_gpu_partitions

#: The node label that says whether other sets than these may be given out, and the value that rules them out.
#: Source: Koordinator, apis/extension/device_share.go, GPUPartitionPolicy.
POLICY_LABEL = "node.koordinator.sh/gpu-partition-policy"
HONOR = "Honor"

_MOST_GPUS = 64


@dataclass(frozen=True, slots=True)
class Partitions:
    """The sets of GPUs, by device index, that can be one partition; in order of size and of their GPUs."""

    sets: tuple[frozenset[int], ...] = ()


def read_partitions(text: str) -> Partitions:
    """Read Koordinator's table: size -> partitions. Raises LinksError naming the entry."""
    try:
        table = decode_gpu_partitions(text.encode(errors="surrogatepass"))
    except DecodeError as error:
        raise LinksError(str(error)) from error
    found: set[tuple[int, ...]] = set()
    for size, partitions in table.items():
        for number, partition in enumerate(partitions):
            minors = tuple(sorted(set(partition.minors)))
            if not minors or str(len(minors)) != size or len(minors) != len(partition.minors):
                raise LinksError(f"partition {number} of size {size[:20]!r} has the minors {partition.minors[:16]}")
            if minors[0] < 0 or minors[-1] >= _MOST_GPUS:
                raise LinksError(f"partition {number} of size {size} has a minor outside 0 to {_MOST_GPUS - 1}")
            found.add(minors)
    return Partitions(tuple(frozenset(each) for each in sorted(found, key=lambda each: (len(each), each))))
