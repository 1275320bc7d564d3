"""DeviceTaintRules: taints that an administrator puts on devices that a driver publishes without."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from extender.objects.dradevices import DeviceKey, read_device_taints
from extender.objects.meta import Decoder, ObjectMeta
from extender.objects.podspec import Taint, TaintObject


class TaintedDevicesObject(Struct, gc=False, frozen=True):
    """Which devices a rule is about; what is not set stands for all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a DeviceTaintRule."""

    device_selector: TaintedDevicesObject | None = None
    taint: TaintObject | None = None


class DeviceTaintRuleObject(Struct, gc=False, frozen=True):
    """A `resource.k8s.io/v1` DeviceTaintRule."""

    metadata: ObjectMeta | None = None
    spec: DeviceTaintRuleSpec | None = None


decode_device_taint_rule = Decoder(DeviceTaintRuleObject, "DeviceTaintRule")


@dataclass(frozen=True, slots=True)
class DeviceTaintRule:
    """A taint on all devices of the given `driver`, `pool` and name, None standing for any.

    `taint` is None where it keeps nothing from being allocated.
    """

    name: str
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    taint: Taint | None = None

    def covers(self, device: DeviceKey) -> bool:
        """Tell whether the taint is on `device`."""
        asked = (self.driver, self.pool, self.device)
        return all(want is None or want == has for want, has in zip(asked, device, strict=True))


def read_device_taint_rule(item: DeviceTaintRuleObject) -> DeviceTaintRule:
    """Read a DeviceTaintRule; without a selector it is about all devices, as for kube-scheduler."""
    meta, spec = item.metadata or ObjectMeta(), item.spec or DeviceTaintRuleSpec()
    which = spec.device_selector or TaintedDevicesObject()
    taints = read_device_taints([spec.taint]) if spec.taint is not None else ()
    return DeviceTaintRule(meta.name or "", which.driver, which.pool, which.device, taints[0] if taints else None)
