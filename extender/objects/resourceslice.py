"""ResourceSlices: the devices that a driver offers, and from which nodes they can be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from sys import intern
from typing import TypeAlias

from msgspec import Struct
from msgspec import field as struct_field

from extender.caches import Shared, size_of, sized_cache
from extender.objects.dradevices import (
    Amount,
    NodeChoiceFields,
    NodeScope,
    PoolKey,
    QuantityText,
    UnreadableError,
    counted,
    read_amount,
    read_device_taints,
    read_name,
    read_node_scope,
)
from extender.objects.meta import Decoder, Int64, ObjectMeta, key_places
from extender.objects.podspec import Taint, TaintObject
from extender.objects.reason import Problem, quoted
from extender.objects.semver import parse_semver


class AttributeObject(Struct, gc=False, frozen=True):
    """The value of an attribute: one of these; the lists are alpha in 1.37."""

    integer: Int64 | None = struct_field(name="int", default=None)
    boolean: bool | None = struct_field(name="bool", default=None)
    string: str | None = None
    version: str | None = None
    ints: list[Int64] | None = None
    bools: list[bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None


class ValidRangeObject(Struct, gc=False, frozen=True):
    """The amounts of a capacity that may be asked for, in steps."""

    min: QuantityText | None = None
    max: QuantityText | None = None
    step: QuantityText | None = None


class RequestPolicyObject(Struct, gc=False, frozen=True, rename="camel"):
    """How a capacity may be shared out."""

    default: QuantityText | None = None
    valid_values: list[QuantityText] | None = None
    valid_range: ValidRangeObject | None = None


class CapacityObject(Struct, gc=False, frozen=True, rename="camel"):
    """How much of something a device has."""

    value: QuantityText | None = None
    request_policy: RequestPolicyObject | None = None


class CounterObject(Struct, gc=False, frozen=True):
    """A counter of a set, or what a device takes of it."""

    value: QuantityText | None = None


class CounterSetObject(Struct, gc=False, frozen=True):
    """Counters that devices of a pool share."""

    name: str | None = None
    counters: dict[str, CounterObject] | None = None


class CounterUseObject(Struct, gc=False, frozen=True, rename="camel"):
    """What a device takes of a counter set while it is allocated."""

    counter_set: str | None = None
    counters: dict[str, CounterObject] | None = None
    compatibility_groups: list[str] | None = None


class SliceDeviceObject(NodeChoiceFields, gc=False, frozen=True, rename="camel"):
    """A device of a slice."""

    name: str | None = None
    attributes: dict[str, AttributeObject] | None = None
    capacity: dict[str, CapacityObject] | None = None
    consumes_counters: list[CounterUseObject] | None = None
    taints: list[TaintObject] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None


class PoolObject(Struct, gc=False, frozen=True, rename="camel"):
    """The pool that a slice is a part of."""

    name: str | None = None
    generation: Int64 | None = None
    resource_slice_count: Int64 | None = None


class ResourceSliceSpec(NodeChoiceFields, gc=False, frozen=True, rename="camel"):
    """Spec of a ResourceSlice."""

    driver: str | None = None
    pool: PoolObject | None = None
    per_device_node_selection: bool | None = None
    devices: list[SliceDeviceObject] | None = None
    shared_counters: list[CounterSetObject] | None = None


class ResourceSliceObject(Struct, gc=False, frozen=True):
    """A `resource.k8s.io/v1` ResourceSlice."""

    metadata: ObjectMeta | None = None
    spec: ResourceSliceSpec | None = None


decode_resource_slice = Decoder(ResourceSliceObject, "ResourceSlice")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class DeviceVersion:
    """A semantic version as an attribute has it."""

    text: str


AttributeValue: TypeAlias = str | bool | int | DeviceVersion | tuple[str | bool | int | DeviceVersion, ...]
"""The value of an attribute; compare types too, as Python takes True for 1."""


class AttributeSet(Mapping[str, AttributeValue]):
    """The attributes of a device by `domain/name`; those that the driver names without a domain have its own.

    Devices with the same names share them, and each text: 40,000 devices have a few dozen sets of names.
    """

    __slots__ = ("_places", "_values")

    def __init__(self, places: Mapping[str, int], values: tuple[AttributeValue, ...]) -> None:
        self._places = places
        self._values = values

    def __getitem__(self, name: str) -> AttributeValue:
        """Return the value of an attribute; raise KeyError where there is none."""
        return self._values[self._places[name]]

    def value(self, name: str) -> AttributeValue | None:
        """Return the value of an attribute, None where there is none; `get` takes five times as long."""
        place = self._places.get(name)
        return None if place is None else self._values[place]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._places)

    def __len__(self) -> int:
        """Count the attributes."""
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        """Compare names and values, and of what type these are."""
        if not isinstance(other, AttributeSet):
            return NotImplemented
        return dict(self.typed()) == dict(other.typed())

    def __hash__(self) -> int:
        """Hash by content."""
        return hash(frozenset(self.typed()))

    def typed(self) -> Iterator[tuple[str, tuple[type, AttributeValue]]]:
        """Iterate over names and what `typed_value` makes of their values."""
        return ((name, typed_value(value)) for name, value in self.items())

    def __repr__(self) -> str:
        """Render as the dict that it stands for."""
        return f"AttributeSet({dict(self)})"


def typed_value(value: AttributeValue) -> tuple[type, AttributeValue]:
    """Return what two values of attributes have in common only if kube-scheduler takes them for the same."""
    first = value[0] if isinstance(value, tuple) and value else value
    return type(first), value


@dataclass(frozen=True, slots=True)
class CapacityPolicy:
    """How a capacity may be shared out: `default` is what a request gets that names no amount.

    `lowest`, `highest` and `step` are a range, `values` a list in ascending order; billionths.
    """

    default: Amount | None = None
    values: tuple[Amount, ...] = ()
    ranged: bool = False
    lowest: Amount | None = None
    highest: Amount | None = None
    step: Amount | None = None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """How much a device has of something, in billionths, and how it may be shared out."""

    value: Amount
    policy: CapacityPolicy | None = None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CapacitySet:
    """The capacities of a device in order of their names, which are as the driver wrote them: claims repeat them so."""

    items: tuple[tuple[str, DeviceCapacity], ...] = ()


@dataclass(frozen=True, slots=True)
class CounterUse:
    """What a device takes of a counter set of its pool while it is allocated (billionths)."""

    counter_set: str
    counters: tuple[tuple[str, Amount], ...]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CounterUses:
    """All that a device takes of counter sets."""

    uses: tuple[CounterUse, ...] = ()


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Counters that devices of a pool share (billionths)."""

    name: str
    counters: tuple[tuple[str, Amount], ...]


_NO_CAPACITY = CapacitySet()
_NO_USES = CounterUses()
_NOWHERE = NodeScope()


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """A device of a pool.

    `scope` is set where each device of a slice says itself from which nodes it can be used. `shared` says that several
    claims may have it at a time, each a part of its capacity. `conditions` must hold before a pod that has it is bound.
    """

    name: str
    attributes: AttributeSet
    capacity: CapacitySet = _NO_CAPACITY
    counters: CounterUses = _NO_USES
    taints: tuple[Taint, ...] = ()
    scope: NodeScope | None = None
    shared: bool = False
    binds_to_node: bool = False
    conditions: tuple[str, ...] = ()
    failure_conditions: tuple[str, ...] = ()

    @property
    def is_divided(self) -> bool:
        """Tell whether it is had in parts, or takes counters from others: then numbers of devices do not say all."""
        return self.shared or bool(self.counters.uses)


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """A part of a pool as its driver published it.

    `scope` is where all its devices can be used, None with `per_device`. A slice with a `problem` has no devices, and
    its pool counts as incomplete.
    """

    name: str
    uid: str
    pool: PoolKey
    generation: int = 0
    slice_count: int = 0
    scope: NodeScope | None = None
    per_device: bool = False
    devices: tuple[PoolDevice, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    problem: Problem | None = None


#: One object for equal parts of devices: nodes have the same boards.
_shared_capacity = Shared[CapacitySet]()
_shared_uses = Shared[CounterUses]()

#: What names of attributes, and versions, may take that devices share (bytes, each).
_NAMES_BYTES = 2 << 20


def read_resource_slice(item: ResourceSliceObject) -> ResourceSlice:
    """Read a ResourceSlice; one that cannot be read has no devices, and a problem that names the field."""
    meta, spec = item.metadata or ObjectMeta(), item.spec or ResourceSliceSpec()
    pool = spec.pool or PoolObject()
    name, uid = meta.name or "", meta.uid or ""
    key = PoolKey(intern(spec.driver or ""), intern(pool.name or ""))
    try:
        read_name(spec.driver, "spec.driver")
        read_name(pool.name, "spec.pool.name")
        generation = counted(pool.generation, 0, "spec.pool.generation")
        slices = counted(pool.resource_slice_count, 0, "spec.pool.resourceSliceCount")
    except UnreadableError as error:
        return ResourceSlice(name, uid, key, problem=error.problem)
    per_device = bool(spec.per_device_node_selection)
    try:
        scope, devices, counter_sets = _read_content(spec, key.driver)
    except UnreadableError as error:
        return ResourceSlice(name, uid, key, generation, slices, per_device=per_device, problem=error.problem)
    return ResourceSlice(name, uid, key, generation, slices, scope, per_device, devices, counter_sets)


def _read_content(
    spec: ResourceSliceSpec, driver: str
) -> tuple[NodeScope | None, tuple[PoolDevice, ...], tuple[CounterSet, ...]]:
    """Return where all devices can be used, the devices and the counter sets; raise UnreadableError."""
    per_device = bool(spec.per_device_node_selection)
    scope = read_node_scope(spec, "spec")
    if scope is None and not per_device:
        raise UnreadableError("spec", "sets none of nodeName, nodeSelector, allNodes and perDeviceNodeSelection")
    devices = tuple(
        _read_device(device, driver, per_device, f"spec.devices[{index}]")
        for index, device in enumerate(spec.devices or ())
    )
    counter_sets = tuple(
        _read_counter_set(each, f"spec.sharedCounters[{index}]")
        for index, each in enumerate(spec.shared_counters or ())
    )
    return scope, devices, counter_sets


def _read_device(device: SliceDeviceObject, driver: str, per_device: bool, field: str) -> PoolDevice:  # noqa: FBT001 - of the slice
    uses = device.consumes_counters or ()
    for index, use in enumerate(uses):
        if use.compatibility_groups:
            # kube-scheduler leaves such a slice out, too, while the feature gate is off.
            place = f"{field}.consumesCounters[{index}].compatibilityGroups"
            raise UnreadableError(place, "are not supported (alpha in Kubernetes 1.37)")
    scope = None
    if per_device:
        scope = read_node_scope(device, field) or _NOWHERE
    return PoolDevice(
        name=intern(read_name(device.name, f"{field}.name")),
        attributes=_read_attributes(device.attributes or {}, driver, f"{field}.attributes"),
        capacity=_read_capacity(device.capacity, f"{field}.capacity"),
        counters=_read_uses(uses, f"{field}.consumesCounters"),
        taints=read_device_taints(device.taints) if device.taints else (),
        scope=scope,
        shared=bool(device.allow_multiple_allocations),
        binds_to_node=bool(device.binds_to_node),
        conditions=tuple(device.binding_conditions or ()),
        failure_conditions=tuple(device.binding_failure_conditions or ()),
    )


def qualified(name: str, driver: str) -> str:
    """Return the name of an attribute or capacity with a domain: that of the driver where it names none."""
    return name if "/" in name else f"{driver}/{name}"


def _read_attributes(attributes: Mapping[str, AttributeObject], driver: str, field: str) -> AttributeSet:
    """Read the attributes of a device; one named with the driver's domain goes before one without."""
    try:
        read = {name: _read_value(value) for name, value in attributes.items()}
    except _ValueError as error:
        name = next(name for name, value in attributes.items() if value is error.value)
        raise UnreadableError(f"{field}[{name}]{error.field}", error.message) from error
    names = _qualified_names(tuple(read), driver)
    if len(set(names)) != len(names):
        values = {qualified(name, driver): value for name, value in read.items() if "/" not in name}
        values |= {name: value for name, value in read.items() if "/" in name}
        return AttributeSet(key_places(tuple(values)), tuple(values.values()))
    return AttributeSet(key_places(names), tuple(read.values()))


@sized_cache(_NAMES_BYTES, lambda names, driver: 300 + 3 * size_of(names) + len(driver) * len(names))
def _qualified_names(names: tuple[str, ...], driver: str) -> tuple[str, ...]:
    return tuple(qualified(name, driver) for name in names)


class _ValueError(ValueError):
    """A value of an attribute that cannot be read: which it is, the field in it, and why."""

    def __init__(self, value: AttributeObject, message: str, field: str = "") -> None:
        self.value, self.message, self.field = value, message, field
        super().__init__(message)


def _read_value(value: AttributeObject) -> AttributeValue:
    """Read a value; raise _ValueError. Source: dynamic-resource-allocation/cel getAttributeValue, lists first."""
    if value.string is not None and value.strings is None:
        return intern(value.string)
    lists = (value.ints, value.bools, value.strings)
    found: list[int] | list[bool] | list[str] | None = next((each for each in lists if each is not None), None)
    if found is not None:
        return tuple(found)
    if value.versions is not None:
        return tuple(_read_version(each, value, ".versions") for each in value.versions)
    if value.integer is not None:
        return value.integer
    if value.boolean is not None:
        return value.boolean
    if value.version is not None:
        return _read_version(value.version, value, ".version")
    raise _ValueError(value, "has no value of a known type")


def _read_version(text: str, value: AttributeObject, field: str) -> DeviceVersion:
    version = _version(text)
    if version is None:
        raise _ValueError(value, f"{quoted(text)} is no semantic version", field)
    return version


@sized_cache(_NAMES_BYTES, lambda text: 200 + 2 * size_of(text))
def _version(text: str) -> DeviceVersion | None:
    return None if parse_semver(text) is None else DeviceVersion(text)


def _read_capacity(capacity: Mapping[str, CapacityObject] | None, field: str) -> CapacitySet:
    if not capacity:
        return _NO_CAPACITY
    read = ((name, _read_one_capacity(each, f"{field}[{name}]")) for name, each in sorted(capacity.items()))
    return _shared_capacity(CapacitySet(tuple(read)))


def _read_one_capacity(capacity: CapacityObject, field: str) -> DeviceCapacity:
    value = read_amount(capacity.value, f"{field}.value")
    policy = capacity.request_policy
    if policy is None:
        return DeviceCapacity(value)
    place = f"{field}.requestPolicy"
    step = None if policy.valid_range is None else policy.valid_range.step
    if step is not None and read_amount(step, f"{place}.validRange.step") <= 0:
        raise UnreadableError(f"{place}.validRange.step", f"{step} is not positive")
    ranged = policy.valid_range
    bounds = ranged or ValidRangeObject()
    return DeviceCapacity(
        value,
        CapacityPolicy(
            default=_read_optional(policy.default, f"{place}.default"),
            values=tuple(read_amount(each, f"{place}.validValues") for each in policy.valid_values or ()),
            ranged=ranged is not None,
            lowest=_read_optional(bounds.min, f"{place}.validRange.min"),
            highest=_read_optional(bounds.max, f"{place}.validRange.max"),
            step=_read_optional(bounds.step, f"{place}.validRange.step"),
        ),
    )


def _read_optional(quantity: QuantityText | None, field: str) -> Amount | None:
    return None if quantity is None else read_amount(quantity, field)


def _read_uses(uses: list[CounterUseObject] | tuple[()], field: str) -> CounterUses:
    if not uses:
        return _NO_USES
    return _shared_uses(
        CounterUses(
            tuple(
                CounterUse(
                    read_name(use.counter_set, f"{field}[{index}].counterSet"),
                    _read_counters(use.counters, f"{field}[{index}].counters"),
                )
                for index, use in enumerate(uses)
            )
        )
    )


def _read_counter_set(item: CounterSetObject, field: str) -> CounterSet:
    return CounterSet(read_name(item.name, f"{field}.name"), _read_counters(item.counters, f"{field}.counters"))


def _read_counters(counters: Mapping[str, CounterObject] | None, field: str) -> tuple[tuple[str, Amount], ...]:
    return tuple(
        (name, read_amount(counter.value, f"{field}[{name}].value"))
        for name, counter in sorted((counters or {}).items())
    )
