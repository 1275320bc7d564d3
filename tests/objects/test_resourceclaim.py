"""ResourceClaims, their templates and the claims of pods are read whole, or with a problem that names the field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from extender.objects.dradevices import Amount, DeviceKey
from extender.objects.meta import Requirement, SelectorTerm
from extender.objects.pod import read_pod
from extender.objects.podclaims import NO_CLAIMS, ContainerClaim, ExtendedRequest, PodClaim, PodClaims
from extender.objects.podspec import Toleration, decode_pod
from extender.objects.resourceclaim import (
    ClaimAllocation,
    ClaimConsumer,
    ClaimRequest,
    ClaimSpec,
    DeviceConstraint,
    DeviceRequest,
    GivenDevice,
    ResourceClaim,
    ResourceClaimObject,
    decode_resource_claim,
    decode_resource_claim_template,
    read_resource_claim,
    read_resource_claim_template,
)
from tests.builders import Json, pod_json, written
from tests.objects.documents import survivors
from tests.objects.dra import FULL_CLAIM, FULL_TEMPLATE, NVIDIA, claim_json, request_json

GI = 2**30 * 10**9
SPEC = ClaimSpec(
    (
        ClaimRequest(
            "gpu",
            (
                DeviceRequest(
                    "gpu",
                    NVIDIA,
                    ("true",),
                    admin=True,
                    tolerations=(Toleration("unhealthy", "Equal", "xid", "NoSchedule"),),
                    capacity=(("memory", Amount(10 * GI)),),
                ),
            ),
        ),
        ClaimRequest(
            "any",
            (DeviceRequest("any/big", NVIDIA, ("true",), count=2), DeviceRequest("any/all", NVIDIA, count=None)),
        ),
    ),
    (
        DeviceConstraint("resource.kubernetes.io/pcieRoot", frozenset({"gpu"})),
        DeviceConstraint("gpu.nvidia.com/index", distinct=True),
    ),
)


def read(document: Json) -> ResourceClaim:
    """Read a ResourceClaim."""
    return read_resource_claim(decode_resource_claim(written(document)))


def test_a_claim_is_read_whole() -> None:
    """What it asks for, what it was given, from where that can be used, and by whom."""
    node = SelectorTerm(fields=(Requirement("metadata.name", "In", ("node-1",)),))
    given_device = GivenDevice(
        "gpu", DeviceKey(NVIDIA, "node-1", "gpu-0"), admin=True, share="0c2b", consumed=(("memory", Amount(10 * GI)),)
    )
    found = read(FULL_CLAIM)
    assert found == ResourceClaim(
        "default",
        "claim",
        found.uid,
        SPEC,
        ClaimAllocation((given_device,), (node,)),
        (ClaimConsumer("", "pods", "worker-0", "u"),),
    )
    assert found.key == "default/claim"
    assert found.allocation is not None
    assert found.allocation.reachable_from("node-1", {})
    assert not found.allocation.reachable_from("node-2", {})
    assert ClaimAllocation().reachable_from("node-2", {})


def test_a_template_is_read_as_the_claims_made_from_it() -> None:
    """The same spec, under the name of the template."""
    found = read_resource_claim_template(decode_resource_claim_template(written(FULL_TEMPLATE)))
    assert (found.key, found.spec) == ("default/template", SPEC)


def test_a_claim_of_the_scheduler_for_extended_resources_says_so() -> None:
    """kube-scheduler marks it with an annotation, and it belongs to the pod."""
    document = claim_json("claim", request_json())
    document["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"uid": "of-pod", "controller": True}],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    found = read(document)
    assert found.extended
    assert found.deleting
    assert found.controller == "of-pod"


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"name": ""}, "spec.devices.requests[0].name: is missing"),
        (
            {"name": "a"},
            "spec.devices.requests[0]: has neither exactly nor firstAvailable: no other kind of request is known",
        ),
        (
            {"name": "a", "exactly": {}},
            "spec.devices.requests[0].exactly.deviceClassName: is missing",
        ),
        (
            {"name": "a", "exactly": {"deviceClassName": "c", "allocationMode": "Some"}},
            "spec.devices.requests[0].exactly.allocationMode: 'Some' is neither ExactCount nor All",
        ),
        (
            {"name": "a", "firstAvailable": [{"deviceClassName": "c"}]},
            "spec.devices.requests[0].firstAvailable[0].name: is missing",
        ),
        (
            request_json("a", "c", "true") | {"exactly": {"deviceClassName": "c", "selectors": [{"cel": {}}]}},
            "spec.devices.requests[0].exactly.selectors[0].cel.expression: is missing",
        ),
        (
            {"name": "a", "exactly": {"deviceClassName": "c", "derivedAttributes": [{"name": "n"}]}},
            "spec.devices.requests[0].exactly.derivedAttributes: are not supported (alpha in Kubernetes 1.37)",
        ),
        (
            request_json("a", "c", capacity={"requests": {"memory": "x"}}),
            (
                "spec.devices.requests[0].exactly.capacity.requests[memory]:"
                " 'x' is not a quantity (examples: 8, 500m, 64Gi)"
            ),
        ),
    ],
)
def test_a_request_that_cannot_be_read_says_why(request_: Json, problem: str) -> None:
    """Nothing is asked for then, and the field is named."""
    found = read(claim_json("claim", request_)).spec
    assert str(found.problem) == problem
    assert found.requests == ()


def test_an_unknown_constraint_is_a_problem() -> None:
    """A later Kubernetes may know others."""
    found = read(claim_json("claim", request_json(), constraints=[{}])).spec
    assert str(found.problem).startswith("spec.devices.constraints[0]: has neither matchAttribute nor")


def test_an_allocation_that_cannot_be_read_is_a_problem_of_the_claim() -> None:
    """What it asks for is known all the same."""
    status = {"allocation": {"devices": {"results": [{"driver": "d", "pool": "p"}]}}}
    found = read(claim_json("claim", request_json(), status=status))
    assert str(found.problem) == "status.allocation.devices.results[0].device: is missing"
    assert found.allocation is None
    assert found.spec.requests


def test_an_operator_that_devices_do_not_know_tolerates_nothing() -> None:
    """Nodes know Lt and Gt, devices do not."""
    request = request_json(tolerations=[{"key": "a", "operator": "Gt", "value": "1"}, {"operator": "Exists"}])
    (option,) = read(claim_json("claim", request)).spec.requests[0].options
    assert option.tolerations == (Toleration("", "Exists", "", ""),)


@given(survivors(decode_resource_claim, FULL_CLAIM))
def test_no_claim_breaks_the_reader(item: ResourceClaimObject) -> None:
    """Whatever can be decoded is read, with a problem if need be."""
    found = read_resource_claim(item)
    assert found.spec.problem is None or not found.spec.requests


def claims_of(spec: dict[str, Any], status: dict[str, Any] | None = None) -> PodClaims:
    """Return the claims of a pod."""
    document = pod_json("worker-0", spec=spec)
    document["status"] = document.get("status", {}) | (status or {})
    return read_pod(decode_pod(written(document))).claims


FROM_TEMPLATE = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "template"}]}


def test_a_pod_names_its_claims() -> None:
    """By name, or by a template from which one is to be made; containers say which they use."""
    found = claims_of(
        {
            "resourceClaims": [
                {"name": "channel", "resourceClaimName": "imex"},
                {"name": "gpus", "resourceClaimTemplateName": "template"},
            ],
            "containers": [{"name": "main", "resources": {"claims": [{"name": "gpus", "request": "gpu"}]}}],
        }
    )
    assert found == PodClaims(
        (PodClaim("channel", "imex"), PodClaim("gpus", template="template")),
        (ContainerClaim("main", "gpus", "gpu"),),
    )
    assert found.names == ("imex",)
    assert found.awaited == (PodClaim("gpus", template="template"),)


def test_the_status_names_the_claims_that_were_made() -> None:
    """One made from a template is known by its name from then on, and is awaited no more."""
    found = claims_of(FROM_TEMPLATE, {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "worker-0-x"}]})
    assert found.names == ("worker-0-x",)
    assert found.awaited == ()


def test_a_claim_that_is_not_needed_is_not_awaited() -> None:
    """The status may say that none is made for this pod."""
    found = claims_of(FROM_TEMPLATE, {"resourceClaimStatuses": [{"name": "gpus"}]})
    assert (found.names, found.awaited) == ((), ())


def test_the_claim_for_extended_resources_is_named_by_the_status() -> None:
    """kube-scheduler makes it, and says which request stands for which resource."""
    mapping = {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}
    found = claims_of({}, {"extendedResourceClaimStatus": {"resourceClaimName": "e", "requestMappings": [mapping]}})
    assert found.names == ("e",)
    assert found.mappings == (ExtendedRequest("main", "nvidia.com/gpu", "container-0-request-0"),)


def test_a_pod_without_claims_has_none() -> None:
    """As one object for all."""
    assert claims_of({}) is NO_CLAIMS


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        ({}, "spec.resourceClaims[0].name: is missing"),
        ({"name": "a"}, "spec.resourceClaims[0]: has neither resourceClaimName nor resourceClaimTemplateName"),
    ],
)
def test_a_claim_that_names_nothing_is_a_problem_of_the_pod(claim: Json, problem: str) -> None:
    """A later Kubernetes may know other kinds."""
    pod = read_pod(decode_pod(written(pod_json(spec={"resourceClaims": [claim]}))))
    assert str(pod.problem) == problem
