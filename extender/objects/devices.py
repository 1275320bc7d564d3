"""What Koordinator's device reporter says of a node's GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from extender.objects.keys import GPU_PARTITIONS
from extender.objects.meta import Decoder, ObjectMeta, ObjectRef


class Device(Struct, gc=False, frozen=True):
    """A `scheduling.koordinator.sh/v1alpha1` Device: the devices of the node of that name.

    What Muster reads of it stands in an annotation.
    """

    metadata: ObjectMeta | None = None


decode_device = Decoder(Device)


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """A Device object, which has the name of its node; `partitions` is the JSON of its annotation, "" without one."""

    about: ObjectRef
    partitions: str = ""

    @property
    def node(self) -> str:
        """Return the name of the node."""
        return self.about.name


def read_device(device: Device) -> DeviceReport:
    """Read a Device; of the devices that it lists nothing is needed."""
    meta = device.metadata or ObjectMeta()
    about = ObjectRef("scheduling.koordinator.sh/v1alpha1", "Device", "", meta.name or "", meta.uid or "")
    return DeviceReport(about, (meta.annotations or {}).get(GPU_PARTITIONS, ""))
