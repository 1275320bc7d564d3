"""A pod's request is what kube-scheduler charges its node for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.podspec import PodObject, decode_pod
from extender.objects.requests import (
    MOST_AMOUNT,
    MOST_GPUS,
    ResourceListError,
    count_gpus,
    effective_request,
    excess,
    most_of,
    read_amounts,
    read_containers,
)
from tests.builders import GI, GPU, container_json, pod_json, written
from tests.objects.documents import load, survivors

CASES = load("objects/data/requests.json")
OVERFLOW = str(2**62)


def request_of(pod: Any) -> dict[str, int]:
    """Return the effective request of a pod given as JSON."""
    return effective_request(decode_pod(written(pod)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_request_is_the_one_that_kube_scheduler_computes(case: dict[str, Any]) -> None:
    """Init containers, sidecars, overhead, pod-level resources and resizes count as in PodRequests, up to a bound."""
    expected = {resource: min(value, most_of(resource)) for resource, value in case["request"].items()}
    assert request_of(case["pod"]) == expected | {"pods": 1}


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


@pytest.mark.parametrize(
    ("quantity", "resource", "counted"),
    [
        ("200000000", GPU, MOST_GPUS),
        ("9223372036854775807", GPU, MOST_GPUS),
        ("1e999", "cpu", MOST_AMOUNT),
        (OVERFLOW, "memory", MOST_AMOUNT),
        ("128Ti", "memory", MOST_AMOUNT),
    ],
)
def test_what_no_node_has_is_cut_and_named(quantity: str, resource: str, counted: int) -> None:
    """A request beyond what any node has counts as so much, whatever else is asked for; the field is named."""
    containers = [container_json(requests={resource: "1"}), container_json("b", {resource: quantity})]
    pod = decode_pod(written({"spec": {"containers": containers}}))
    request = effective_request(pod)
    assert request[resource] == counted
    problem = excess(pod, request)
    assert problem is not None
    assert problem.field == f"spec.containers[1].resources.requests.{resource}"
    assert quantity in problem.message
    assert read_containers(pod)[1].requests == ((resource, counted),)


def test_requests_that_add_up_to_what_no_node_has_are_cut() -> None:
    """Containers that each ask for a possible amount cannot together ask for an impossible one."""
    pod = decode_pod(written({"spec": {"containers": [container_json(name, {"memory": "100Ti"}) for name in "ab"]}}))
    request = effective_request(pod)
    assert request["memory"] == MOST_AMOUNT
    assert excess(pod, request) is not None


def test_what_a_node_may_have_is_no_excess() -> None:
    """The largest nodes that there are have far less than the bounds."""
    pod = decode_pod(written({"spec": {"containers": [container_json(requests={GPU: "16", "memory": "64Ti"})]}}))
    assert excess(pod, effective_request(pod)) is None


def test_a_resource_list_becomes_amounts() -> None:
    """Each quantity is read in its resource's unit; nothing is no resources."""
    assert read_amounts({"cpu": "500m", "memory": 1024, GPU: "8"}, "x") == {"cpu": 500, "memory": 1024, GPU: 8}
    assert read_amounts(None, "x") == {}


def test_a_bad_resource_list_is_named_with_its_place() -> None:
    """The error names field and resource."""
    with pytest.raises(ResourceListError, match=r"^status\.allocatable\.cpu: 'many' is not a quantity"):
        read_amounts({"cpu": "many"}, "status.allocatable")


@given(pod=st.sampled_from([case["pod"] for case in CASES]).flatmap(lambda pod: survivors(decode_pod, pod)))
def test_any_pod_has_a_request_or_an_error(pod: PodObject) -> None:
    """No pod that can be decoded asks for anything but positive int64 amounts, or raises but a ResourceListError."""
    try:
        request = effective_request(pod)
    except ResourceListError:
        request = {"pods": 1}
    assert request["pods"] == 1
    assert all(0 < value <= MOST_AMOUNT for value in request.values())


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
