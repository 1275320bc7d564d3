"""Devices, classes and claims as values, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.objects.deviceclass import DeviceClass
from extender.objects.dradevices import DeviceKey, NodeScope, PoolKey
from extender.objects.meta import Requirement, SelectorTerm, key_places
from extender.objects.podclaims import PodClaim, PodClaims
from extender.objects.resourceclaim import (
    ClaimAllocation,
    ClaimConsumer,
    ClaimRequest,
    ClaimSpec,
    DeviceRequest,
    GivenDevice,
    ResourceClaim,
    ResourceClaimTemplate,
)
from extender.objects.resourceslice import AttributeSet, PoolDevice, ResourceSlice

DRIVER = "gpu.nvidia.com"
#: The class of all devices of the driver.
CLASS = "gpu.nvidia.com"
OF_DRIVER = f"device.driver == '{DRIVER}'"


def product_is(product: str) -> str:
    """Return the expression that devices of one product match."""
    return f"device.attributes['{DRIVER}'].productName == '{product}'"


def device(name: str, product: str = "H100", *, whole: bool = False) -> PoolDevice:
    """Return a GPU, of which the driver may say that it is a whole one."""
    attributes: Mapping[str, str] = {f"{DRIVER}/productName": product} | ({f"{DRIVER}/type": "gpu"} if whole else {})
    return PoolDevice(name, AttributeSet(key_places(tuple(attributes)), tuple(attributes.values())))


def slice_of(
    node: str,
    products: Iterable[str] = ("H100",) * 8,
    *,
    name: str = "",
    generation: int = 1,
    slices: int = 1,
    first: int = 0,
    whole: bool = False,
) -> ResourceSlice:
    """Return a slice of a node's pool with GPUs of these products, `gpu-FIRST` and up."""
    devices = tuple(device(f"gpu-{index}", product, whole=whole) for index, product in enumerate(products, first))
    name = name or f"slice-{node}"
    pool = PoolKey(DRIVER, node)
    return ResourceSlice(name, name, pool, generation, slices, NodeScope(name=node), devices=devices)


def class_of(name: str = CLASS, *selectors: str, resource: str = "", created: str = "") -> DeviceClass:
    """Return a class of devices of the driver."""
    return DeviceClass(name, (OF_DRIVER, *selectors), resource, created)


def spec_of(count: int | None = 1, *selectors: str, of: str = CLASS) -> ClaimSpec:
    """Return the spec of a claim with one request."""
    return ClaimSpec((ClaimRequest("gpus", (DeviceRequest("gpus", of, selectors, count),)),))


def template_of(name: str, spec: ClaimSpec) -> ResourceClaimTemplate:
    """Return a template in namespace `default`."""
    return ResourceClaimTemplate("default", name, spec)


def claim_of(
    name: str, spec: ClaimSpec, *, owner: str = "", node: str = "", devices: Iterable[int] = (), extended: bool = False
) -> ResourceClaim:
    """Return a claim in namespace `default`, made for the pod with the UID `owner`, with devices of a node by index."""
    allocation: ClaimAllocation | None = None
    consumers: tuple[ClaimConsumer, ...] = ()
    if node:
        given = tuple(GivenDevice("gpus", DeviceKey(DRIVER, node, f"gpu-{index}")) for index in devices)
        only = SelectorTerm(fields=(Requirement("metadata.name", "In", (node,)),))
        allocation = ClaimAllocation(given, (only,))
        consumers = (ClaimConsumer("", "pods", owner, owner),) if owner else ()
    return ResourceClaim("default", name, f"uid-{name}", spec, allocation, consumers, owner, extended=extended)


def uses(*, template: str = "", claim: str = "") -> PodClaims:
    """Return the claims of a pod that needs one: of a template, by name, or one that was made of a template."""
    return PodClaims((PodClaim("gpus", claim, template),))
