"""Which devices were allocated to which claims when, from what the API server said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from localcluster.devices import RESOURCE_CLAIMS, allocated_devices
from localcluster.history import version_of
from localcluster.watching import Change

#: Driver, pool and name.
Device = tuple[str, str, str]


@dataclass(slots=True)
class Holding:
    """One allocation of a claim.

    `owner` is the pod that the claim was made for, "" for one that pods name. `since` and `until` are resource
    versions, `seconds` how long it lasted; infinite for one that has not ended.
    """

    claim: str
    owner: str
    devices: tuple[Device, ...]
    since: int
    at: float
    until: float = inf
    seconds: float = inf

    def overlaps(self, other: Holding) -> bool:
        """Tell whether both were there at a time."""
        return self.since < other.until and other.since < self.until


def allocations(changes: Sequence[Change]) -> list[Holding]:
    """Return the allocations of claims among `changes`, which are in the API server's order."""
    current: dict[str, Holding] = {}
    found: list[Holding] = []
    for change in changes:
        item = change.object
        if item["kind"] != RESOURCE_CLAIMS.kind:
            continue
        uid = item["metadata"]["uid"]
        devices = () if change.type == "DELETED" else tuple(allocated_devices(item))
        held = current.get(uid)
        if held is not None and held.devices != devices:
            held.until, held.seconds = version_of(item), change.at - held.at
            del current[uid]
        if devices and uid not in current:
            owners = [each["name"] for each in item["metadata"].get("ownerReferences", ()) if each["kind"] == "Pod"]
            name, owner = item["metadata"]["name"], next(iter(owners), "")
            current[uid] = Holding(name, owner, devices, version_of(item), change.at)
            found.append(current[uid])
    return found


def hands_changed(holdings: Sequence[Holding]) -> list[tuple[Holding, Holding]]:
    """Return the pairs of allocations of which both had a device at the same time."""
    by_device: dict[Device, list[Holding]] = {}
    for held in holdings:
        for device in held.devices:
            by_device.setdefault(device, []).append(held)
    return [
        (one, other)
        for those in by_device.values()
        for index, one in enumerate(those)
        for other in those[index + 1 :]
        if one.overlaps(other)
    ]
