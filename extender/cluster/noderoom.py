"""What is free of one node's GPUs and zones, and what a pod would take of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

from extender.cluster.nodekinds import NodeKind
from extender.domain.pod import Shape
from extender.fabric.gpusets import mask_of, members
from extender.numa.nodetopology import NodeTopology, Policy
from extender.numa.topologymanager import Admission, admit

Amounts: TypeAlias = Mapping[int, Mapping[str, int]]
"""Zone id -> resource -> milli-CPU, bytes or count; GPUs are not among them, as they are counted one by one."""

_NOTHING: Amounts = {}


@dataclass(frozen=True, slots=True)
class Taking:
    """What one pod takes: GPUs as a bit mask, amounts of zones, and the zones that it is in, as far as known."""

    gpus: int = 0
    amounts: Amounts = field(default_factory=dict)
    zones: tuple[int, ...] = ()


class Room:
    """What is free of one node.

    Attributes:
        kind: the node's kind.
        gpus: the free GPUs, as a bit mask.
        zones: what each zone has free, GPUs aside; empty where the kubelet aligns nothing.
    """

    __slots__ = ("gpus", "kind", "zones")

    def __init__(self, kind: NodeKind, gpus: int, zones: dict[int, dict[str, int]]) -> None:
        """Start with what is free; `zones` is the room's from now on."""
        self.kind = kind
        self.gpus = gpus
        self.zones = zones

    @classmethod
    def empty(cls, kind: NodeKind) -> Self:
        """Return the room of a node that nobody holds anything of."""
        zones = {} if kind.topology is None else _without(kind.topology.allocatable(), kind.resource)
        return cls(kind, kind.sets.all, zones)

    def take(self, taking: Taking) -> None:
        """Take away what is there of a taking."""
        self.gpus &= ~taking.gpus
        for zone, amounts in taking.amounts.items():
            free = self.zones.get(zone, {})
            for resource, amount in amounts.items():
                if resource in free:
                    free[resource] = max(0, free[resource] - amount)

    def shift(self, before: Room, after: Room) -> None:
        """Gain, or lose, what `after` has more than `before`, or less, of the same node."""
        self.gpus = (self.gpus | after.gpus & ~before.gpus) & ~(before.gpus & ~after.gpus)
        for zone, amounts in self.zones.items():
            was, now = before.zones.get(zone, {}), after.zones.get(zone, {})
            for resource, amount in amounts.items():
                amounts[resource] = max(0, amount + now.get(resource, 0) - was.get(resource, 0))

    def fits(self, taking: Taking) -> bool:
        """Tell whether all of a taking is free."""
        return not taking.gpus & ~self.gpus and all(
            self.zones.get(zone, {}).get(resource, 0) >= amount
            for zone, amounts in taking.amounts.items()
            for resource, amount in amounts.items()
        )

    def serve(self, shape: Shape) -> Taking | None:
        """Return what a pod would be given; None if the kubelet would refuse it, or no set of GPUs may be given out."""
        asked = gpus_asked(shape, self.kind.resource)
        topology = self.kind.topology
        if topology is None:
            chosen = self.kind.sets.choose(self.gpus, asked) if asked else 0
            return None if chosen is None else self._taking(chosen)
        admission = admit(topology, self._with_gpus(topology), shape)
        if not isinstance(admission, Admission):
            return None
        chosen = self._choose_in_zones(asked, admission.taken)
        if chosen is None:
            return None
        zones = tuple(sorted({zone for unit in admission.zones for zone in unit}))
        return self._taking(chosen, _beside_gpus(admission.taken, self.kind.resource), zones)

    def suppose(self, shape: Shape, gpus: int = 0, zones: tuple[int, ...] = ()) -> Taking:
        """Return what a pod has taken that is there, whether or not it would be let in.

        Args:
            shape: what it asks for.
            gpus: the GPUs that it is known to hold; without any, free ones are chosen, as many as there are.
            zones: the zones that it is known to be in.
        """
        known = gpus & self.kind.sets.all
        if not known:
            asked = gpus_asked(shape, self.kind.resource)
            known = (zones and self._some(asked, self._mask(zones))) or self._some(asked, self.gpus)
        topology = self.kind.topology
        if topology is None:
            return self._taking(known, _NOTHING, zones)
        zones = zones or self.kind.sets.zones_of(known)
        return self._taking(known, self._amounts(topology, shape, zones), zones)

    def _taking(self, gpus: int, amounts: Amounts = _NOTHING, zones: tuple[int, ...] = ()) -> Taking:
        if gpus and self.kind.zones_known:
            zones = tuple(sorted({*zones, *self.kind.sets.zones_of(gpus)}))
        return Taking(gpus, amounts, zones)

    def left(self) -> dict[int, dict[str, int]]:
        """Return what each zone has free, GPUs included; nothing where the kubelet aligns nothing."""
        return {} if self.kind.topology is None else self._with_gpus(self.kind.topology)

    def _with_gpus(self, topology: NodeTopology) -> dict[int, dict[str, int]]:
        """Return what each zone has free, with the free GPUs where the topology counts them."""
        resource = self.kind.resource
        free = {zone: dict(amounts) for zone, amounts in self.zones.items()}
        for zone in topology.zones:
            if resource in zone.allocatable:
                free[zone.id][resource] = (self.gpus & self.kind.sets.zone_mask(zone.id)).bit_count()
        return free

    def _choose_in_zones(self, asked: int, taken: Amounts) -> int | None:
        """Choose GPUs, as many from each zone as the kubelet takes there; from anywhere if it does not align them."""
        sets = self.kind.sets
        by_zone = {zone: amounts.get(self.kind.resource, 0) for zone, amounts in taken.items()}
        if sum(by_zone.values()) != asked:
            return sets.choose(self.gpus, asked) if asked else 0
        chosen = 0
        for zone, count in by_zone.items():
            if count:
                some = sets.choose(self.gpus & ~chosen, count, sets.zone_mask(zone))
                if some is None:
                    return None
                chosen |= some
        return chosen

    def _amounts(self, topology: NodeTopology, shape: Shape, zones: tuple[int, ...]) -> Amounts:
        """Return what a pod in these zones takes of them, GPUs aside; of all zones if these have not enough."""
        loose = replace(topology, policy=Policy.BEST_EFFORT)
        for ids in (zones, tuple(self.zones)):
            within = replace(loose, zones=tuple(zone for zone in topology.zones if zone.id in ids))
            if not within.zones:
                continue
            free = {zone: dict(amounts) for zone, amounts in self.zones.items()}
            for zone in within.zones:
                if self.kind.resource in zone.allocatable:
                    # Its GPUs are known already: they must not keep the rest from being found.
                    free[zone.id][self.kind.resource] = gpus_asked(shape, self.kind.resource)
            admission = admit(within, free, shape)
            if isinstance(admission, Admission):
                return _beside_gpus(admission.taken, self.kind.resource)
        return _NOTHING

    def _some(self, asked: int, allowed: int) -> int:
        """Choose as many free GPUs as there are of those asked for."""
        count = min(asked, (self.gpus & allowed).bit_count())
        chosen = self.kind.sets.choose(self.gpus, count, allowed) if count else 0
        if chosen is None:  # no set that may be given out, and yet the pod runs
            chosen = mask_of(members(self.gpus & allowed)[:count])
        return chosen

    def _mask(self, zones: tuple[int, ...]) -> int:
        mask = 0
        for zone in zones:
            mask |= self.kind.sets.zone_mask(zone)
        return mask


def gpus_asked(shape: Shape, resource: str) -> int:
    """Return how much of `resource` a pod asks for; none of no resource."""
    if resource:
        for name, amount in shape.requests:
            if name == resource:
                return amount
    return 0


def _beside_gpus(taken: Amounts, resource: str) -> Amounts:
    """Return what is taken of zones other than GPUs."""
    return {zone: amounts for zone, amounts in _without(taken, resource).items() if amounts}


def _without(amounts: Amounts, resource: str) -> dict[int, dict[str, int]]:
    return {zone: {name: n for name, n in held.items() if name != resource} for zone, held in amounts.items()}
