"""It is counted how many like pods a node has devices for, once for nodes that look alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.devices.allocator import DeviceCause, DeviceRefusal, DeviceView, allocate
from extender.devices.fitting import DeviceFits, fit_pods, is_counted
from extender.devices.inuse import DevicesInUse
from extender.objects.dradevices import DeviceKey
from extender.objects.resourceclaim import ClaimAllocation, GivenDevice
from tests.builders import Json
from tests.devices.model import SELECTORS, asked, inventory_of, view_of
from tests.devices.oracle import allocation_question
from tests.devices.worlds import NODE, DraWorld
from tests.objects.dra import NVIDIA, claim_json, class_json, device_json, option_json, request_json, slice_json

CLASSES = [class_json(NVIDIA, "true")]
PAIR = claim_json(
    "pair", request_json("a", count=2), constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]
)


def board(node: str, *roots: str, model: str = "h100") -> Json:
    """Return a slice with a GPU on each of some PCIe roots."""
    attributes = [
        {
            "uuid": {"string": f"{node}-{n}"},
            "model": {"string": model},
            "resource.kubernetes.io/pcieRoot": {"string": root},
        }
        for n, root in enumerate(roots)
    ]
    devices = (device_json(f"gpu-{n}", attributes=each) for n, each in enumerate(attributes))
    return slice_json(f"slice-{node}", *devices, node=node)


def view_on(node: str, *slices: Json, taken: tuple[str, ...] = ()) -> DeviceView:
    """Return what decides on a node, where some GPUs are in use."""
    inventory = inventory_of(slices, CLASSES)
    given = tuple(GivenDevice("r", DeviceKey(NVIDIA, node, name)) for name in taken)
    in_use = DevicesInUse([ClaimAllocation(given)])
    return DeviceView(node, inventory.pools_of(node, {}), in_use, inventory.classes, SELECTORS)


def test_pods_are_counted_until_one_gets_nothing() -> None:
    """Pairs of GPUs behind one root fit twice on a board of 2, 3 and 1: those left over are of different roots."""
    view = view_on("n", board("n", "a", "a", "b", "b", "b", "c"))
    found = DeviceFits().fit(asked([PAIR]), view, 4)
    assert (found.pods, found.certain) == (2, True)
    assert found.refusal is not None
    assert found.refusal.cause is DeviceCause.NOT_TOGETHER
    assert DeviceFits().fit(asked([PAIR]), view, 2).refusal is None
    assert view.in_use.devices == frozenset()


def test_nodes_that_look_alike_share_an_answer() -> None:
    """Names and what is not asked for may differ; what is in use may not."""
    fits, claims = DeviceFits(), asked([PAIR])
    first = fits.fit(claims, view_on("n", board("n", "a", "a", "b", "b")), 9)
    assert first.pods == 2
    assert fits.fit(claims, view_on("m", board("m", "a", "a", "b", "b", model="a100")), 9) is first
    assert fits.fit(claims, view_on("m", board("m", "a", "a", "b", "b"), taken=("gpu-1",)), 9).pods == 1
    assert fits.fit(claims, view_on("m", board("m", "a", "a", "b", "c")), 9).pods == 1
    assert fits.fit(claims, view_on("n", board("n", "a", "a", "b", "b")), 9) is first


def test_a_pod_without_requests_needs_no_devices() -> None:
    """As many fit as are asked about."""
    assert DeviceFits().fit([], view_on("n"), 7).pods == 7
    assert DeviceFits().fit(asked([claim_json("none")]), view_on("n"), 7).pods == 7


def test_counters_of_other_nodes_have_a_say() -> None:
    """Such nodes are looked at each by itself."""
    sets = [{"name": "gpu", "counters": {"memory": {"value": "3"}}}]
    use = {"consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "1"}}}]}
    slices = [
        slice_json("a", device_json("x", **use), device_json("y", **use), pool="p", slices=3, node="n"),
        slice_json("b", device_json("z", **use), device_json("w", **use), pool="p", slices=3, node="m"),
        slice_json("c", pool="p", slices=3, node="n", sharedCounters=sets),
    ]
    view = view_on("n", *slices)
    taken = DevicesInUse([ClaimAllocation(tuple(GivenDevice("r", DeviceKey(NVIDIA, "p", name)) for name in "zw"))])
    fits, claims = DeviceFits(), asked([claim_json("c", request_json())])
    assert fits.fit(claims, view, 9).pods == 2
    assert fits.fit(claims, replace(view, in_use=taken), 9).pods == 1


@pytest.mark.parametrize(
    ("request_", "counted"),
    [
        (request_json(count=3), True),
        (request_json("a", NVIDIA, "true", tolerations=[{"operator": "Exists"}]), True),
        (request_json(allocationMode="All", count=0), False),
        (request_json(adminAccess=True), False),
        (request_json(capacity={"requests": {"memory": "1"}}), False),
        ({"name": "a", "firstAvailable": [option_json("x")]}, False),
    ],
)
def test_plain_claims_can_be_counted(request_: Json, counted: bool) -> None:
    """The others are left to the allocator, and so is one with constraints."""
    (claim,) = asked([claim_json("c", request_)])
    assert is_counted(claim.spec) is counted
    (pair,) = asked([PAIR])
    assert not is_counted(pair.spec)


def test_an_answer_that_is_known_is_that_of_the_allocator() -> None:
    """In random clusters, with everything remembered that was asked before."""
    fits, several = DeviceFits(), 0
    for seed in range(400):
        world = DraWorld(seed)
        question = allocation_question(
            node=NODE, slices=world.slices, classes=world.classes, allocated=world.allocated, claims=world.claims
        )
        view, claims = view_of(question), asked(world.claims)
        found, plain = fits.fit(claims, view, 3), fit_pods(claims, view, 3)
        assert found.pods == plain.pods, f"world {seed}"
        assert (found.pods > 0) is not isinstance(allocate(claims, view), DeviceRefusal)
        several += found.pods > 1
    assert several > 10
