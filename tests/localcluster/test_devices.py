"""Devices, classes and claims as objects."""

from localcluster.devices import (
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    allocated_devices,
    claim,
    claim_spec,
    claim_template,
    claiming,
    device_class,
    gpus_of,
    resource_slice,
)


def test_a_nodes_slice_is_a_whole_pool() -> None:
    """One slice has all GPUs of a node, and says that there is no other."""
    spec = resource_slice("node-0", gpus_of(2, memory="40Gi"), generation=3)["spec"]
    assert (spec["nodeName"], spec["driver"]) == ("node-0", "gpu.nvidia.com")
    assert spec["pool"] == {"name": "node-0", "generation": 3, "resourceSliceCount": 1}
    assert [device["name"] for device in spec["devices"]] == ["gpu-0", "gpu-1"]
    assert spec["devices"][1]["capacity"] == {"memory": {"value": "40Gi"}}


def test_a_class_names_an_extended_resource_only_if_asked() -> None:
    """A class takes all devices of its driver, fewer with further selectors."""
    assert "extendedResourceName" not in device_class()["spec"]
    spec = device_class("big", extended_resource="nvidia.com/gpu", selectors=["true"])["spec"]
    assert spec["extendedResourceName"] == "nvidia.com/gpu"
    assert [each["cel"]["expression"] for each in spec["selectors"]] == ["device.driver == 'gpu.nvidia.com'", "true"]


def test_pods_name_a_template_or_a_claim() -> None:
    """A template and a claim have the same spec; a pod refers to either by name."""
    spec = claim_spec(6, selectors=["true"])
    (request,) = spec["devices"]["requests"]
    assert request["exactly"]["count"] == 6
    (constraint,) = claim_spec(2, alike="a/b")["devices"]["constraints"]
    assert constraint == {"requests": [request["name"]], "matchAttribute": "a/b"}
    assert claim("shared", spec)["spec"] == claim_template("own", spec)["spec"]["spec"] == spec
    assert claim("shared", spec)["kind"] == RESOURCE_CLAIMS.kind
    assert claim_template("own", spec)["kind"] == RESOURCE_CLAIM_TEMPLATES.kind
    assert claiming(template="own")["resourceClaims"][0]["resourceClaimTemplateName"] == "own"
    assert claiming(shared="shared")["resourceClaims"][0]["resourceClaimName"] == "shared"


def test_a_claim_holds_what_it_was_allocated() -> None:
    """A claim without allocation holds nothing."""
    new = claim("shared", claim_spec(1))
    assert allocated_devices(new) == []
    result = {"driver": "gpu.nvidia.com", "pool": "node-0", "device": "gpu-3", "request": "gpus"}
    given = {**new, "status": {"allocation": {"devices": {"results": [result]}}}}
    assert allocated_devices(given) == [("gpu.nvidia.com", "node-0", "gpu-3")]
