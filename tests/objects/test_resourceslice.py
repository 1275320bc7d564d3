"""ResourceSlices, DeviceClasses and DeviceTaintRules are read whole, or with a problem that names the field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from extender.objects.deviceclass import DeviceClass, decode_device_class, read_device_class
from extender.objects.devicetaintrule import DeviceTaintRule, decode_device_taint_rule, read_device_taint_rule
from extender.objects.dradevices import Amount, DeviceKey, NodeScope, PoolKey
from extender.objects.meta import Requirement, SelectorTerm
from extender.objects.podspec import Taint
from extender.objects.resourceslice import (
    AttributeSet,
    CapacityPolicy,
    CounterSet,
    CounterUse,
    DeviceCapacity,
    DeviceVersion,
    ResourceSlice,
    ResourceSliceObject,
    decode_resource_slice,
    read_resource_slice,
)
from tests.builders import Json, written
from tests.objects.documents import survivors
from tests.objects.dra import FULL_CLASS, FULL_RULE, FULL_SLICE, NVIDIA, class_json, device_json, slice_json

GI = 2**30 * 10**9
ONE, EIGHTY = Amount(GI), Amount(80 * GI)


def whole(number: int) -> Amount:
    """Return so many whole units."""
    return Amount(number * 10**9)


def read(document: Json) -> ResourceSlice:
    """Read a ResourceSlice."""
    return read_resource_slice(decode_resource_slice(written(document)))


def test_a_slice_is_read_whole() -> None:
    """Pool, devices with all that they have, and counters are taken over; names without a domain get the driver's."""
    found = read(FULL_SLICE)
    assert (found.name, found.pool, found.generation, found.slice_count) == ("slice-0", PoolKey(NVIDIA, "pool"), 1, 1)
    assert found.per_device
    assert found.counter_sets == (CounterSet("gpu-0", (("memory", Amount(80 * GI)),)),)
    (device,) = found.devices
    assert dict(device.attributes) == {
        "gpu.nvidia.com/index": 0,
        "gpu.nvidia.com/healthy": True,
        "gpu.nvidia.com/productName": "NVIDIA H100",
        "gpu.nvidia.com/driverVersion": DeviceVersion("570.86.15"),
        "resource.kubernetes.io/pcieRoot": "pci0000:00",
        "lists.example.com/a": (1,),
        "lists.example.com/b": (True,),
        "lists.example.com/c": ("x",),
        "lists.example.com/d": (DeviceVersion("1.0.0"),),
    }
    assert dict(device.capacity.items) == {
        "memory": DeviceCapacity(
            EIGHTY, CapacityPolicy(default=ONE, ranged=True, lowest=ONE, highest=EIGHTY, step=ONE)
        ),
        "cores": DeviceCapacity(whole(100), CapacityPolicy(whole(25), (whole(25), whole(50), whole(100)))),
    }
    assert device.counters.uses == (CounterUse("gpu-0", (("memory", Amount(80 * GI)),)),)
    assert device.scope == NodeScope(terms=(SelectorTerm((Requirement("rack", "In", ("a",)),)),))
    assert device.taints == (Taint("unhealthy", "xid", "NoSchedule"),)
    assert device.shared
    assert device.binds_to_node
    assert (device.conditions, device.failure_conditions) == (("ready",), ("failed",))


def test_devices_that_are_alike_share_what_they_have_in_common() -> None:
    """A board in every node costs its names, capacities and texts once."""
    attributes = {"model": {"string": "h100"}, "driver": {"version": "1.2.3"}}
    capacity = {"memory": {"value": "80Gi"}}
    one, two = (
        read(slice_json(name, device_json(attributes=attributes, capacity=capacity))).devices[0] for name in ("a", "b")
    )
    assert one.capacity is two.capacity
    assert one.attributes["gpu.nvidia.com/driver"] is two.attributes["gpu.nvidia.com/driver"]
    assert one.attributes == two.attributes
    assert hash(one.attributes) == hash(two.attributes)


def test_a_flag_is_not_the_number_one() -> None:
    """Attributes are the same only if their types are, though Python takes True for 1."""
    places = {"x/a": 0}
    assert AttributeSet(places, (True,)) != AttributeSet(places, (1,))
    assert AttributeSet(places, ((True,),)) != AttributeSet(places, ((1,),))
    assert AttributeSet(places, (1,)) == AttributeSet(dict(places), (1,))


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"driver": None}, "spec.driver: is missing"),
        ({"pool": None}, "spec.pool.name: is missing"),
        ({"pool": {"name": "p", "generation": -1}}, "spec.pool.generation: -1 is negative"),
        (
            {"nodeName": None},
            "spec: sets none of nodeName, nodeSelector, allNodes and perDeviceNodeSelection",
        ),
        (
            {"nodeName": "", "nodeSelector": {"nodeSelectorTerms": []}},
            "spec.nodeSelector: has 0 terms instead of one",
        ),
        (
            {"nodeName": "", "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"operator": "Is"}]}]}},
            "spec.nodeSelector: has a requirement that cannot be used",
        ),
        ({"devices": [{"name": ""}]}, "spec.devices[0].name: is missing"),
        (
            {"devices": [device_json(attributes={"a": {}})]},
            "spec.devices[0].attributes[a]: has no value of a known type",
        ),
        (
            {"devices": [device_json(attributes={"a": {"version": "1.2"}})]},
            "spec.devices[0].attributes[a].version: '1.2' is no semantic version",
        ),
        (
            {"devices": [device_json(capacity={"memory": {"value": "much"}})]},
            "spec.devices[0].capacity[memory].value: 'much' is not a quantity (examples: 8, 500m, 64Gi)",
        ),
        (
            {"devices": [device_json(consumesCounters=[{"counterSet": "a", "compatibilityGroups": ["x"]}])]},
            "spec.devices[0].consumesCounters[0].compatibilityGroups: are not supported (alpha in Kubernetes 1.37)",
        ),
        ({"sharedCounters": [{"counters": {}}]}, "spec.sharedCounters[0].name: is missing"),
        (
            {"sharedCounters": [{"name": "a", "counters": {"x": {}}}]},
            "spec.sharedCounters[0].counters[x].value: is missing",
        ),
    ],
)
def test_a_slice_that_cannot_be_read_says_why(spec: dict[str, Any], problem: str) -> None:
    """It has no devices, and the field is named."""
    document = slice_json("slice-0", device_json())
    document["spec"] |= spec
    found = read(document)
    assert str(found.problem) == problem
    assert found.devices == ()


def test_quantities_with_a_binary_suffix_end_at_eight_exbibytes() -> None:
    """Kubernetes caps them there, and compares what is left."""
    found = read(slice_json("s", device_json(capacity={"a": {"value": "9Ei"}, "b": {"value": "9E"}})))
    assert dict(found.devices[0].capacity.items) == {
        "a": DeviceCapacity(whole(2**63 - 1)),
        "b": DeviceCapacity(whole(9 * 10**18)),
    }


@given(survivors(decode_resource_slice, FULL_SLICE))
def test_no_slice_breaks_the_reader(item: ResourceSliceObject) -> None:
    """Whatever can be decoded is read, with a problem if need be."""
    found = read_resource_slice(item)
    assert found.problem is None or not found.devices


def test_a_scope_is_a_name_or_all_or_a_selector() -> None:
    """In that order; with none of them it is nowhere."""
    term = SelectorTerm((Requirement("rack", "In", ("a",)),))
    assert NodeScope("n").matches("n", {})
    assert not NodeScope("n", everywhere=True).matches("m", {})
    assert NodeScope(everywhere=True).matches("m", {})
    assert NodeScope(terms=(term,)).matches("m", {"rack": "a"})
    assert not NodeScope(terms=(term,)).matches("m", {"rack": "b"})
    assert not NodeScope().matches("n", {})


def test_a_class_is_read_whole() -> None:
    """Its selectors, and the extended resources that stand for it."""
    found = read_device_class(decode_device_class(written(FULL_CLASS)))
    assert found == DeviceClass(NVIDIA, ("device.driver == 'gpu.nvidia.com'",), "nvidia.com/gpu", found.created)
    assert found.resources == ("nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com")
    assert DeviceClass("a").resources == ("deviceclass.resource.kubernetes.io/a",)


def test_a_class_with_an_unknown_selector_has_a_problem() -> None:
    """A later Kubernetes may know other selectors than CEL."""
    document = class_json("a")
    document["spec"]["selectors"] = [{"cel": {"expression": "true"}}, {}]
    found = read_device_class(decode_device_class(written(document)))
    assert found.selectors == ()
    assert str(found.problem) == "spec.selectors[1].cel: is missing: no other kind of selector is known"


def test_a_rule_taints_the_devices_that_it_selects() -> None:
    """What its selector does not name stands for all."""
    rule = read_device_taint_rule(decode_device_taint_rule(written(FULL_RULE)))
    taint = Taint("maintenance", "tonight", "NoSchedule")
    assert rule == DeviceTaintRule("rule", NVIDIA, "node-1", "gpu-0", taint)
    assert rule.covers(DeviceKey(NVIDIA, "node-1", "gpu-0"))
    assert not rule.covers(DeviceKey(NVIDIA, "node-1", "gpu-1"))
    assert DeviceTaintRule("all").covers(DeviceKey("a", "b", "c"))


def test_a_rule_without_effect_keeps_nothing_back() -> None:
    """The effect None tells people something, no more."""
    document = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "a", "effect": "None"}}}
    assert read_device_taint_rule(decode_device_taint_rule(written(document))).taint is None
    assert read_device_taint_rule(decode_device_taint_rule(b"{}")) == DeviceTaintRule("")
