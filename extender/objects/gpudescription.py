"""What the drivers of Dynamic Resource Allocation say of a node's GPUs: product, zones, PCIe roots, UUIDs.

Sources: NVIDIA/k8s-dra-driver-gpu cmd/gpu-kubelet-plugin/deviceinfo.go; ROCm/k8s-gpu-dra-driver
docs/driver-attributes.md and cmd/gpu-kubeletplugin/deviceinfo.go; dynamic-resource-allocation/deviceattribute for the
names under resource.kubernetes.io. Neither driver says which NVLink clique a GPU is in, or what joins a pair of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from extender.objects.dradevices import DeviceKey
from extender.objects.reason import Problem
from extender.objects.resourceslice import PoolDevice
from extender.objects.text import natural_key

_NVIDIA: Final = "gpu.nvidia.com"
_AMD: Final = "gpu.amd.com"

#: Driver -> what `type` says of a whole GPU: parts of one, and those that virtual machines get, are others.
_WHOLE: Final = {_NVIDIA: "gpu", _AMD: "amdgpu"}
#: Driver -> what stands for a blank where labels name the same product.
_BLANK: Final = {_NVIDIA: "-", _AMD: "_"}

#: Where the zone stands: Kubernetes' own name first (1.37), then the driver's.
_ZONE_NAMES: Final = ("resource.kubernetes.io/numaNode", "{driver}/numaNode", "{driver}/numa")
_ROOT: Final = "resource.kubernetes.io/pcieRoot"

#: No node has as many: more of them are not believed.
_MOST: Final = 64
_MOST_ZONE: Final = 1023


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GpuDescription:
    """The whole GPUs of one node, in order of their device indices; a field that not all of them state is empty.

    `names` are those of the devices. `product` is in the words that labels have for it, "" where they differ. `zones`
    are NUMA zone ids, `roots` PCIe root complexes, `uuids` as NVML has them.
    """

    names: tuple[str, ...] = ()
    product: str = ""
    zones: tuple[int, ...] = ()
    roots: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    def indices(self, devices: Iterable[DeviceKey]) -> tuple[int, ...]:
        """Return the indices of those among `devices` of the node that are whole GPUs, ascending."""
        places = {name: index for index, name in enumerate(self.names)}
        found = {places.get(each.device) for each in devices if each.driver in _WHOLE}
        return tuple(sorted(index for index in found if index is not None))


#: What is said of the GPUs of a node without any.
UNDESCRIBED: Final = GpuDescription()


def describe_gpus(devices: Iterable[tuple[DeviceKey, PoolDevice]]) -> GpuDescription:
    """Put together what the devices of one node say of its whole GPUs; of two makes of GPU nothing is said."""
    whole = [(key, device) for key, device in devices if is_whole_gpu(key.driver, device)]
    drivers = {key.driver for key, _ in whole}
    if not whole or len(drivers) > 1 or len(whole) > _MOST:
        return UNDESCRIBED
    (driver,) = drivers
    gpus = [device for _, device in sorted(whole, key=lambda each: _order(driver, *each))]
    products = sorted({_product(driver, each) for each in gpus})
    problems: tuple[Problem, ...] = ()
    if len(products) > 1:
        problems = (
            Problem(f"ResourceSlices of {driver}", f"name several products ({', '.join(products)}): none counts"),
        )
    return GpuDescription(
        names=tuple(each.name for each in gpus),
        product=products[0] if len(products) == 1 else "",
        zones=_all_numbers([_zone(driver, each) for each in gpus]),
        roots=_all_texts([each.attributes.get(_ROOT) for each in gpus]),
        uuids=_all_texts([each.attributes.get(f"{driver}/uuid") for each in gpus]),
        problems=problems,
    )


def is_whole_gpu(driver: str, device: PoolDevice) -> bool:
    """Tell whether a driver calls one of its devices a whole GPU."""
    kind = _WHOLE.get(driver)
    return kind is not None and device.attributes.get(f"{driver}/type") == kind


def _order(driver: str, key: DeviceKey, device: PoolDevice) -> tuple[int, object]:
    """Return the sort key of a GPU: its index where the driver says it, else the numbers in its name."""
    index = device.attributes.get(f"{driver}/index")
    return (index, "") if type(index) is int else (_MOST, natural_key(key.device))


def _product(driver: str, device: PoolDevice) -> str:
    name = device.attributes.get(f"{driver}/productName")
    return name.strip().replace(" ", _BLANK[driver]) if isinstance(name, str) else ""


def _zone(driver: str, device: PoolDevice) -> int | None:
    """Return the zone, None where it is not stated, or several are: kernels write -1 where they know of none."""
    for name in _ZONE_NAMES:
        zone = device.attributes.get(name.format(driver=driver))
        if type(zone) is int and 0 <= zone <= _MOST_ZONE:
            return zone
    return None


def _all_numbers(found: Sequence[int | None]) -> tuple[int, ...]:
    known = tuple(each for each in found if each is not None)
    return known if len(known) == len(found) else ()


def _all_texts(found: Sequence[object]) -> tuple[str, ...]:
    known = tuple(each for each in found if isinstance(each, str) and each)
    return known if len(known) == len(found) else ()
