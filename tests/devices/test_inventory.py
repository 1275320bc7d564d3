"""Pools are put together from slices as kube-scheduler does it, and known by node."""

from __future__ import annotations

from extender.devices.inventory import Inventory
from extender.objects.deviceclass import DeviceClass
from extender.objects.devicetaintrule import DeviceTaintRule
from extender.objects.dradevices import PoolKey
from extender.objects.podspec import Taint
from tests.builders import Json
from tests.devices.model import inventory_of, slice_of
from tests.objects.dra import NVIDIA, device_json, slice_json

RACK_A = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]}


def names(inventory: Inventory, node: str = "node-1", **labels: str) -> list[str]:
    """Return the devices that a node can use, in the order in which they are tried."""
    return [
        each.device.name
        for pool in inventory.pools_of(node, labels)
        for each in pool.candidates
        if pool.usable and each.reachable
    ]


def state(inventory: Inventory, node: str = "node-1") -> list[str]:
    """Return what each pool is to a node."""
    return ["incomplete" if each.incomplete else each.invalid or "usable" for each in inventory.pools_of(node, {})]


def counter_sets(*names: str) -> list[Json]:
    """Return counter sets with memory."""
    return [{"name": name, "counters": {"memory": {"value": "80Gi"}}} for name in names]


def uses(counter_set: str, counter: str = "memory") -> Json:
    """Return a device that takes a counter."""
    return device_json(consumesCounters=[{"counterSet": counter_set, "counters": {counter: {"value": "1"}}}])


def test_devices_come_in_order_of_pools_then_slices_then_as_they_are_written() -> None:
    """Drivers decide by names which are given out first."""
    inventory = inventory_of(
        [
            slice_json("s2", device_json("c"), device_json("b"), pool="p1", slices=2),
            slice_json("s1", device_json("d"), pool="p1", slices=2),
            slice_json("s3", device_json("a"), pool="p0"),
            slice_json("s0", device_json("e"), driver="a.example.com", pool="p9"),
        ]
    )
    assert names(inventory) == ["e", "a", "d", "c", "b"]


def test_pools_whose_devices_must_be_made_ready_come_last() -> None:
    """Others need no wait before a pod is bound."""
    waiting = device_json("a", bindingConditions=["ready"], bindingFailureConditions=["failed"])
    inventory = inventory_of([slice_json("s0", waiting, pool="p0"), slice_json("s1", device_json("b"), pool="p1")])
    assert names(inventory) == ["b", "a"]


def test_the_newest_generation_counts_once_it_is_complete() -> None:
    """Until then nothing of the pool is given out."""
    inventory = inventory_of([slice_json("old", device_json("a"), generation=1)])
    inventory.put_slice(slice_of(slice_json("new-0", device_json("b"), generation=2, slices=2)))
    assert state(inventory) == ["incomplete"]
    assert names(inventory) == []
    inventory.put_slice(slice_of(slice_json("new-1", device_json("c"), generation=2, slices=2)))
    assert names(inventory) == ["b", "c"]
    inventory.drop_slice("old")
    assert names(inventory) == ["b", "c"]


def test_a_generation_that_a_newer_one_replaces_elsewhere_is_no_pool() -> None:
    """The driver is at work on it, and has told of other nodes so far."""
    inventory = inventory_of(
        [
            slice_json("old", device_json("a"), pool="p", generation=1, slices=2),
            slice_json("new", device_json("b"), pool="p", generation=2, slices=2, node="node-2"),
        ]
    )
    assert state(inventory) == []


def test_a_pool_of_several_nodes_is_complete_with_the_slices_of_others() -> None:
    """Only those of the node are candidates."""
    inventory = inventory_of(
        [
            slice_json("s1", device_json("a"), pool="p", slices=2),
            slice_json("s2", device_json("b"), pool="p", slices=2, node="node-2"),
        ]
    )
    assert names(inventory) == ["a"]
    assert names(inventory, "node-2") == ["b"]
    assert names(inventory, "node-3") == []


def test_a_slice_that_cannot_be_read_leaves_its_pool_incomplete() -> None:
    """What it has is not known."""
    inventory = inventory_of(
        [
            slice_json("s1", device_json("a"), slices=2),
            slice_json("s2", device_json("b", attributes={"x": {}}), slices=2),
        ]
    )
    assert state(inventory) == ["incomplete"]


def test_invalid_pools_say_why() -> None:
    """Nothing of them is given out."""
    assert state(inventory_of([slice_json("s", device_json("a"), device_json("a"))])) == ["duplicate device name a"]
    assert state(inventory_of([slice_json("s", uses("x"))])) == ["counter set x not found"]
    sets = slice_json("sets", slices=2, sharedCounters=counter_sets("x"))
    assert state(inventory_of([sets, slice_json("s", uses("x", "cores"), slices=2)])) == [
        "counter cores not found in counter set x"
    ]
    twice = slice_json("sets", sharedCounters=counter_sets("x", "x"))
    assert state(inventory_of([twice])) == ["duplicate counter set name x"]


def test_slices_for_all_nodes_and_for_some_are_seen_there() -> None:
    """By the labels that nodes have."""
    inventory = inventory_of(
        [
            slice_json("all", device_json("a"), node="", pool="all", allNodes=True),
            slice_json("rack", device_json("b"), node="", pool="rack", nodeSelector=RACK_A),
        ]
    )
    assert names(inventory, "n", rack="a") == ["a", "b"]
    assert names(inventory, "n", rack="b") == ["a"]
    one, other = (inventory.pools_of(node, {"rack": "a"}) for node in ("n", "m"))
    assert all(left is right for left, right in zip(one, other, strict=True))


def test_each_device_may_say_itself_from_where_it_is_used() -> None:
    """One that is not used from here takes part in the pool all the same: it may have counters."""
    inventory = inventory_of(
        [
            slice_json(
                "s",
                device_json("a", nodeName="node-1"),
                device_json("b", nodeName="node-2"),
                device_json("c", allNodes=True),
                device_json("d", nodeSelector=RACK_A),
                device_json("e"),
                node="",
                pool="p",
                perDeviceNodeSelection=True,
            )
        ]
    )
    assert names(inventory) == ["a", "c"]
    assert names(inventory, rack="a") == ["a", "c", "d"]
    assert [each.device.name for each in inventory.pools_of("node-1", {})[0].candidates] == ["a", "b", "c", "d", "e"]


def test_it_is_told_which_nodes_a_slice_concerns() -> None:
    """Nodes by name where it names them, None for any."""
    inventory = Inventory()
    one = slice_of(slice_json("s1", device_json("a"), pool="p", slices=2))
    assert inventory.put_slice(one) == frozenset({"node-1"})
    assert inventory.put_slice(one) == frozenset()
    other = slice_of(slice_json("s2", device_json("b"), pool="p", slices=2, node="node-2"))
    assert inventory.put_slice(other) == frozenset({"node-1", "node-2"})
    assert inventory.drop_slice("s2") == frozenset({"node-1", "node-2"})
    assert inventory.drop_slice("s2") == frozenset()
    assert inventory.put_slice(slice_of(slice_json("all", device_json(), node="", pool="all", allNodes=True))) is None
    assert inventory.drop_slice("all") is None
    assert names(inventory) == []
    assert inventory.drop_slice("s1") == frozenset({"node-1"})
    assert state(inventory) == []
    assert inventory.slices == {}


def test_rules_taint_devices_until_they_are_gone() -> None:
    """Beside the taints that drivers publish."""
    inventory = inventory_of([slice_json("s", device_json("a", taints=[{"key": "x", "effect": "NoSchedule"}]))])
    rule = DeviceTaintRule("r", NVIDIA, taint=Taint("y", "", "NoExecute"))
    assert inventory.put_rule(rule)
    assert not inventory.put_rule(rule)
    assert inventory.put_rule(DeviceTaintRule("none", "other", taint=Taint("z", "", "NoExecute")))
    (candidate,) = inventory.pools_of("node-1", {})[0].candidates
    assert [taint.key for taint in candidate.device.taints] == ["x", "y"]
    assert inventory.drop_rule("r")
    assert not inventory.drop_rule("r")
    (candidate,) = inventory.pools_of("node-1", {})[0].candidates
    assert [taint.key for taint in candidate.device.taints] == ["x"]


def test_an_extended_resource_stands_for_the_newest_class_that_names_it() -> None:
    """Then for the first by name; each class has a resource of its own besides."""
    inventory = Inventory()
    assert inventory.put_class(DeviceClass("b", resource="nvidia.com/gpu", created="2026-01-01T00:00:00Z"))
    assert inventory.put_class(DeviceClass("a", resource="nvidia.com/gpu", created="2026-01-01T00:00:00Z"))
    assert not inventory.put_class(inventory.classes["a"])
    assert inventory.class_of_resource("nvidia.com/gpu") is inventory.classes["a"]
    inventory.put_class(DeviceClass("c", resource="nvidia.com/gpu", created="2026-01-02T00:00:00Z"))
    assert inventory.class_of_resource("nvidia.com/gpu") is inventory.device_class("c")
    assert inventory.class_of_resource("deviceclass.resource.kubernetes.io/b") is inventory.classes["b"]
    assert inventory.drop_class("c")
    assert not inventory.drop_class("c")
    assert inventory.class_of_resource("nvidia.com/gpu") is inventory.classes["a"]
    assert inventory.class_of_resource("amd.com/gpu") is None


def test_a_node_that_is_gone_is_forgotten() -> None:
    """A new one of its name may have other labels."""
    inventory = inventory_of([slice_json("s", device_json("a"))])
    before = inventory.pools_of("node-1", {})
    assert inventory.pools_of("node-1", {}) is before
    inventory.forget_node("node-1")
    assert inventory.pools_of("node-1", {}) == before
    assert before[0].key == PoolKey(NVIDIA, "node-1")
