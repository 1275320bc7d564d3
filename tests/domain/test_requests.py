"""A pod's request is what kube-scheduler charges its node for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.requests import ResourceListError, count_gpus, effective_request, read_amounts
from extender.wire import codec
from extender.wire import kubernetes as wire
from tests.builders import GI, GPU, container_json, pod_json, written
from tests.wire.documents import load, survivors

CASES = load("domain/data/requests.json")
OVERFLOW = str(2**62)


def request_of(pod: Any) -> dict[str, int]:
    """Return the effective request of a pod given as JSON."""
    return effective_request(codec.decode_pod(written(pod)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_request_is_the_one_that_kube_scheduler_computes(case: dict[str, Any]) -> None:
    """Init containers, sidecars, overhead, pod-level resources and resizes count as in PodRequests."""
    assert request_of(case["pod"]) == case["request"] | {"pods": 1}


def test_a_pod_takes_one_of_pods() -> None:
    """A pod counts against its node's `pods`, whatever it says itself."""
    assert request_of({}) == {"pods": 1}
    assert request_of(pod_json(spec={"containers": [container_json(requests={"pods": "7"})]})) == {"pods": 1}


def test_a_request_is_in_the_units_of_the_model() -> None:
    """CPU is in thousandths, memory in bytes, GPUs are counted."""
    requests = {"cpu": "1.5", "memory": "2Gi", GPU: "8"}
    expected = {"cpu": 1500, "memory": 2 * GI, GPU: 8, "pods": 1}
    assert request_of(pod_json(spec={"containers": [container_json(requests=requests)]})) == expected


@pytest.mark.parametrize(
    ("field", "pod"),
    [
        (
            "spec.containers[1].resources.requests.cpu",
            {"spec": {"containers": [{}, container_json(requests={"cpu": "x"})]}},
        ),
        (
            "spec.initContainers[0].resources.requests.nvidia.com/gpu",
            {"spec": {"initContainers": [container_json(requests={GPU: "-1"})]}},
        ),
        ("spec.overhead.memory", {"spec": {"overhead": {"memory": "1 Gi"}}}),
        ("spec.resources.requests.cpu", {"spec": {"resources": {"requests": {"cpu": ""}}}}),
        (
            "status.containerStatuses[main].allocatedResources.cpu",
            pod_json(status={"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "x"}}]}),
        ),
        (
            "status.containerStatuses[main].resources.requests.cpu",
            pod_json(status={"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "x"}}}]}),
        ),
        (
            "status.allocatedResources.cpu",
            {"status": {"allocatedResources": {"cpu": "x"}, "resources": {"requests": {}}}},
        ),
        (
            "status.resources.requests.cpu",
            {"status": {"allocatedResources": {}, "resources": {"requests": {"cpu": "x"}}}},
        ),
    ],
)
def test_a_bad_quantity_is_named_with_its_place(field: str, pod: Any) -> None:
    """An error carries the path of the quantity that cannot be read, and says what is wrong with it."""
    with pytest.raises(ResourceListError) as caught:
        request_of(pod)
    assert caught.value.problem.field == field
    assert str(caught.value) == f"{field}: {caught.value.problem.message}"


def test_requests_may_not_add_up_beyond_int64() -> None:
    """Containers that each ask for a possible amount cannot together ask for an impossible one."""
    containers = [container_json(name, {"memory": OVERFLOW}) for name in "ab"]
    with pytest.raises(ResourceListError, match=r"^spec: the sum of requests for memory: .* exceeds 2\^63 - 1$"):
        request_of({"spec": {"containers": containers}})


def test_a_resource_list_becomes_amounts() -> None:
    """Each quantity is read in its resource's unit; nothing is no resources."""
    assert read_amounts({"cpu": "500m", "memory": 1024, GPU: "8"}, "x") == {"cpu": 500, "memory": 1024, GPU: 8}
    assert read_amounts(None, "x") == {}


def test_a_bad_resource_list_is_named_with_its_place() -> None:
    """The error names field and resource."""
    with pytest.raises(ResourceListError, match=r"^status\.allocatable\.cpu: 'many' is not a quantity"):
        read_amounts({"cpu": "many"}, "status.allocatable")


@given(pod=st.sampled_from([case["pod"] for case in CASES]).flatmap(lambda pod: survivors(codec.decode_pod, pod)))
def test_any_pod_has_a_request_or_an_error(pod: wire.Pod) -> None:
    """No pod that can be decoded asks for anything but positive int64 amounts, or raises but a ResourceListError."""
    try:
        request = effective_request(pod)
    except ResourceListError:
        request = {"pods": 1}
    assert request["pods"] == 1
    assert all(0 < value < 2**63 for value in request.values())


@pytest.mark.parametrize(
    ("amounts", "count"),
    [
        ([("nvidia.com/gpu", 8), ("cpu", 1000)], 8),
        ([("amd.com/gpu", 4), ("nvidia.com/gpu", 1)], 5),
        ([("nvidia.com/gpu.shared", 3), ("cpu", 1), ("gpu", 2)], 0),
        ([], 0),
    ],
)
def test_every_make_of_gpu_counts(amounts: list[tuple[str, int]], count: int) -> None:
    """A GPU is whatever resource's name ends with `/gpu`."""
    assert count_gpus(amounts) == count
