"""Which devices were held when, as read from a history of claims."""

from __future__ import annotations

from localcluster.client import JsonObject
from localcluster.watching import Change, EventType
from tests.controlplane.holding import allocations, hands_changed


def claim(uid: str, version: int, *devices: str, owner: str = "") -> JsonObject:
    """Return a claim with devices of one pool."""
    results = [{"driver": "d", "pool": "p", "device": each, "request": "r"} for each in devices]
    return {
        "kind": "ResourceClaim",
        "metadata": {
            "name": f"claim-{uid}",
            "uid": uid,
            "resourceVersion": str(version),
            "ownerReferences": [{"kind": "Pod", "name": owner}] if owner else [],
        },
        "status": {"allocation": {"devices": {"results": results}}} if devices else {},
    }


def changes(*items: tuple[EventType, JsonObject]) -> list[Change]:
    """Return changes a second apart."""
    return [Change(float(at), kind, item) for at, (kind, item) in enumerate(items)]


def test_an_allocation_lasts_until_it_is_taken_back() -> None:
    """A claim that loses its devices, or is deleted, holds them no longer."""
    first, second = allocations(
        changes(
            ("ADDED", claim("a", 1, owner="pod")),
            ("MODIFIED", claim("a", 2, "gpu-0", owner="pod")),
            ("MODIFIED", claim("a", 4, owner="pod")),
            ("MODIFIED", claim("a", 5, "gpu-0", owner="pod")),
            ("DELETED", claim("a", 6, "gpu-0", owner="pod")),
        )
    )
    assert (first.owner, first.devices, first.since, first.until, first.seconds) == (
        *("pod", (("d", "p", "gpu-0"),), 2, 4),
        1.0,
    )
    assert (second.since, second.until) == (5, 6)


def test_two_claims_with_one_device_at_a_time_are_found() -> None:
    """One after the other may have a device, two at once may not."""
    one_after_the_other = changes(
        ("ADDED", claim("a", 1, "gpu-0")), ("DELETED", claim("a", 2, "gpu-0")), ("ADDED", claim("b", 3, "gpu-0"))
    )
    assert hands_changed(allocations(one_after_the_other)) == []
    at_once = changes(("ADDED", claim("a", 1, "gpu-0")), ("ADDED", claim("b", 2, "gpu-0", "gpu-1")))
    ((one, other),) = hands_changed(allocations(at_once))
    assert (one.claim, other.claim) == ("claim-a", "claim-b")
