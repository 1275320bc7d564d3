"""What a driver of Dynamic Resource Allocation publishes, and what pods ask of it. No driver runs: kwok plays none."""

from collections.abc import Iterable, Mapping, Sequence

from localcluster.client import JsonObject, Resource

API_VERSION = "resource.k8s.io/v1"
RESOURCE_SLICES = Resource(API_VERSION, "ResourceSlice", "resourceslices", namespaced=False)
DEVICE_CLASSES = Resource(API_VERSION, "DeviceClass", "deviceclasses", namespaced=False)
RESOURCE_CLAIMS = Resource(API_VERSION, "ResourceClaim", "resourceclaims", namespaced=True)
RESOURCE_CLAIM_TEMPLATES = Resource(API_VERSION, "ResourceClaimTemplate", "resourceclaimtemplates", namespaced=True)

#: NVIDIA's driver and its class of whole GPUs are called the same.
GPU_DRIVER = GPU_CLASS = "gpu.nvidia.com"
#: The attribute by which devices are told that share a PCIe root, whatever driver they have.
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
#: The name by which a pod's spec, and its template, mean the one claim of `claiming`.
_CLAIM = "gpus"


def gpus_of(count: int, *, product: str = "NVIDIA H100 80GB HBM3", memory: str = "80Gi") -> list[JsonObject]:
    """Return whole GPUs of one product as NVIDIA's driver describes them, `gpu-0` and up, two on each PCIe root."""
    return [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{index}"},
                "productName": {"string": product},
                PCIE_ROOT: {"string": f"pci0000:{index // 2:02}"},
            },
            "capacity": {"memory": {"value": memory}},
        }
        for index in range(count)
    ]


def resource_slice(
    node: str, devices: Sequence[JsonObject], *, driver: str = GPU_DRIVER, generation: int = 1
) -> JsonObject:
    """Return the one slice of a node's pool, which is called like the node."""
    return {
        "apiVersion": API_VERSION,
        "kind": RESOURCE_SLICES.kind,
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def device_class(
    name: str = GPU_CLASS, *, driver: str = GPU_DRIVER, extended_resource: str = "", selectors: Iterable[str] = ()
) -> JsonObject:
    """Return a class of all devices of a driver that the CEL expressions in `selectors` match."""
    expressions = [f"device.driver == '{driver}'", *selectors]
    spec: JsonObject = {"selectors": [{"cel": {"expression": expression}} for expression in expressions]}
    if extended_resource:
        spec["extendedResourceName"] = extended_resource
    return {"apiVersion": API_VERSION, "kind": DEVICE_CLASSES.kind, "metadata": {"name": name}, "spec": spec}


def claim_spec(count: int, *, of: str = GPU_CLASS, selectors: Iterable[str] = (), alike: str = "") -> JsonObject:
    """Return the spec of a claim of `count` devices of a class that CEL expressions match.

    All of them have the same value of the attribute `alike`, if one is named.
    """
    request: JsonObject = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count}
    if expressions := [{"cel": {"expression": expression}} for expression in selectors]:
        request["selectors"] = expressions
    devices: JsonObject = {"requests": [{"name": _CLAIM, "exactly": request}]}
    if alike:
        devices["constraints"] = [{"requests": [_CLAIM], "matchAttribute": alike}]
    return {"devices": devices}


def claim_template(name: str, spec: JsonObject, *, namespace: str = "default") -> JsonObject:
    """Return a template from which each pod that names it gets a claim of its own."""
    return {
        "apiVersion": API_VERSION,
        "kind": RESOURCE_CLAIM_TEMPLATES.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": spec},
    }


def claim(name: str, spec: JsonObject, *, namespace: str = "default") -> JsonObject:
    """Return a claim that all pods share that name it."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": RESOURCE_CLAIMS.kind, "metadata": metadata, "spec": spec}


def claiming(*, template: str = "", shared: str = "") -> JsonObject:
    """Return what is to be added to the spec of a pod of one container that uses a claim of a template, or one by name.

    The container is `PodTemplate`'s own, which needs no mention of it: the scheduler looks at pods alone.
    """
    named = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": shared}
    return {"resourceClaims": [{"name": _CLAIM, **named}]}


def allocated_devices(claim: Mapping[str, JsonObject]) -> list[tuple[str, str, str]]:
    """Return driver, pool and name of each device that a claim has been allocated."""
    allocation = claim.get("status", {}).get("allocation") or {}
    results = allocation.get("devices", {}).get("results", ())
    return [(each["driver"], each["pool"], each["device"]) for each in results]
