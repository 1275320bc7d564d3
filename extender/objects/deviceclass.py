"""DeviceClasses: names for kinds of devices, by which claims and extended resources ask for them."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from extender.objects.dradevices import DeviceSelectorObject, UnreadableError, read_device_selectors
from extender.objects.meta import Decoder, ObjectMeta
from extender.objects.reason import Problem
from extender.objects.requests import CLASS_RESOURCE_PREFIX

#: Whether a pool of devices of a node is in the making or invalid: 1 then.
UNREADY = "devices/pools  unready"


def barred_column(column: str) -> str:
    """Return under which name it is counted how many devices would be in a column without their taints."""
    return f"{column}  tainted"


class DeviceClassSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a DeviceClass."""

    selectors: list[DeviceSelectorObject] | None = None
    extended_resource_name: str | None = None


class DeviceClassObject(Struct, gc=False, frozen=True):
    """A `resource.k8s.io/v1` DeviceClass."""

    metadata: ObjectMeta | None = None
    spec: DeviceClassSpec | None = None


decode_device_class = Decoder(DeviceClassObject, "DeviceClass")


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A class of devices: those that match all `selectors` (CEL).

    `resource` is the extended resource that stands for it, "" for none. `created` is the API server's RFC 3339 text.
    """

    name: str
    selectors: tuple[str, ...] = ()
    resource: str = ""
    created: str = ""
    problem: Problem | None = None

    @property
    def resources(self) -> tuple[str, ...]:
        """Return the extended resources by which pods may ask for it."""
        implicit = f"{CLASS_RESOURCE_PREFIX}{self.name}"
        return (self.resource, implicit) if self.resource else (implicit,)


def read_device_class(item: DeviceClassObject) -> DeviceClass:
    """Read a DeviceClass; with a selector that cannot be read it has a problem, and no device is of it."""
    meta, spec = item.metadata or ObjectMeta(), item.spec or DeviceClassSpec()
    selectors: tuple[str, ...] = ()
    problem = None
    try:
        selectors = read_device_selectors(spec.selectors, "spec.selectors")
    except UnreadableError as error:
        problem = error.problem
    resource = spec.extended_resource_name or ""
    return DeviceClass(meta.name or "", selectors, resource, meta.creation_timestamp or "", problem)
