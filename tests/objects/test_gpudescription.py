"""What drivers say of a node's GPUs: NVIDIA's and AMD's, whole ones and parts, and what does not fit together."""

from __future__ import annotations

from typing import Any

import pytest

from extender.objects.dradevices import DeviceKey
from extender.objects.gpudescription import UNDESCRIBED, GpuDescription, describe_gpus
from extender.objects.resourceslice import PoolDevice, decode_resource_slice, read_resource_slice
from tests.builders import written

NVIDIA, AMD = "gpu.nvidia.com", "gpu.amd.com"
ROOT, ZONE = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"


def described(driver: str, devices: dict[str, dict[str, Any]]) -> list[tuple[DeviceKey, PoolDevice]]:
    """Return the devices of a slice, given as name -> attributes, as they are read."""
    written_devices = [
        {
            "name": name,
            "attributes": {
                key: {"int": value} if isinstance(value, int) else {"string": value} for key, value in said.items()
            },
        }
        for name, said in devices.items()
    ]
    spec = {
        "driver": driver,
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": written_devices,
    }
    item = read_resource_slice(decode_resource_slice(written({"metadata": {"name": "s"}, "spec": spec})))
    assert item.problem is None
    return [(DeviceKey(driver, "n", device.name), device) for device in item.devices]


def nvidia(number: int, **more: Any) -> dict[str, Any]:
    """Return what NVIDIA's driver says of one GPU."""
    product = {"type": "gpu", "uuid": f"GPU-{number}", "productName": "NVIDIA H100 80GB HBM3", "architecture": "Hopper"}
    return {**product, ROOT: f"pci0000:{number // 2}", **more}


def test_nvidia_gpus_are_told_in_order_of_their_numbers() -> None:
    """Product in the words of labels, UUIDs and PCIe roots; zones are not stated by this driver for whole GPUs."""
    devices = described(NVIDIA, {f"gpu-{number}": nvidia(number) for number in (10, 2, 1)})
    assert describe_gpus(devices) == GpuDescription(
        names=("gpu-1", "gpu-2", "gpu-10"),
        product="NVIDIA-H100-80GB-HBM3",
        roots=("pci0000:0", "pci0000:1", "pci0000:5"),
        uuids=("GPU-1", "GPU-2", "GPU-10"),
    )


def test_index_goes_before_names() -> None:
    """Older releases say the index; names are by the device file then."""
    devices = described(NVIDIA, {"gpu-0": nvidia(0, index=1), "gpu-1": nvidia(1, index=0)})
    assert describe_gpus(devices).uuids == ("GPU-1", "GPU-0")


def test_amd_gpus_have_zones() -> None:
    """AMD's driver says NUMA zones under a name of its own, and no UUIDs."""
    said = {"type": "amdgpu", "productName": "AMD_Instinct_MI300X_OAM", "numaNode": 1, ROOT: "pci0000:00"}
    devices = described(AMD, {"gpu-1-129": said, "gpu-0-128": {**said, "numaNode": 0}})
    found = describe_gpus(devices)
    assert (found.product, found.zones, found.uuids) == ("AMD_Instinct_MI300X_OAM", (0, 1), ())


@pytest.mark.parametrize(
    ("said", "zones"),
    [
        ([{ZONE: 0}, {ZONE: 1}], (0, 1)),
        ([{ZONE: 1, "numa": 0}, {"numa": 0}], (1, 0)),
        ([{ZONE: 0}, {}], ()),
        ([{ZONE: -1}, {ZONE: -1}], ()),
        ([{ZONE: 0}, {ZONE: 2000}], ()),
        ([{ZONE: "0"}, {ZONE: "1"}], ()),
    ],
)
def test_zones_count_if_all_gpus_state_them(said: list[dict[str, Any]], zones: tuple[int, ...]) -> None:
    """Kubernetes' own name goes first; a zone that is not known, or none, leaves all of them unknown."""
    devices = described(NVIDIA, {f"gpu-{number}": nvidia(number, **more) for number, more in enumerate(said)})
    assert describe_gpus(devices).zones == zones


def test_parts_of_gpus_and_other_devices_are_not_gpus() -> None:
    """MIG slices, GPUs for virtual machines, channels and cards are left out."""
    parts = {"gpu-0-mig-1": nvidia(0, type="mig"), "gpu-vfio-0": nvidia(0, type="vfio")}
    assert describe_gpus(described(NVIDIA, parts)) == UNDESCRIBED
    assert describe_gpus(described("compute-domain.nvidia.com", {"channel-0": {"type": "channel"}})) == UNDESCRIBED
    assert describe_gpus(described(NVIDIA, {**parts, "gpu-0": nvidia(0)})).names == ("gpu-0",)
    assert describe_gpus([]) == UNDESCRIBED


def test_two_products_are_a_problem_and_two_makes_say_nothing() -> None:
    """GPUs of one node are alike; where they are not, no product is believed, and the rest counts."""
    mixed = {"gpu-0": nvidia(0), "gpu-1": nvidia(1, productName="NVIDIA L4")}
    found = describe_gpus(described(NVIDIA, mixed))
    assert (found.names, found.product, found.uuids) == (("gpu-0", "gpu-1"), "", ("GPU-0", "GPU-1"))
    (problem,) = found.problems
    assert str(problem).endswith("name several products (NVIDIA-H100-80GB-HBM3, NVIDIA-L4): none counts")
    amd = described(AMD, {"gpu-0-128": {"type": "amdgpu", "productName": "AMD_Instinct_MI300X_OAM"}})
    assert describe_gpus([*described(NVIDIA, {"gpu-0": nvidia(0)}), *amd]) == UNDESCRIBED


def test_absurd_numbers_of_gpus_are_not_believed() -> None:
    """No node has more than 64."""
    assert describe_gpus(described(NVIDIA, {f"gpu-{number}": nvidia(number) for number in range(65)})) == UNDESCRIBED
