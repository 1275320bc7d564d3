"""Objects of Dynamic Resource Allocation as Kubernetes writes them, for tests."""

from __future__ import annotations

from typing import Any

from tests.builders import Json, metadata_json

NVIDIA = "gpu.nvidia.com"


def device_json(name: str = "gpu-0", **fields: Any) -> Json:
    """Return a device of a slice."""
    return {"name": name, **fields}


def slice_json(
    name: str = "slice-0",
    *devices: Json,
    driver: str = NVIDIA,
    pool: str = "",
    node: str = "node-1",
    generation: int = 1,
    slices: int = 1,
    **spec: Any,
) -> Json:
    """Return a ResourceSlice of `node`, whose name its pool has; with node "" what `spec` says decides."""
    where = {"nodeName": node} if node else {}
    pool_json = {"name": pool or node or "pool", "generation": generation, "resourceSliceCount": slices}
    return {
        "metadata": metadata_json(name),
        "spec": {"driver": driver, "pool": pool_json, "devices": list(devices), **where, **spec},
    }


def class_json(name: str = NVIDIA, *selectors: str, resource: str | None = None, created: str | None = None) -> Json:
    """Return a DeviceClass."""
    spec: Json = {"selectors": [{"cel": {"expression": each}} for each in selectors]}
    if resource is not None:
        spec["extendedResourceName"] = resource
    metadata = metadata_json(name) | ({"creationTimestamp": created} if created else {})
    return {"metadata": metadata, "spec": spec}


def request_json(name: str = "gpu", device_class: str = NVIDIA, *selectors: str, **fields: Any) -> Json:
    """Return a request for exactly one class of devices."""
    return {"name": name, "exactly": option_json(None, device_class, *selectors, **fields)}


def option_json(name: str | None, device_class: str = NVIDIA, *selectors: str, **fields: Any) -> Json:
    """Return one of several requests of which the first that can be had counts."""
    named: Json = {} if name is None else {"name": name}
    if selectors:
        fields["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return named | {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1} | fields


def claim_json(
    name: str = "claim", *requests: Json, constraints: list[Json] | None = None, status: Json | None = None
) -> Json:
    """Return a ResourceClaim in namespace `default`."""
    devices: Json = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = constraints
    claim: Json = {"metadata": metadata_json(name, namespace="default"), "spec": {"devices": devices}}
    return claim | ({"status": status} if status is not None else {})


#: A slice, a class, a claim, a template and a rule with every field that is read.
FULL_SLICE = slice_json(
    "slice-0",
    device_json(
        "gpu-0",
        attributes={
            "index": {"int": 0},
            "healthy": {"bool": True},
            "productName": {"string": "NVIDIA H100"},
            "driverVersion": {"version": "570.86.15"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
            "lists.example.com/a": {"ints": [1]},
            "lists.example.com/b": {"bools": [True]},
            "lists.example.com/c": {"strings": ["x"]},
            "lists.example.com/d": {"versions": ["1.0.0"]},
        },
        capacity={
            "memory": {
                "value": "80Gi",
                "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "80Gi", "step": "1Gi"}},
            },
            "cores": {"value": "100", "requestPolicy": {"default": "25", "validValues": ["25", "50", "100"]}},
        },
        consumesCounters=[{"counterSet": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}],
        nodeSelector={
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]
        },
        taints=[{"key": "unhealthy", "value": "xid", "effect": "NoSchedule"}],
        bindsToNode=True,
        bindingConditions=["ready"],
        bindingFailureConditions=["failed"],
        allowMultipleAllocations=True,
    ),
    node="",
    perDeviceNodeSelection=True,
    sharedCounters=[{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}],
)
FULL_CLASS = class_json(NVIDIA, "device.driver == 'gpu.nvidia.com'", resource="nvidia.com/gpu")
_TOLERATION = {"key": "unhealthy", "operator": "Equal", "value": "xid", "effect": "NoSchedule"}
FULL_CLAIM = claim_json(
    "claim",
    request_json(
        "gpu", NVIDIA, "true", adminAccess=True, tolerations=[_TOLERATION], capacity={"requests": {"memory": "10Gi"}}
    ),
    {
        "name": "any",
        "firstAvailable": [
            option_json("big", NVIDIA, "true", count=2),
            option_json("all", NVIDIA, allocationMode="All"),
        ],
    },
    constraints=[
        {"requests": ["gpu"], "matchAttribute": "resource.kubernetes.io/pcieRoot"},
        {"distinctAttribute": "gpu.nvidia.com/index"},
    ],
    status={
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "gpu",
                        "driver": NVIDIA,
                        "pool": "node-1",
                        "device": "gpu-0",
                        "adminAccess": True,
                        "shareID": "0c2b",
                        "consumedCapacity": {"memory": "10Gi"},
                    }
                ]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
                ]
            },
        },
        "reservedFor": [{"apiGroup": "", "resource": "pods", "name": "worker-0", "uid": "u"}],
    },
)
FULL_TEMPLATE: Json = {
    "metadata": metadata_json("template", namespace="default"),
    "spec": {"spec": FULL_CLAIM["spec"]},
}
FULL_RULE: Json = {
    "metadata": metadata_json("rule"),
    "spec": {
        "deviceSelector": {"driver": NVIDIA, "pool": "node-1", "device": "gpu-0"},
        "taint": {"key": "maintenance", "value": "tonight", "effect": "NoSchedule"},
    },
}
