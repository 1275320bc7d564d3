"""What other schedulers and agents write onto pods about the devices that they hold: JSON inside annotations.

Sources: KAI-Scheduler, numa-placement-exporter (`kai.scheduler/numa-placement-observed`); Koordinator,
apis/extension/device_share.go, DeviceAllocations (`scheduling.koordinator.sh/device-allocated`).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from extender.wire.codec import Decoder


class ZonePlacement(Struct, gc=False, frozen=True):
    """What a pod holds in one NUMA zone; `amount` is a ResourceList."""

    zone: str
    amount: dict[str, Any]


class DeviceAllocation(Struct, gc=False, frozen=True):
    """One device of a pod; `minor` is the number of the device file."""

    minor: int


decode_zone_placements = Decoder(list[ZonePlacement], "a list of zone placements")
decode_device_allocations = Decoder(dict[str, list[DeviceAllocation]], "DeviceAllocations")
