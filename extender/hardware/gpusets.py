"""Which GPUs of a node to give to a pod: what sets of them are worth, in GB/s, now and to later requests.

Sets are bit masks: bit i stands for the GPU with device index i.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import combinations

from extender.hardware.bandwidth import SetBandwidth
from extender.hardware.links import LinkMatrix
from extender.hardware.products import Product

#: GB/s are compared after rounding to so many digits: sums of equal figures in another order are equal.
_DIGITS = 6


class Alignment(Enum):
    """What the kubelet makes of NUMA zones when it hands out GPUs."""

    NONE = "none"
    """It may take them from anywhere."""
    NARROWEST = "narrowest"
    """A set that one zone could hold comes from one zone, or not at all (policy `restricted`)."""
    ONE_ZONE = "one-zone"
    """No set spans zones (policy `single-numa-node`)."""


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """What is known of a node's GPUs; equal layouts are interchangeable.

    `zones` is the NUMA zone id of each GPU, () if unknown. `partitions` are the sets that can be one NVLink partition;
    if `honor`, no other sets of more than one GPU may be given out.
    """

    gpus: int
    product: Product | None = None
    links: LinkMatrix | None = None
    partitions: tuple[frozenset[int], ...] = ()
    zones: tuple[int, ...] = ()
    honor: bool = False
    alignment: Alignment = Alignment.NONE


def mask_of(gpus: Iterable[int]) -> int:
    """Return the bit mask of device indices."""
    mask = 0
    for gpu in gpus:
        mask |= 1 << gpu
    return mask


def members(mask: int) -> tuple[int, ...]:
    """Return the device indices of a bit mask, ascending."""
    return tuple(index for index in range(mask.bit_length()) if mask >> index & 1)


class GpuSets:
    """What the GPU sets of one layout are worth; remembers what it has worked out."""

    def __init__(self, layout: GpuLayout) -> None:
        self.layout = layout
        self.all = (1 << layout.gpus) - 1
        self._bandwidth = SetBandwidth(layout.gpus, layout.product, layout.links, layout.zones)
        self._islands = self._bandwidth.islands
        self._zones = _zone_masks(layout)
        self._widest = max((mask.bit_count() for mask in self._zones.values()), default=layout.gpus)
        self._partitions: dict[int, frozenset[int]] = {}
        for partition in layout.partitions:
            mask = mask_of(partition)
            if not mask & ~self.all:
                size = mask.bit_count()
                self._partitions[size] = self._partitions.get(size, frozenset()) | {mask}
        self._values: dict[int, tuple[float, int]] = {}
        self._splits: dict[tuple[int, int], tuple[float, int]] = {}
        self._choices: dict[tuple[int, int, int, int], int | None] = {}

    def zone_mask(self, zone: int) -> int:
        """Return the GPUs of a NUMA zone."""
        return self._zones.get(zone, 0)

    def zones_of(self, chosen: int) -> tuple[int, ...]:
        """Return the ids of the NUMA zones that a set has GPUs of, ascending."""
        return tuple(sorted(zone for zone, mask in self._zones.items() if mask & chosen))

    def inner(self, chosen: int) -> float:
        """Return the GB/s of an all-reduce among the GPUs of a set; infinite for one GPU or none."""
        return self._bandwidth.of(chosen)

    def value(self, free: int) -> float:
        """Return the GB/s that future requests could get from the free GPUs.

        It is the sum, over set sizes 2, 4, 8, ... and all GPUs, of what the best disjoint sets of that size have among
        themselves. Sets that cannot be given out count nothing. Exact up to 8 GPUs, greedy beyond.
        """
        return self._value(free)[0]

    def choose(self, free: int, size: int, allowed: int | None = None, required: int = 0) -> int | None:
        """Return the best set of `size` of the free GPUs, None if there is none that may be given out.

        The best one has the highest GB/s; among those, leaves the highest value; is one partition; spans fewest NUMA
        zones; has the shortest PCIe paths in it and in what it leaves; has the lowest device indices.

        Args:
            free: the free GPUs.
            size: how many GPUs; one at least.
            allowed: the GPUs to choose from; by default all.
            required: GPUs that must be among them.
        """
        within = free if allowed is None else free & allowed
        key = (free, size, within, required)
        if key not in self._choices:
            self._choices[key] = self._best(free, size, within, required)
        return self._choices[key]

    def _best(self, free: int, size: int, within: int, required: int) -> int | None:
        if required & ~within or not 1 <= size <= within.bit_count():
            return None
        partitions = self._partitions.get(size, frozenset())
        if self.layout.honor and self._partitions and size > 1:
            possible: Iterable[int] = (mask for mask in partitions if not mask & ~within)
        else:
            possible = self._candidates(within, size)
        candidates = [mask for mask in possible if not required & ~mask]
        if not candidates:
            return None
        highest = max(map(self.inner, candidates))
        fastest = [mask for mask in candidates if self.inner(mask) >= highest]
        return min(fastest, key=lambda mask: self._rank(mask, free & ~mask, whole=mask in partitions))

    def _rank(self, chosen: int, rest: int, *, whole: bool) -> tuple[float, int, int, int, tuple[int, ...]]:
        """Return the sort key of sets with the same GB/s."""
        value, closeness = self._value(rest)
        spanned = sum(1 for mask in self._zones.values() if mask & chosen)
        total = closeness + self._bandwidth.closeness(chosen)
        return (-value, -int(whole), spanned, -total, members(chosen))

    def _value(self, free: int) -> tuple[float, int]:
        """Return the value of the free GPUs and, to tell equals apart, how close those are that are split off."""
        known = self._values.get(free)
        if known is None:
            splits = [self._split(free, size) for size in self._sizes if size <= free.bit_count()]
            known = round(sum(split[0] for split in splits), _DIGITS), sum(split[1] for split in splits)
            self._values[free] = known
        return known

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        powers = {1 << exponent for exponent in range(1, self.layout.gpus.bit_length())}
        return tuple(sorted(size for size in powers | {self.layout.gpus} if 1 < size <= self.layout.gpus))

    def _split(self, free: int, size: int) -> tuple[float, int]:
        """Return (GB/s, closeness) of the best disjoint sets of `size`."""
        if free.bit_count() < size:
            return (0.0, 0)
        key = (free, size)
        known = self._splits.get(key)
        if known is None:
            known = self._split_exactly(free, size) if self._islands.exact else self._split_greedily(free, size)
            self._splits[key] = known
        return known

    def _split_exactly(self, free: int, size: int) -> tuple[float, int]:
        """Try every set with the lowest GPU, and leaving it out."""
        low = free & -free
        rest = free ^ low
        best = self._split(rest, size)
        bits = [1 << index for index in members(rest)]
        for others in combinations(bits, size - 1):
            chosen = low + sum(others)
            if not self._may_be(chosen, size):
                continue
            value, closeness = self._split(free ^ chosen, size)
            best = max(
                best, (round(value + self.inner(chosen), _DIGITS), closeness + self._bandwidth.closeness(chosen))
            )
        return best

    def _split_greedily(self, free: int, size: int) -> tuple[float, int]:
        """Take the best of the sets that islands suggest, then the best of what is left."""
        candidates = [mask for mask in self._candidates(free, size) if self._may_be(mask, size)]
        if not candidates:
            return (0.0, 0)
        chosen = max(candidates, key=lambda mask: (self.inner(mask), self._bandwidth.closeness(mask), -mask))
        value, closeness = self._split(free ^ chosen, size)
        return round(value + self.inner(chosen), _DIGITS), closeness + self._bandwidth.closeness(chosen)

    def _may_be(self, chosen: int, size: int) -> bool:
        """Tell whether a set is worth something to those who come next: it can be given out as one island."""
        if self._partitions and chosen not in self._partitions.get(size, ()):
            return size not in self._partitions and not self.layout.honor
        if self.layout.alignment is Alignment.NONE or not self._zones:
            return True
        if self.layout.alignment is Alignment.NARROWEST and size > self._widest:
            return True
        return any(not chosen & ~mask for mask in self._zones.values())

    def _candidates(self, free: int, size: int) -> Iterator[int]:
        """Yield sets of `size` of the free GPUs that are worth a look: all of them on a small board."""
        if not self._islands.exact:
            yield from (mask for mask in self._partitions.get(size, ()) if not mask & ~free)
        yield from self._islands.sets(free, size)


def _zone_masks(layout: GpuLayout) -> dict[int, int]:
    masks: dict[int, int] = {}
    for gpu, zone in enumerate(layout.zones[: layout.gpus]):
        masks[zone] = masks.get(zone, 0) | 1 << gpu
    return masks if sum(mask.bit_count() for mask in masks.values()) == layout.gpus else {}
