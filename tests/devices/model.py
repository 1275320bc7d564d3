"""The model's answer to the questions that are put to the oracle."""

from __future__ import annotations

from collections.abc import Sequence

from extender.devices.allocator import AskedClaim, DeviceCause, DeviceRefusal, DeviceView, allocate
from extender.devices.inuse import DevicesInUse
from extender.devices.inventory import Inventory
from extender.devices.selectors import Selectors
from extender.objects.deviceclass import decode_device_class, read_device_class
from extender.objects.resourceclaim import ClaimAllocation, ResourceClaim, decode_resource_claim, read_resource_claim
from extender.objects.resourceslice import ResourceSlice, decode_resource_slice, read_resource_slice
from tests.builders import Json, written

SELECTORS = Selectors()


def claim_of(document: Json) -> ResourceClaim:
    """Read a ResourceClaim."""
    return read_resource_claim(decode_resource_claim(written(document)))


def slice_of(document: Json) -> ResourceSlice:
    """Read a ResourceSlice."""
    return read_resource_slice(decode_resource_slice(written(document)))


def inventory_of(slices: Sequence[Json], classes: Sequence[Json] = ()) -> Inventory:
    """Return the inventory of slices and classes."""
    inventory = Inventory()
    for each in slices:
        inventory.put_slice(slice_of(each))
    for each in classes:
        inventory.put_class(read_device_class(decode_device_class(written(each))))
    return inventory


def view_of(question: Json, selectors: Selectors = SELECTORS) -> DeviceView:
    """Return what decides on the node of a question."""
    inventory = inventory_of(question["slices"], question["classes"])
    metadata = question["node"]["metadata"]
    allocations = (claim_of(each).allocation for each in question["allocated"])
    return DeviceView(
        metadata["name"],
        inventory.pools_of(metadata["name"], metadata.get("labels", {})),
        DevicesInUse(each for each in allocations if each is not None),
        inventory.classes,
        selectors,
    )


def asked(claims: Sequence[Json]) -> list[AskedClaim]:
    """Read claims without devices."""
    return [AskedClaim(claim.key, claim.spec) for claim in map(claim_of, claims)]


def answer_of(question: Json) -> tuple[ClaimAllocation, ...] | DeviceRefusal:
    """Return what the claims of a question get."""
    return allocate(asked(question["claims"]), view_of(question))


def outcome_of(answer: tuple[ClaimAllocation, ...] | DeviceRefusal) -> object:
    """Return an answer as `told_outcome` has that of the oracle."""
    if isinstance(answer, DeviceRefusal) and answer.cause is DeviceCause.SEARCH_GAVE_UP:
        return "gave up"
    if isinstance(answer, DeviceRefusal):
        return "nowhere" if answer.everywhere else "not here"
    return [
        (
            [(each.request, *each.device, each.admin, bool(each.share), each.consumed) for each in allocation.devices],
            allocation.nodes,
        )
        for allocation in answer
    ]


def told_outcome(told: Json) -> object:
    """Return the answer of the oracle; the devices are compared one by one, in their order."""
    if "gaveUp" in told:
        return "gave up"
    if "error" in told:
        return "nowhere"
    if "onNode" in told:
        return "not here"
    claims = [claim_of({"metadata": {"name": "c"}, "status": {"allocation": each}}) for each in told["allocations"]]
    return outcome_of(tuple(claim.allocation for claim in claims if claim.allocation is not None))
