"""Find out in which zones pods are from what an exporter saw left of each zone, where it saw the very same pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from extender.cluster.nodekinds import NodeKind
from extender.cluster.noderoom import Taking
from extender.numa.nodetopology import NodeTopology

_Held: TypeAlias = dict[tuple[int, str], int]
"""(zone id, resource) -> milli-CPU, bytes or count, zeros left out."""

#: Ways of seating pods that are tried before the report is left alone: a few milliseconds.
_MOST_TRIES = 2000


def reseat(
    kind: NodeKind, report: NodeTopology, takings: Mapping[str, Taking], movable: Collection[str]
) -> dict[str, int]:
    """Return the zone of each pod such that the zones have left what `report` says.

    Empty if that is so already, or cannot be explained by pods of one zone each.

    Args:
        kind: the node's kind.
        report: what an exporter saw, of exactly the pods in `takings`.
        takings: what each pod is supposed to hold.
        movable: those of them of which nobody has seen in which zone they are.
    """
    held = {uid: _held(kind, taking) for uid, taking in takings.items()}
    resources = {resource for amounts in held.values() for _, resource in amounts}
    missing = {
        (zone.id, resource): gone
        for zone in report.zones
        for resource in resources
        if (gone := zone.allocatable.get(resource, 0) - zone.available.get(resource, 0))
    }
    if missing == _sum(held.values()):
        return {}
    seats = {uid: next(iter(held[uid]))[0] for uid in movable if len({zone for zone, _ in held[uid]}) == 1}
    left = _difference(missing, _sum(amounts for uid, amounts in held.items() if uid not in seats))
    wants = {uid: {resource: amount for (_, resource), amount in held[uid].items()} for uid in seats}
    # The most demanding first: what they cannot have is found out soonest.
    order = sorted(seats, key=lambda uid: sorted(wants[uid].items(), reverse=True), reverse=True)
    zones = [zone.id for zone in report.zones]
    found = _Search(wants, zones).seat(order, left) if min(left.values(), default=0) >= 0 else None
    return found or {}


class _Search:
    """Seat pods in zones, each whole in one, so that nothing is left over."""

    def __init__(self, wants: Mapping[str, Mapping[str, int]], zones: list[int]) -> None:
        self._wants = wants
        self._zones = zones
        self._tries = 0

    def seat(self, uids: list[str], left: _Held) -> dict[str, int] | None:
        """Return the zone of each pod, None if there is no way or too many were tried."""
        if not uids:
            return None if left else {}
        self._tries += 1
        uid = uids[0]
        for zone in self._zones if self._tries <= _MOST_TRIES else ():
            wanted = {(zone, resource): amount for resource, amount in self._wants[uid].items()}
            rest = _difference(left, wanted)
            if min(rest.values(), default=0) >= 0:
                seats = self.seat(uids[1:], rest)
                if seats is not None:
                    return {uid: zone, **seats}
        return None


def _held(kind: NodeKind, taking: Taking) -> _Held:
    """Return what is taken of each zone, with the GPUs where the zones list them."""
    held = {(zone, resource): n for zone, amounts in taking.amounts.items() for resource, n in amounts.items() if n}
    for zone in kind.topology.zones if kind.topology is not None else ():
        gpus = (taking.gpus & kind.sets.zone_mask(zone.id)).bit_count()
        if gpus and kind.resource in zone.allocatable:
            held[zone.id, kind.resource] = gpus
    return held


def _sum(parts: Iterable[_Held]) -> _Held:
    total: _Held = {}
    for part in parts:
        for key, amount in part.items():
            total[key] = total.get(key, 0) + amount
    return total


def _difference(whole: _Held, part: _Held) -> _Held:
    """Subtract; zeros are left out, so that nothing left is an empty dictionary."""
    keys = whole.keys() | part.keys()
    return {key: left for key in keys if (left := whole.get(key, 0) - part.get(key, 0))}
