"""What claims get, and why they get nothing; that both are kube-scheduler's is up to the oracle."""

from __future__ import annotations

from typing import Any

import pytest

from extender.devices.allocator import DeviceCause, DeviceRefusal, DeviceTally, allocate
from extender.objects.resourceclaim import ClaimAllocation
from tests.builders import Json, metadata_json
from tests.devices.model import answer_of, asked, view_of
from tests.devices.oracle import allocation_question
from tests.objects.dra import NVIDIA, claim_json, class_json, device_json, option_json, request_json, slice_json

NODE: Json = {"metadata": metadata_json("node-1", labels={"rack": "a"})}
CLASSES = [class_json(NVIDIA, f"device.driver == '{NVIDIA}'"), class_json("other", "device.driver == 'other'")]
GPUS = [device_json(f"gpu-{number}", capacity={"memory": {"value": "80Gi"}}) for number in range(4)]


def question(*claims: Json, slices: list[Json] | None = None, taken: tuple[str, ...] = ()) -> Json:
    """Return the question what claims get of four GPUs, or of `slices`; GPUs of the names in `taken` are in use."""
    results = [{"request": "gpu", "driver": NVIDIA, "pool": "node-1", "device": name} for name in taken]
    status = {"allocation": {"devices": {"results": results}}}
    return allocation_question(
        node=NODE,
        slices=[slice_json("s", *GPUS)] if slices is None else slices,
        classes=CLASSES,
        allocated=[claim_json("has", request_json(), status=status)] if taken else [],
        claims=claims,
    )


def got(*claims: Json, **more: Any) -> list[list[str]]:
    """Return the names of the devices that each claim gets."""
    answer = answer_of(question(*claims, **more))
    assert not isinstance(answer, DeviceRefusal), answer
    return [[given.device.device for given in each.devices] for each in answer]


def refused(*claims: Json, **more: Any) -> DeviceRefusal:
    """Return why claims get nothing."""
    answer = answer_of(question(*claims, **more))
    assert isinstance(answer, DeviceRefusal), answer
    return answer


def test_claims_of_one_pod_get_devices_of_their_own() -> None:
    """In the order of claims and requests, those in use left out."""
    first = claim_json("a", request_json("x", count=2), request_json("y"))
    assert got(first, claim_json("b", request_json()), slices=None) == [["gpu-0", "gpu-1", "gpu-2"], ["gpu-3"]]
    assert got(claim_json("b", request_json()), taken=("gpu-0", "gpu-2")) == [["gpu-1"]]
    assert got() == []


def test_what_is_given_back_is_found_for_others() -> None:
    """The search goes back where a constraint leaves no second device."""
    roots = ["a", "b", "b"]
    devices = [device_json(f"gpu-{n}", attributes={"x/root": {"string": each}}) for n, each in enumerate(roots)]
    claim = claim_json("a", request_json("p"), request_json("q"), constraints=[{"matchAttribute": "x/root"}])
    assert got(claim, slices=[slice_json("s", *devices)]) == [["gpu-1", "gpu-2"]]


def test_the_first_that_can_be_had_is_taken() -> None:
    """And it is said which that was."""
    request = {"name": "r", "firstAvailable": [option_json("many", count=5), option_json("few", count=3)]}
    answer = answer_of(question(claim_json("a", request)))
    assert not isinstance(answer, DeviceRefusal)
    assert [given.request for given in answer[0].devices] == ["r/few"] * 3


def test_administrators_get_devices_that_others_have() -> None:
    """Which stay with those."""
    request = request_json(allocationMode="All", count=0, adminAccess=True)
    assert got(claim_json("a", request), taken=("gpu-0",)) == [["gpu-0", "gpu-1", "gpu-2", "gpu-3"]]


def test_a_claim_can_be_used_from_where_its_devices_can() -> None:
    """From one node, those with its labels, or all."""
    local = slice_json("s", device_json("a"))
    everywhere = slice_json("s", device_json("a"), node="", allNodes=True)
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}
    rack = slice_json("s", device_json("a"), node="", nodeSelector={"nodeSelectorTerms": [term]})
    reach = []
    for piece in (local, everywhere, rack):
        answer = answer_of(question(claim_json("c", request_json()), slices=[piece]))
        assert not isinstance(answer, DeviceRefusal)
        (allocation,) = answer
        nodes = (("node-1", {"rack": "a"}), ("node-2", {"rack": "a"}), ("node-3", {"rack": "b"}))
        reach.append([allocation.reachable_from(name, labels) for name, labels in nodes])
    assert reach == [[True, False, False], [True, True, True], [True, True, False]]


def test_a_shared_device_is_given_out_in_parts() -> None:
    """Each takes what it asks for, rounded up to what the device allows."""
    policy = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    capacity = {"memory": {"value": "40Gi", "requestPolicy": policy}}
    piece = slice_json("s", device_json("a", capacity=capacity, allowMultipleAllocations=True))
    part = request_json(capacity={"requests": {"memory": "15Gi"}})
    answer = answer_of(question(claim_json("x", part), claim_json("y", part), slices=[piece]))
    assert not isinstance(answer, DeviceRefusal)
    assert [each.devices[0].consumed for each in answer] == [(("memory", 20 * 2**30 * 10**9),)] * 2
    third = refused(claim_json("x", part), claim_json("y", part), claim_json("z", part), slices=[piece])
    assert third.cause is DeviceCause.NOT_TOGETHER


def test_what_is_lacking_is_counted() -> None:
    """How many match, and what keeps the others away."""
    devices = [
        device_json("a"),
        device_json("b", taints=[{"key": "x", "effect": "NoSchedule"}]),
        device_json("c", attributes={"old": {"bool": True}}),
        device_json("d", consumesCounters=[{"counterSet": "gpu", "counters": {"memory": {"value": "2"}}}]),
        device_json("e", consumesCounters=[{"counterSet": "gpu", "counters": {"memory": {"value": "3"}}}]),
    ]
    sets = [{"name": "gpu", "counters": {"memory": {"value": "4"}}}]
    slices = [
        slice_json("s", *devices, slices=2),
        slice_json("sets", slices=2, sharedCounters=sets),
        slice_json("t", device_json("f"), pool="half", slices=2),
    ]
    newer = f"!('old' in device.attributes['{NVIDIA}'])"
    found = refused(claim_json("x", request_json("r", NVIDIA, newer, count=3)), slices=slices, taken=("a", "d"))
    tally = DeviceTally(wanted=3, matching=4, free=0, in_use=2, tainted=1, drained=1, unready=1)
    assert found == DeviceRefusal(DeviceCause.LACKING, "default/x", "r", "", tally)
    assert not found.everywhere
    assert str(found) == (
        "request r of default/x wants 3: 4 devices match, 0 free, 2 in use, 1 tainted, 1 without counters or capacity; "
        "1 pools are being updated or invalid"
    )


@pytest.mark.parametrize(
    ("claim", "cause", "detail"),
    [
        (claim_json("a", {"name": "r"}), DeviceCause.UNREADABLE, "spec.devices.requests[0]: has neither"),
        (claim_json("a", request_json("r", "no-class")), DeviceCause.UNKNOWN_CLASS, "no DeviceClass no-class"),
        (
            claim_json("a", request_json("r", NVIDIA, "device.attributes['x'].y == 1")),
            DeviceCause.SELECTOR_FAILED,
            "device gpu.nvidia.com/node-1/gpu-0: selector \"device.attributes['x'].y == 1\"",
        ),
        (claim_json("a", request_json(count=33)), DeviceCause.TOO_MANY, ""),
        (
            claim_json(
                "a", request_json(allocationMode="All", count=0), constraints=[{"matchAttribute": f"{NVIDIA}/x"}]
            ),
            DeviceCause.NEVER_ALL,
            "device gpu.nvidia.com/node-1/gpu-0",
        ),
    ],
)
def test_a_claim_at_fault_is_refused_everywhere(claim: Json, cause: DeviceCause, detail: str) -> None:
    """kube-scheduler looks at no other node then."""
    found = refused(claim)
    assert found.cause is cause
    assert found.claim == "default/a"
    assert found.detail.startswith(detail)
    assert "default/a: " in str(found)
    assert found.everywhere


def test_all_devices_of_a_pool_in_the_making_are_not_known() -> None:
    """As little as those of an invalid one."""
    everything = claim_json("a", request_json(allocationMode="All", count=0))
    found = refused(everything, slices=[slice_json("s", device_json("a"), slices=2)])
    assert (found.cause, found.detail) == (
        DeviceCause.POOL_UNFINISHED,
        "pool gpu.nvidia.com/node-1 is being updated",
    )
    found = refused(everything, slices=[slice_json("s", device_json("a"), device_json("a"))])
    assert found.detail == "pool gpu.nvidia.com/node-1 is invalid: duplicate device name a"


def test_a_selector_that_fails_is_no_cause_where_the_search_did_not_come_to_it() -> None:
    """What is lacking is told, and devices for which nothing can be told are none."""
    failing = request_json("b", NVIDIA, "device.attributes['x'].y == 1")
    found = refused(claim_json("a", request_json("a", count=9), failing))
    assert (found.cause, found.request) == (DeviceCause.LACKING, "a")


def test_an_amount_that_cannot_be_rounded_is_refused_everywhere() -> None:
    """No device could make sense of it."""
    policy = {"default": "1", "validRange": {"min": "1", "step": "2"}}
    device = device_json("a", capacity={"memory": {"value": "9E", "requestPolicy": policy}})
    request = request_json(capacity={"requests": {"memory": "9223372036854775807"}})
    request["exactly"]["capacity"]["requests"]["memory"] = "10E"
    found = refused(claim_json("a", request), slices=[slice_json("s", device)])
    assert found.cause is DeviceCause.AMOUNT_FAILED
    assert found.everywhere


def test_a_search_that_takes_too_long_gives_up() -> None:
    """And says so; nothing is known then."""
    devices = [device_json(f"gpu-{n:02}", attributes={"x/a": {"int": n}}) for n in range(30)]
    claim = claim_json("a", request_json("r", count=6), constraints=[{"matchAttribute": "x/a"}])
    never = claim_json("a", request_json("p", count=8), request_json("q", NVIDIA, "device.driver == 'x'"))
    assert refused(claim, slices=[slice_json("s", *devices)]).cause is DeviceCause.NOT_TOGETHER
    found = refused(never, slices=[slice_json("s", *devices)])
    assert found.cause is DeviceCause.SEARCH_GAVE_UP
    assert not found.everywhere


def test_a_pod_with_very_many_devices_is_not_searched_for() -> None:
    """The search would go too deep."""
    claims = [claim_json(f"c{number}", request_json(count=32)) for number in range(8)]
    assert refused(*claims).cause is DeviceCause.SEARCH_GAVE_UP


def test_a_search_leaves_no_trace() -> None:
    """The same question has the same answer."""
    put = question(claim_json("a", request_json(count=2)))
    view = view_of(put)
    first = allocate(asked(put["claims"]), view)
    assert allocate(asked(put["claims"]), view) == first
    assert isinstance(first[0], ClaimAllocation)  # type: ignore[index]  # not refused
