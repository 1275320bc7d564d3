"""Where devices are counted, counting says what the allocator says."""

from __future__ import annotations

import pytest

from extender.devices.allocator import DeviceRefusal, allocate
from extender.devices.counting import DeviceQuery, QueryCounts, count_devices, plain_queries
from extender.devices.inuse import DevicesInUse
from extender.objects.dradevices import DeviceKey
from extender.objects.resourceclaim import ClaimAllocation, GivenDevice
from tests.builders import Json
from tests.devices.model import SELECTORS, asked, inventory_of, view_of
from tests.devices.oracle import allocation_question
from tests.devices.worlds import NODE, DraWorld
from tests.objects.dra import NVIDIA, claim_json, class_json, device_json, option_json, request_json, slice_json

CLASSES = [class_json(NVIDIA, "true"), class_json("bad")]
CLASSES[1]["spec"]["selectors"] = [{}]
GPU = DeviceQuery(NVIDIA, ("true",))


def queries(*requests: Json, constraints: list[Json] | None = None) -> object:
    """Return what a claim asks for as counts."""
    claims = asked([claim_json("c", *requests, constraints=constraints)])
    return plain_queries([each.spec for each in claims], inventory_of([], CLASSES).classes)


def test_requests_for_the_same_are_added_up() -> None:
    """Selectors of class and request together say what is asked for, each once."""
    assert queries(request_json("a", count=2), request_json("b", NVIDIA, "true")) == {GPU: 3}
    assert queries(request_json("a", NVIDIA, "false")) == {DeviceQuery(NVIDIA, ("true", "false")): 1}
    assert queries(request_json("a", count=0)) == {}
    assert queries() == {}


@pytest.mark.parametrize(
    "request_",
    [
        {"name": "a", "firstAvailable": [option_json("x")]},
        {"name": "a"},
        request_json("a", allocationMode="All", count=0),
        request_json("a", adminAccess=True),
        request_json("a", capacity={"requests": {"memory": "1"}}),
        request_json("a", "unknown"),
        request_json("a", "bad"),
        request_json("a", count=33),
    ],
)
def test_what_cannot_be_counted_is_left_to_the_allocator(request_: Json) -> None:
    """Constraints as well."""
    assert queries(request_) is None
    assert queries(request_json("a"), constraints=[{"matchAttribute": "x/y"}]) is None


def give(*names: str) -> ClaimAllocation:
    """Return an allocation of GPUs of node-1."""
    return ClaimAllocation(tuple(GivenDevice("r", DeviceKey(NVIDIA, "node-1", name)) for name in names))


def test_columns_follow_slices_and_claims() -> None:
    """A row for each node; who takes a device takes one of them."""
    healthy = [device_json(f"gpu-{n}") for n in range(3)]
    tainted = device_json("gpu-3", taints=[{"key": "x", "effect": "NoSchedule"}])
    inventory = inventory_of(
        [slice_json("s1", *healthy, tainted), slice_json("s2", healthy[0], node="node-2")], CLASSES
    )
    counts, in_use = QueryCounts(SELECTORS), DevicesInUse()
    counts.put_node("node-1", 1, inventory.pools_of("node-1", {}), in_use)
    counts.ask(GPU, in_use)
    counts.ask(GPU, in_use)
    counts.put_node("node-2", 5, inventory.pools_of("node-2", {}), in_use)
    assert counts.queries == (GPU,)
    assert counts.free(GPU)[:6].tolist() == [0, 3, 0, 0, 0, 1]
    count = counts.count(GPU, "node-1")
    assert (count.matching, len(count.usable), count.exact) == (4, 3, True)
    in_use.take(give("gpu-0", "gpu-3"))
    counts.recount("node-1", in_use)
    counts.recount("node-9", in_use)
    assert counts.free(GPU)[1] == 2
    in_use.give_back(give("gpu-0", "gpu-3"))
    counts.recount("node-1", in_use)
    assert counts.free(GPU)[1] == 3
    counts.drop_node("node-1")
    counts.drop_node("node-1")
    assert counts.free(GPU)[:6].tolist() == [0, 0, 0, 0, 0, 1]
    assert counts.count(GPU, "node-1").matching == 0
    counts.drop(GPU)
    assert not counts.queries


def test_devices_that_are_not_alone_are_not_counted() -> None:
    """Parts, shares, devices of several nodes, and those of which nothing can be told."""
    sets = [{"name": "gpu", "counters": {"memory": {"value": "4"}}}]
    part = device_json(consumesCounters=[{"counterSet": "gpu", "counters": {"memory": {"value": "2"}}}])
    cases = [
        [slice_json("s", device_json(allowMultipleAllocations=True))],
        [slice_json("s", device_json(), node="", allNodes=True)],
        [slice_json("s", part, slices=2), slice_json("t", slices=2, sharedCounters=sets)],
    ]
    for slices in cases:
        pools = inventory_of(slices).pools_of("node-1", {})
        found = count_devices(GPU, pools, SELECTORS)
        assert (found.matching, found.exact) == (1, False)
    pools = inventory_of([slice_json("s", device_json())]).pools_of("node-1", {})
    assert not count_devices(DeviceQuery("x", ("device.attributes['a'].b",)), pools, SELECTORS).exact
    unready = inventory_of([slice_json("s", device_json(), slices=2)]).pools_of("node-1", {})
    assert count_devices(GPU, unready, SELECTORS).exact


def test_inexact_nodes_are_told() -> None:
    """Until they are exact again."""
    counts, in_use = QueryCounts(SELECTORS), DevicesInUse()
    counts.ask(GPU, in_use)
    shared = inventory_of([slice_json("s", device_json(allowMultipleAllocations=True))])
    counts.put_node("node-1", 0, shared.pools_of("node-1", {}), in_use)
    assert counts.inexact(GPU) == {"node-1"}
    counts.put_node("node-1", 0, inventory_of([slice_json("s", device_json())]).pools_of("node-1", {}), in_use)
    assert counts.inexact(GPU) == frozenset()


@pytest.mark.parametrize("first", range(0, 1200, 300))
def test_counting_says_what_the_allocator_says(first: int) -> None:
    """In each random cluster where it says anything: as many as are free, and no more."""
    decided = 0
    for seed in range(first, first + 300):
        world = DraWorld(seed)
        question = allocation_question(
            node=NODE, slices=world.slices, classes=world.classes, allocated=world.allocated, claims=world.claims
        )
        view, claims = view_of(question), asked(world.claims)
        wanted = plain_queries([each.spec for each in claims], view.classes)
        if wanted is None:
            continue
        counts = QueryCounts(SELECTORS)
        counts.put_node("node-1", 0, view.pools, view.in_use)
        for query in wanted:
            counts.ask(query, view.in_use)
        if any(counts.inexact(query) for query in wanted) or not counts.disjoint(wanted, "node-1"):
            continue
        decided += 1
        enough = all(counts.free(query)[0] >= count for query, count in wanted.items())
        assert enough is not isinstance(allocate(claims, view), DeviceRefusal), f"world {seed}"
    assert decided > 10
