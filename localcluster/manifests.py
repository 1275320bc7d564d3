"""Render this repository's manifests as `kubectl apply -k` would, and apply them."""

import subprocess
from pathlib import Path

import httpx
import yaml

from localcluster.client import ApiClient, JsonObject, Resource
from localcluster.errors import ApiError, LocalClusterError
from localcluster.waiting import wait_until

MANIFESTS = Path(__file__).parent.parent / "manifests"

CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)

#: How long the API server may take to serve a new CRD, in seconds.
SERVED_TIMEOUT_SECONDS = 15.0


def render(kubectl: Path, directory: Path = MANIFESTS) -> list[JsonObject]:
    """Return the objects of a kustomization, in the order in which kubectl applies them.

    Raises LocalClusterError with kubectl's words if it cannot be rendered.
    """
    answer = subprocess.run(  # noqa: S603 - the kubectl that this package built
        [str(kubectl), "kustomize", str(directory)], check=False, capture_output=True, text=True
    )
    if answer.returncode != 0:
        raise LocalClusterError(f"{directory} cannot be rendered: {answer.stderr.strip()}")
    return [item for item in yaml.safe_load_all(answer.stdout) if item is not None]


def apply_all(api: ApiClient, objects: list[JsonObject]) -> None:
    """Apply objects in order with server-side apply, and wait until the API server serves every CRD among them."""
    for item in objects:
        api.apply(item)
    names = [item["metadata"]["name"] for item in objects if item["kind"] == CUSTOM_RESOURCE_DEFINITIONS.kind]
    wait_until(
        lambda: all(_served(api, name) for name in names),
        timeout_seconds=SERVED_TIMEOUT_SECONDS,
        description=f"CRDs served: {', '.join(names)}",
    )


def _served(api: ApiClient, crd_name: str) -> bool:
    """Return whether objects of a CRD can be listed: some time after it is Established its storage is ready too."""
    definition = api.get(CUSTOM_RESOURCE_DEFINITIONS, crd_name)
    conditions = definition.get("status", {}).get("conditions") or []  # null until the server has looked at it
    if not any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions):
        return False
    spec = definition["spec"]
    resource = Resource(
        f"{spec['group']}/{spec['versions'][0]['name']}",
        spec["names"]["kind"],
        spec["names"]["plural"],
        namespaced=spec["scope"] == "Namespaced",
    )
    try:
        api.list_items(resource)
    except ApiError as error:
        if error.status == httpx.codes.TOO_MANY_REQUESTS:
            return False
        raise
    return True
